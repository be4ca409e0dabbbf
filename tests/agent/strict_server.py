"""A strict OpenAI-compatible server: knows the standard chat-completions fields and refuses every other.

Behind it sits a tiny seeing model, no more than enough for the toy environment: it decodes the last image it was sent,
finds the patch of the colour that the task names, and replies in the dialect it was spoken to, pointing in that
dialect's frame. So a wrong image, a wrong size or a wrong frame makes it miss, as with a real model.
"""

from __future__ import annotations

import base64
import io
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from PIL import Image
from pydantic import BaseModel, ConfigDict

from tests.agent.toy import COLOURS


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ImageURL(Strict):
    url: str


class Part(Strict):
    type: Literal["text", "image_url"]
    text: str | None = None
    image_url: ImageURL | None = None


class Function(Strict):
    name: str
    arguments: str


class Call(Strict):
    id: str
    type: Literal["function"]
    function: Function


class ChatMessage(Strict):
    role: Literal["system", "user", "assistant", "tool"]
    content: str | list[Part]
    tool_calls: list[Call] | None = None
    tool_call_id: str | None = None


class ChatRequest(Strict):
    model: str
    messages: list[ChatMessage]
    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    seed: int | None = None
    response_format: dict[str, Any] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None


class StrictServer:
    """`troubles` is a list of (status, body) to answer first; requests that got through are kept in `requests`.
    `refuses`: fields that it does not take, and what it says then. `odd`: what it answers instead of a completion."""

    def __init__(self) -> None:
        self.requests: list[ChatRequest] = []
        self.headers: list[dict[str, str]] = []
        self.troubles: list[tuple[int, dict[str, Any]]] = []
        self.refuses: dict[str, str] = {}
        self.odd: list[Any] = []
        self.babble = 0  # reply nonsense this many times
        self.url = ""
        self.app = FastAPI()
        self.app.add_exception_handler(RequestValidationError, self._invalid)
        self.app.post("/v1/chat/completions")(self._complete)
        self.app.get("/v1/models")(self._models)

    async def _invalid(self, request: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"error": {"message": str(error), "type": "invalid_request_error"}}, 400)

    async def _models(self) -> dict[str, Any]:
        return {"object": "list", "data": [{"id": "seer", "object": "model", "created": 0, "owned_by": "test"}]}

    async def _complete(self, request: ChatRequest, raw: Request) -> JSONResponse:
        self.headers.append(dict(raw.headers))
        if self.troubles:
            status, body = self.troubles.pop(0)
            return JSONResponse({"error": body}, status, headers={"retry-after-ms": "10"})
        if request.model != "seer":
            return JSONResponse({"error": {"message": "no such model", "code": "model_not_found"}}, 404)
        if says := [says for name, says in self.refuses.items() if name in request.model_fields_set]:
            return JSONResponse({"error": {"message": says[0]}}, 400)
        self.requests.append(request)
        if self.odd:
            return JSONResponse(self.odd.pop(0))
        message: dict[str, Any] = {"role": "assistant", "content": "I shall think about it."}
        if self.babble:
            self.babble -= 1
        else:
            message |= see(request)
        images = sum(part.type == "image_url" for item in request.messages for part in parts(item))
        usage = {"prompt_tokens": 100 * images, "completion_tokens": 7, "total_tokens": 100 * images + 7}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if request.tools else "stop"}
        body = {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": "seer",
            "choices": [choice],
            "usage": usage,
        }
        return JSONResponse(body)


def parts(message: ChatMessage) -> list[Part]:
    return [Part(type="text", text=message.content)] if isinstance(message.content, str) else message.content


def see(request: ChatRequest) -> dict[str, Any]:
    """Look at the last image and reply in the language of the request."""
    texts = [part.text or "" for message in request.messages for part in parts(message)]
    goal = re.search(r"Press the (\w+) button", " ".join(texts))
    assert goal is not None
    urls = [part.image_url.url for message in request.messages for part in parts(message) if part.image_url]
    image = Image.open(io.BytesIO(base64.b64decode(urls[-1].partition(",")[2]))).convert("RGB")
    x, y = find_colour(image, COLOURS[goal[1]])
    thousand = round(x / image.width * 1000), round(y / image.height * 1000)
    if request.tools:
        arguments = {"element": goal[1], "x": thousand[0], "y": thousand[1]}
        function = {"name": "click", "arguments": json.dumps(arguments)}
        return {"content": None, "tool_calls": [{"id": "abc", "type": "function", "function": function}]}
    if "output_json_format" in texts[0]:
        action = {"action": "click_element", "element": goal[1], "x": round(x), "y": round(y)}
        return {"content": json.dumps({"thought": "", "notes": "", "action": action})}
    if "output_format" in texts[0]:
        tool = "click_desktop" if "click_desktop" in texts[0] else "click"
        call = {"tool_name": tool, "element": goal[1], "x": thousand[0], "y": thousand[1]}
        return {"content": json.dumps({"note": None, "thought": "there", "tool_call": call})}
    return {"content": f"click {min(thousand[0], 999):03} {min(thousand[1], 999):03}"}


def find_colour(image: Image.Image, colour: tuple[int, int, int]) -> tuple[float, float]:
    """The middle of the pixels of this colour."""
    distance = np.abs(np.asarray(image, dtype=np.int32) - colour).sum(axis=2)
    rows, columns = np.nonzero(distance < 60)
    assert len(rows), "the colour is not in the picture"
    return float(columns.mean()) + 0.5, float(rows.mean()) + 0.5


@contextmanager
def strict_server() -> Iterator[StrictServer]:
    double = StrictServer()
    server = uvicorn.Server(uvicorn.Config(double.app, host="127.0.0.1", port=0, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    double.url = f"http://127.0.0.1:{port}/v1"
    try:
        yield double
    finally:
        server.should_exit = True
        thread.join()
