"""What the trials share. They run in their client's own environment, which holds neither pytest nor holotron:

    python instructor_trials.py '{"policy": {"url": ..., "model": ...}, "tools": {"url": ..., "model": ...}}'

Each trial prints one line of JSON. `POLICY` ends its texts, but its chat template has no tools; `TOOLS` has them, and
random weights, so texts that nothing bounds would not end.
"""

from __future__ import annotations

import base64
import json
import struct
import sys
import time
import traceback
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, Field


@dataclass(frozen=True)
class Server:
    url: str  # with /v1
    model: str


SERVERS = json.loads(sys.argv[1])
POLICY, TOOLS = Server(**SERVERS["policy"]), Server(**SERVERS["tools"])
TRIALS: list[Callable[[], object]] = []


class Pet(BaseModel):
    """A pet."""

    name: Literal["rex", "tom"]
    age: int = Field(ge=0, le=20)
    vip: bool | None = None


def trial(function: Callable[[], object]) -> Callable[[], object]:
    TRIALS.append(function)
    return function


def run() -> None:
    for function in TRIALS:
        started, problem = time.monotonic(), None
        try:
            function()
        except Exception:
            problem = traceback.format_exc()
        line = {"trial": function.__name__, "problem": problem, "seconds": round(time.monotonic() - started, 1)}
        print(json.dumps(line), flush=True)


def picture(width: int = 32, height: int = 32) -> str:
    """A red rectangle as a data URL."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + b"\xff\0\0" * width) * height
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(png).decode()
