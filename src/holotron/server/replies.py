"""From tokens to the pieces of a response: text, reasoning, tool calls, logprobs, usage; whole or as they stream."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice
from typing import Any, Protocol

from holotron.engine import Result, TokenEvent
from holotron.model.processor import ReplyParser, ReplyPart, StreamDecoder, Tokenizer, ToolCall
from holotron.server.errors import ApiError, unavailable
from holotron.server.routed import new_hex
from holotron.server.writing import Rows

Json = dict[str, Any]
MIN_LOGPROB = -9999.0  # JSON has no minus infinity


def new_id(prefix: str) -> str:
    return f"{prefix}-{new_hex(12)}"


def token_logprob(tokenizer: Tokenizer, token: int, logprob: float) -> Json:
    data = tokenizer.bytes_of(token)
    return {"token": data.decode(errors="replace"), "logprob": max(logprob, MIN_LOGPROB), "bytes": list(data)}


def chat_logprobs(tokenizer: Tokenizer, events: Iterable[TokenEvent]) -> Iterator[Json]:
    for event in events:
        tops = [token_logprob(tokenizer, token, logprob) for token, logprob in event.top_logprobs]
        yield token_logprob(tokenizer, event.token, event.logprob) | {"top_logprobs": tops}


def events_of(result: Result) -> Iterator[TokenEvent]:
    """A result's tokens one by one, without their text."""
    tops = result.top_logprobs or ((),) * len(result.tokens)
    rows = zip(result.tokens, result.logprobs, result.versions, result.forced, tops, strict=True)
    return (TokenEvent(token, "", logprob, version, forced, top) for token, logprob, version, forced, top in rows)


def finish_reason(result: Result, called: bool = False) -> str:
    if called and result.finish_reason == "stop":
        return "tool_calls"
    return "stop" if result.finish_reason == "stop" else "length"


def check(result: Result) -> Result:
    """A reply that ran out of time before its first token is no reply; neither is one that was called off."""
    if result.finish_reason == "cancelled":
        raise ApiError(409, "the generation was cancelled: its session was closed", code="cancelled")
    if result.finish_reason == "deadline" and not result.tokens:
        raise unavailable("the request waited too long for its turn", "timed_out_waiting")
    return result


def token_ids(tokens: Iterable[int], versions: Iterable[int]) -> Json:
    """The extension `return_token_ids`."""
    return {"token_ids": list(tokens), "versions": list(versions)}


def _ids_of(events: Sequence[TokenEvent]) -> Json:
    return token_ids((event.token for event in events), (event.version for event in events))


def call_object(call: ToolCall) -> Json:
    function = {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)}
    return {"id": new_id("call"), "type": "function", "function": function}


@dataclass
class Usage:
    """Adds up what the choices of one request cost. A prompt counts once, however many choices it has."""

    prompt: int = 0
    cached: int = 0
    generated: int = 0
    reasoning: int = 0
    resumed: str | None = None  # where the cached tokens of the first prompt come from
    warning: str | None = None
    counted: set[int] = field(default_factory=set)  # prompts, by their numbers

    def add(self, result: Result, reasoning: int = 0, *, prompt: int = 0) -> None:
        if prompt not in self.counted:
            self.prompt += result.prompt_tokens
            self.cached += result.cached_tokens
            self.resumed = self.resumed or result.resumed
            self.warning = self.warning or result.warning
        self.counted.add(prompt)
        self.generated += len(result.tokens)
        self.reasoning += reasoning

    def body(self) -> Json:
        return {
            "prompt_tokens": self.prompt,
            "completion_tokens": self.generated,
            "total_tokens": self.prompt + self.generated,
            "prompt_tokens_details": {"cached_tokens": self.cached},
            "completion_tokens_details": {"reasoning_tokens": self.reasoning},
            **self.remarks(),
        }

    def remarks(self) -> Json:
        """Our own, beside OpenAI's fields and never among the details: clients take those for numbers."""
        warning = {"warning": self.warning} if self.warning is not None else {}
        return {"resumed": self.resumed or "nothing", **warning}


def reasoning_tokens(tokenizer: Tokenizer, tokens: Sequence[int]) -> int:
    """Tokens up to the end of the reasoning block, in a reply that has one."""
    decoder, text = StreamDecoder(tokenizer), ""
    for n, token in enumerate(tokens, start=1):
        text = text[-16:] + decoder.push(token)
        if "</think>" in text:
            return n
    return len(tokens)


class Choice(Protocol):
    """One choice of a response: push tokens and finish, or give it the whole result."""

    def first(self) -> Json | None:
        """What a stream begins with."""

    def push(self, event: TokenEvent) -> Json | None:
        """A chunk's choice, or None if this token shows nothing yet."""

    def finish(self, result: Result) -> list[Json]:
        """The last chunks: text that was held back, then the reason."""

    def whole(self, result: Result) -> Json:
        """The choice of a response that does not stream."""

    def reasoning_tokens(self, result: Result) -> int: ...


