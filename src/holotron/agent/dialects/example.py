"""What a model is really sent, for whoever has to repeat a result: a first request in words, and what may come back.

    example = example_request(dialect)
    example["messages"]             # [{"role": "system", "text": "..."}, {"role": "user", "text": "[screenshot]..."}]
    example["output"]               # the schema, pattern or tools that replies are held to

The task is a stand-in ("GOAL") on a blank page of 1280 x 720, so two dialects that write the same have the same
example, and its hash (`digest`) says whether prompts or schema of two runs differ.
"""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import asdict
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from PIL import Image as PillowImage

from holotron.agent.history import Selection, Shown, Turn
from holotron.types import Observation, Task

if TYPE_CHECKING:
    from holotron.agent.dialects.base import Dialect

_SIZE = (1280, 720)


def example_request(dialect: Dialect) -> dict[str, Any]:
    seen = Observation(_blank(), "image/png", _SIZE, _SIZE, url="http://page.example/", title="TITLE")
    image, screen = dialect.look(seen)
    turn = Turn(0, seen, image, screen)
    messages = dialect.messages(Task("example", "example", "GOAL"), Selection((), (Shown(turn, image),)))
    return {
        "messages": [
            {"role": message.role, "text": "".join(p if isinstance(p, str) else "[screenshot]" for p in message.parts)}
            for message in messages
        ],
        "output": {key: value for key, value in asdict(dialect.output()).items() if value},
    }


def digest(value: Any) -> str:
    """A short hash of anything that JSON can hold."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


@lru_cache(maxsize=1)
def _blank() -> bytes:
    buffer = io.BytesIO()
    PillowImage.new("RGB", _SIZE, "white").save(buffer, "PNG")
    return buffer.getvalue()
