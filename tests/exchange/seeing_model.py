"""A model behind an OpenAI-compatible address that sees: it finds the box of the named colour in the last screenshot.

    with seeing_model() as (url, requests): ...

It answers in the words of the `holotron` dialect, coordinates 0-1000. Standard library, numpy and Pillow only, so that
it runs anywhere.
"""

from __future__ import annotations

import base64
import io
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
from PIL import Image

from holotron.suites.painted import COLOURS

Request = dict[str, Any]
Say = Callable[[Request], str | dict[str, Any]]


def click_the_colour(request: Request) -> str:
    parts = [part for m in request["messages"] if isinstance(m["content"], list) for part in m["content"]]
    pictures = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    words = " ".join(part["text"] for part in parts if part["type"] == "text")
    goal = re.search(r"<task>(.*?)</task>", words, re.S)
    assert goal is not None
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(pictures[-1].split(",")[1]))).convert("RGB"), np.int16)
    for colour in re.findall("|".join(COLOURS), goal[1]):
        rows, columns = np.nonzero(np.abs(pixels - np.asarray(COLOURS[colour])).max(-1) < 12)
        if len(rows):
            x, y = int(columns.mean() / pixels.shape[1] * 1000), int(rows.mean() / pixels.shape[0] * 1000)
            call = {"tool_name": "click", "element": f"{colour} box", "x": x, "y": y}
            return json.dumps({"note": None, "thought": f"the {colour} one", "tool_call": call})
    return "I see no such box."


@contextmanager
def seeing_model(say: Say = click_the_colour) -> Iterator[tuple[str, list[Request]]]:
    requests: list[Request] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            requests.append(body)
            said = say(body)
            message = {"role": "assistant", "content": said} if isinstance(said, str) else said
            done = "tool_calls" if message.get("tool_calls") else "stop"
            answer = {
                "id": f"chat-{len(requests)}", "object": "chat.completion", "created": 1, "model": body["model"],
                "choices": [{"index": 0, "message": message, "finish_reason": done}],
                "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
            }  # fmt: skip
            data = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", requests
    finally:
        server.shutdown()
        server.server_close()