class ChatChoice:
    """One choice of a chat completion."""

    def __init__(
        self,
        index: int,
        tokenizer: Tokenizer,
        *,
        opens_reasoning: bool,
        tools: Sequence[Json] | None,
        bound: bool,
        logprobs: bool,
        token_ids: bool,
    ) -> None:
        """`bound`: to a grammar."""
        self.index = index
        self._tokenizer = tokenizer
        self._logprobs = logprobs
        self._token_ids = token_ids
        self._parser = ReplyParser(opens_reasoning=opens_reasoning, tools=tools, tokenizer=tokenizer, bound=bound)
        self._whole = ReplyPart()

    def first(self) -> Json:
        return self._chunk({"role": "assistant", "content": ""}, [])

    def push(self, event: TokenEvent) -> Json | None:
        delta = self._delta(self._parser.push(event.text, (event.token,)))
        return self._chunk(delta, [event]) if delta or self._logprobs or self._token_ids else None

    def finish(self, result: Result) -> list[Json]:
        delta = self._delta(self._parser.finish(cut=result.finish_reason != "stop"))
        chunks = [self._chunk(delta, [])] if delta else []
        return [*chunks, self._chunk({}, []) | self._end(result)]

    def whole(self, result: Result) -> Json:
        cut = result.finish_reason != "stop"
        self._whole = self._parser.push(result.text, result.tokens) + self._parser.finish(cut=cut)
        message: Json = {"role": "assistant", "content": self._whole.content, "refusal": None}
        if self._whole.reasoning:
            message["reasoning_content"] = self._whole.reasoning
        if self._whole.tool_calls:
            message["tool_calls"] = [call_object(call) for call in self._whole.tool_calls]
            message["content"] = self._whole.content or None
        logprobs = Rows(lambda: chat_logprobs(self._tokenizer, events_of(result)))
        choice = {"index": self.index, "message": message, "logprobs": self._logprobs_as(logprobs)}
        return choice | self._end(result) | (token_ids(result.tokens, result.versions) if self._token_ids else {})

    def reasoning_tokens(self, result: Result) -> int:
        return reasoning_tokens(self._tokenizer, result.tokens) if self._whole.reasoning else 0

    def _end(self, result: Result) -> Json:
        reason = finish_reason(result, called=bool(self._whole.tool_calls))
        return {"finish_reason": reason, "stop_reason": result.stop}

    def _delta(self, part: ReplyPart) -> Json:
        before = len(self._whole.tool_calls)
        self._whole += part
        delta: Json = {}
        if part.reasoning:
            delta["reasoning_content"] = part.reasoning
        if part.content:
            delta["content"] = part.content
        if part.tool_calls:
            delta["tool_calls"] = [{"index": before + n} | call_object(call) for n, call in enumerate(part.tool_calls)]
        return delta

    def _chunk(self, delta: Json, events: Sequence[TokenEvent]) -> Json:
        logprobs = self._logprobs_as(list(chat_logprobs(self._tokenizer, events)) if self._logprobs else [])
        choice = {"index": self.index, "delta": delta, "logprobs": logprobs, "finish_reason": None}
        return choice | (_ids_of(events) if self._token_ids and events else {})

    def _logprobs_as(self, rows: Rows | list[Json]) -> Json | None:
        return {"content": rows, "refusal": None} if self._logprobs else None


class TextChoice:
    """One choice of a text completion."""

    def __init__(self, index: int, tokenizer: Tokenizer, *, logprobs: bool, token_ids: bool) -> None:
        self.index = index
        self._tokenizer = tokenizer
        self._logprobs = logprobs
        self._token_ids = token_ids
        self._offset = 0

    def first(self) -> None:
        return None

    def reasoning_tokens(self, result: Result) -> int:
        return 0

    def push(self, event: TokenEvent) -> Json | None:
        if not event.text and not self._logprobs and not self._token_ids:
            return None
        return self._choice(event.text, [event])

    def finish(self, result: Result) -> list[Json]:
        return [self._choice("", []) | self._end(result)]

    def whole(self, result: Result) -> Json:
        choice = {"index": self.index, "text": result.text, "logprobs": self._columns(result)}
        return choice | self._end(result) | (token_ids(result.tokens, result.versions) if self._token_ids else {})

    def _end(self, result: Result) -> Json:
        return {"finish_reason": finish_reason(result), "stop_reason": result.stop}

    def _choice(self, text: str, events: Sequence[TokenEvent]) -> Json:
        choice = {"index": self.index, "text": text, "logprobs": self._logprobs_of(events), "finish_reason": None}
        return choice | (_ids_of(events) if self._token_ids and events else {})

    def _logprobs_of(self, events: Sequence[TokenEvent]) -> Json | None:
        """OpenAI's older form: columns instead of rows."""
        if not self._logprobs or not events:
            return None
        words = [self._text(event.token) for event in events]
        *offsets, self._offset = accumulate(map(len, words), initial=self._offset)
        return {
            "tokens": words,
            "token_logprobs": [max(event.logprob, MIN_LOGPROB) for event in events],
            "top_logprobs": [self._tops(event.top_logprobs) for event in events],
            "text_offset": offsets,
        }

    def _columns(self, result: Result) -> Json | None:
        """The same of a whole reply."""
        if not self._logprobs or not result.tokens:
            return None
        tops, lengths = result.top_logprobs or ((),) * len(result.tokens), (len(self._text(t)) for t in result.tokens)
        return {
            "tokens": Rows(lambda: map(self._text, result.tokens)),
            "token_logprobs": Rows(lambda: (max(logprob, MIN_LOGPROB) for logprob in result.logprobs)),
            "top_logprobs": Rows(lambda: map(self._tops, tops)),
            "text_offset": Rows(lambda: islice(accumulate(lengths, initial=0), len(result.tokens))),
        }

    def _tops(self, tops: Iterable[tuple[int, float]]) -> dict[str, float]:
        return {self._text(token): max(logprob, MIN_LOGPROB) for token, logprob in tops}

    def _text(self, token: int) -> str:
        return self._tokenizer.bytes_of(token).decode(errors="replace")
