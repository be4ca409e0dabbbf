"""From a reply's pieces to output items, and to the events that tell them while they grow.

    writer = Writer()
    for part in parts: events += writer.push(part)           # a `ReplyPart`: reasoning, content, calls
    events += writer.close()
    writer.items                                             # the response's output

The order of events is OpenAI's: an item is added, its part is added, deltas, the text is done, the part is done, the
item is done; then the next. Whoever does not stream leaves the events alone: items are written by the same code.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from holotron.model.processor import ReplyPart, ToolCall
from holotron.server.errors import ApiError
from holotron.server.limits import size_of
from holotron.server.replies import new_id
from holotron.server.responses.items import Json, new_item_id
from holotron.server.running import EventStream
from holotron.server.writing import dumps, slices

_ENOUGH = 8192  # bytes to send at once


class Writer:
    def __init__(self) -> None:
        self.items: list[Json] = []
        self.logprob_bytes = 0  # about; counted as they come
        self._open: Json | None = None  # the last item, while text may still be added to it

    def push(self, part: ReplyPart, logprobs: Sequence[Json] = ()) -> list[Json]:
        events: list[Json] = []
        if part.reasoning:
            events += self._text("reasoning", part.reasoning)
        if part.content:
            events += self._text("message", part.content, logprobs)
        for call in part.tool_calls:
            events += [*self.close(), *self._call(call)]
        return events

    def add(self, item: Json) -> list[Json]:
        """An item that is complete at once."""
        before = self.close()
        self.items.append(item)
        return [*before, self._about(type="response.output_item.added", item=dict(item)), self._done()]

    def close(self, status: str = "completed") -> list[Json]:
        """The item being written is complete; or was cut off."""
        item = self._open
        if item is None:
            return []
        self._open = None
        item["status"] = status
        part = item["content"][0]
        about = {"item_id": item["id"], "output_index": len(self.items) - 1, "content_index": 0}
        if item["type"] == "message":
            done = {"type": "response.output_text.done", "text": part["text"], "logprobs": part["logprobs"], **about}
        else:
            done = {"type": "response.reasoning_text.done", "text": part["text"], **about}
        return [done, {"type": "response.content_part.done", "part": dict(part), **about}, self._done()]

    def _text(self, kind: str, delta: str, logprobs: Sequence[Json] = ()) -> list[Json]:
        events: list[Json] = []
        if self._open is None or self._open["type"] != kind:
            events += [*self.close(), *self.begin(kind)]
        assert self._open is not None
        part = self._open["content"][0]
        part["text"] += delta
        about = {"item_id": self._open["id"], "output_index": len(self.items) - 1, "content_index": 0}
        if kind == "message":
            part["logprobs"] += logprobs
            self.logprob_bytes += size_of(list(logprobs), 2**62)
            event = {"type": "response.output_text.delta", "delta": delta, "logprobs": list(logprobs), **about}
        else:
            event = {"type": "response.reasoning_text.delta", "delta": delta, **about}
        return [*events, event]

    def begin(self, kind: str) -> list[Json]:
        item: Json = {"id": new_item_id(kind), "type": kind, "status": "in_progress"}
        if kind == "message":
            item |= {"role": "assistant"}
            part: Json = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        else:
            item |= {"summary": []}
            part = {"type": "reasoning_text", "text": ""}
        self.items.append(item)
        self._open = item
        about = {"item_id": item["id"], "output_index": len(self.items) - 1, "content_index": 0}
        added = self._about(type="response.output_item.added", item={**item, "content": []})
        item["content"] = [part]
        return [added, {"type": "response.content_part.added", "part": _copy(part), **about}]

    def _call(self, call: ToolCall) -> list[Json]:
        arguments = json.dumps(call.arguments, ensure_ascii=False)
        item: Json = {
            "id": new_item_id("function_call"),
            "type": "function_call",
            "status": "completed",
            "call_id": new_id("call"),
            "name": call.name,
            "arguments": arguments,
        }
        self.items.append(item)
        about = {"item_id": item["id"], "output_index": len(self.items) - 1}
        begun = {**item, "arguments": "", "status": "in_progress"}
        named = {"name": call.name}
        return [
            self._about(type="response.output_item.added", item=begun),
            {"type": "response.function_call_arguments.delta", "delta": arguments, **about},
            {"type": "response.function_call_arguments.done", "arguments": arguments, **about, **named},
            self._done(),
        ]

    def _done(self) -> Json:
        item = self.items[-1]
        if "content" in item:
            item = {**item, "content": [_copy(part) for part in item["content"]]}
        return self._about(type="response.output_item.done", item=dict(item))

    def _about(self, **event: Any) -> Json:
        return {"output_index": len(self.items) - 1, **event}


def _copy(part: Json) -> Json:
    """Events are written later than they are made, and the lists in a part grow."""
    return {key: list(value) if isinstance(value, list) else value for key, value in part.items()}


class ResponseEvents(EventStream):
    """Events have names and numbers here, and the stream ends with the last of them. One that cannot go on says so in
    an event of its own."""

    _number = -1

    def event(self, chunk: Json) -> bytes:
        self._number += 1
        return f"event: {chunk['type']}\ndata: {dumps(chunk | {'sequence_number': self._number})}\n\n".encode()

    def slices(self, chunk: Json) -> Iterator[bytes]:
        if chunk["type"].endswith((".delta", ".added")):
            yield self.event(chunk)
            return
        self._number += 1
        data = f"event: {chunk['type']}\ndata: ".encode()
        for piece in slices(chunk | {"sequence_number": self._number}):  # of all tokens so far
            data += piece
            if len(data) > _ENOUGH:
                yield data
                data = b""
        yield data + b"\n\n"

    def end(self) -> bytes:
        return b""

    def failure(self, answer: ApiError) -> bytes:
        return self.event(
            {"type": "error", "code": answer.code or answer.type, "message": answer.message, "param": answer.param}
        )
