"""Requests for responses that a hostile or confused client might send: conversations with every kind of item, in any
order, continued from anywhere. No 5xx but 503, every error in its usual shape, nothing left behind."""

from __future__ import annotations

import json
import threading
from collections import Counter
from typing import Any

import httpx
import pytest

from tests.server.generated import Generated, Maker, problem_with
from tests.server.process import ServerProcess

COUNT, CLIENTS = 600, 3

FIELDS = [
    "instructions", "store", "stream", "tools", "tool_choice", "parallel_tool_calls", "text", "reasoning", "seed",
    "temperature", "top_p", "top_logprobs", "truncation", "include", "metadata", "background", "conversation", "prompt",
    "user", "chat_template_kwargs", "surprise", "max_tool_calls", "image",
]  # fmt: skip


class ItemMaker(Maker):
    """Makes requests, and remembers what the answers said, to come back to it."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.ids, self.items = ["resp_none"], [{"id": "msg_none", "type": "message", "role": "user", "content": "x"}]

    def item_part(self) -> Any:
        kinds = ("input_text", "output_text", "refusal", "input_image", "input_file", "text")
        part: dict[str, Any] = {"type": self.one_of(*kinds)}
        names = {"refusal": "refusal", "input_image": "image_url"}
        part[names.get(part["type"], "text")] = self.picture() if part["type"] == "input_image" else self.text()
        return part if self.chance(0.95) else self.junk()

    def content(self) -> Any:
        return self.text() if self.chance(0.4) else [self.item_part() for _ in range(self.draw.randrange(3))]

    def action(self) -> Any:
        kind = self.one_of("click", "double_click", "drag", "keypress", "move", "screenshot", "scroll", "type", "wait")
        point = {"x": self.one_of(0, 5, -1, 10**9, "1"), "y": self.one_of(0, 7)}
        more = {
            "click": {"button": self.one_of("left", "right", "wheel", 3)},
            "drag": {"path": self.one_of([point, point], [], [point], self.junk())},
            "keypress": {"keys": self.one_of(["CTRL", "a"], ["ENTER"], [], ["+"], "x", self.junk())},
            "scroll": {"scroll_x": self.one_of(0, 5, None), "scroll_y": self.one_of(0, -100)},
            "type": {"text": self.text()},
        }
        return {"type": kind, **point, **more.get(kind, {})} if self.chance(0.9) else self.junk(1)

    def item(self) -> Any:
        call = self.one_of("c1", "c2", "call_x.W3sidHlwZSI6ICJ3YWl0In1d", "call_x.!!")
        role = self.one_of("user", "user", "assistant", "system", "developer")
        shapes = (
            {"role": role, "content": self.content()},
            {"type": "message", "role": role, "content": self.content()},
            {"type": "function_call", "call_id": call, "name": "look", "arguments": self.one_of("{}", "{", "[]")},
            {"type": "function_call_output", "call_id": call, "output": self.content()},
            {"type": "computer_call", "call_id": call, "actions": [self.action() for _ in range(2)]},
            {"type": "computer_call", "call_id": call, "action": self.action()},
            {"type": "computer_call_output", "call_id": call, "output": self._shot()},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": self.text()}]},
            {"type": "item_reference", "id": self.draw.choice(self.items)["id"]},
            self.draw.choice(self.items),
            {"type": self.text()[:20]},
        )
        return self.draw.choice(shapes) if self.chance(0.97) else self.junk()

    def _shot(self) -> Any:
        return {"type": "computer_screenshot", "image_url": self.picture()} if self.chance(0.9) else self.junk(1)

    def input(self) -> Any:
        if self.chance(0.2):
            return self.text()
        if self.chance(0.4):  # a run on the computer, as it should be
            parts = [{"type": "input_text", "text": self.text()}, {"type": "input_image", "image_url": self.picture()}]
            calls = [
                {"type": "computer_call", "call_id": "c1", "actions": [self.action()]},
                {"type": "computer_call_output", "call_id": "c1", "output": self._shot()},
            ]
            return [{"role": "user", "content": parts}, *self.one_of([], calls)]
        return [self.item() for _ in range(self.draw.randrange(5))]

    def value(self, name: str) -> Any:
        if self.chance(0.05):
            return self.junk()
        match name:
            case "tools":
                computer = {"type": "computer_use_preview", "display_width": self.one_of(1, 64), "display_height": 64}
                function = {"type": "function", "name": "look", "parameters": self.schema()}
                other = {"type": "web_search"}
                one = self.one_of({"type": "computer"}, computer, function, other)
                return [one] if self.chance(0.8) else [one, function]
            case "tool_choice":
                return self.one_of(
                    "none", "auto", "required", {"type": "computer"}, {"type": "function", "name": "look"}
                )
            case "text":
                schema = {"type": "json_schema", "name": "x", "schema": self.schema()}
                return {"format": self.one_of({"type": "text"}, {"type": "json_object"}, schema, {"type": "regex"})}
            case "reasoning":
                return {"effort": self.one_of("none", "low", "max", "odd")}
            case "truncation":
                return self.one_of("auto", "disabled", "odd")
            case "include":
                return [self.one_of("message.output_text.logprobs", "reasoning.encrypted_content", "odd")]
            case "metadata":
                return {self.text()[:80]: self.text()[:600]}
            case "store" | "stream" | "parallel_tool_calls" | "background":
                return self.one_of(True, False)
            case "instructions" | "user":
                return self.text()
            case "conversation" | "prompt" | "image":
                return self.one_of(None, None, "x")
        return super().value(name)

    def request(self) -> Generated:
        id = self.draw.choice(self.ids[-6:])
        if self.chance(0.15):
            method, path = self.one_of(
                ("GET", f"/{id}"),
                ("DELETE", f"/{id}"),
                ("GET", f"/{id}/input_items?limit={self.one_of(1, 0, 'x')}"),
                ("GET", f"/{id}/input_items?order=asc&after={self.draw.choice(self.items)['id']}"),
                ("POST", f"/{id}/cancel"),
            )
            return Generated(method, f"/v1/responses{path}", b"")
        body = self._some(FIELDS, 2) | {"input": self.input(), "max_output_tokens": self.one_of(1, 2, 3)}
        if self.chance(0.4):
            body["previous_response_id"] = id
        return Generated("POST", "/v1/responses", json.dumps(body).encode(), {"content-type": "application/json"})

    def learn(self, answer: httpx.Response) -> None:
        if answer.status_code == 200 and answer.headers["content-type"] == "application/json":
            body = answer.json()
            if body.get("object") == "response" and "output" in body:
                self.ids.append(body["id"])
                self.items += body["output"]
                del self.items[:-20]


def test_no_request_breaks_it(server: ServerProcess) -> None:
    problems: list[str] = []
    statuses: Counter[int] = Counter()

    def client(seed: int) -> None:
        maker = ItemMaker(seed)
        with httpx.Client(base_url=server.url, timeout=120) as http:
            for _ in range(COUNT // CLIENTS):
                request = maker.request()
                answer = http.request(request.method, request.path, content=request.body, headers=request.headers)
                statuses[answer.status_code] += 1
                maker.learn(answer)
                if (problem := problem_with(request, answer)) is not None:
                    problems.append(problem)
                if "event-stream" in answer.headers["content-type"]:
                    last = answer.text.strip().rpartition("event: ")[2].partition("\n")[0]
                    if last not in ("response.completed", "response.incomplete"):
                        problems.append(f"{request}: ends with {last}")

    threads = [threading.Thread(target=client, args=(seed,)) for seed in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        pytest.fail(f"{len(problems)} of {COUNT}:\n" + "\n".join(problems[:10]))
    assert statuses[200] > COUNT // 6  # it was not all refused at the door
    assert statuses[400] > COUNT // 20
    assert statuses[404] > COUNT // 60
    metrics = server.settled(60)
    assert metrics["holotron_integrity_failures_total"] == 0
    assert not [line for line in server.lines if line["level"] == "error"]
