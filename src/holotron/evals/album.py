"""What a report embeds of episodes: their steps in words, and screenshots scaled down; both up to a limit.

album = Album(limits)
album.playable(run, episode_row, step_rows)              # None: the page is full
album.images                                             # data URLs, each once
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from holotron.actions import stored_action
from holotron.agent.describe import describe
from holotron.errors import StorageError
from holotron.rollouts.records import Row
from holotron.storage.files import read_file

LONGEST_TEXT = 6000


@dataclass(frozen=True, slots=True)
class ReportLimits:
    """What may go into one page."""

    episodes: int = 300  # that can be played
    image_bytes: int = 12_000_000
    image_side: int = 1000  # pixels of the longer side; larger screenshots are scaled down
    text_bytes: int = 3_000_000  # of steps; a run with long replies shows fewer episodes


def short(text: str, limit: int = LONGEST_TEXT) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit} more characters)"


class Album:
    """Fills up in the order things are asked for."""

    def __init__(self, limits: ReportLimits) -> None:
        self._limits = limits
        self._known: dict[Path, int | None] = {}
        self._image_bytes = 0
        self._text_bytes = 0
        self.images: list[str] = []
        self.left_out = 0
        self.missing = 0

    def playable(self, run: Path, episode: Row, steps: Sequence[Row]) -> dict[str, Any] | None:
        """One episode for the player; None if there is no more room for its words."""
        if self._text_bytes >= self._limits.text_bytes:
            return None
        ordered = sorted(steps, key=lambda row: row["index"])
        final = episode["final"]
        words = [_step(row) for row in ordered]
        self._text_bytes += len(json.dumps(words))
        views = [self._view(run, row["observation"]) for row in ordered]
        return {
            "steps": [said | {"view": view} for said, view in zip(words, views, strict=True)],
            "final": None if final is None else self._view(run, final),
        }

    def _view(self, run: Path, observation: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "image": self._image(run / observation["image"]),
            "viewport": [observation["viewport_width"], observation["viewport_height"]],
            "url": short(observation["url"], 300),
            "title": short(observation["title"], 300),
            "note": short(observation["note"], 1000),
        }

    def _image(self, path: Path) -> int | None:
        """The number of an image in the page; None if it could not be taken in."""
        if path not in self._known:
            self._known[path] = self._take(path)
        return self._known[path]

    def _take(self, path: Path) -> int | None:
        if self._image_bytes >= self._limits.image_bytes:
            self.left_out += 1
            return None
        try:
            url = self._shrunk(path)
        except (OSError, StorageError):  # lost, or not a picture
            self.missing += 1
            return None
        self._image_bytes += len(url)
        self.images.append(url)
        return len(self.images) - 1

    def _shrunk(self, path: Path) -> str:
        original = read_file(path)
        side = self._limits.image_side
        with Image.open(io.BytesIO(original)) as image:
            if max(image.size) <= side and len(original) < 60_000:
                kind = (image.format or "png").lower()
                return f"data:image/{kind};base64,{base64.b64encode(original).decode()}"
            small = image.convert("RGB")
        small.thumbnail((side, side), Image.Resampling.LANCZOS)
        buffer = io.BytesIO()
        small.save(buffer, "JPEG", quality=72, optimize=True)
        return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def _step(row: Row) -> dict[str, Any]:
    action = None if row["action"] is None else json.loads(row["action"])
    said = _said(row["action"]) or "no valid action"
    if row.get("author") == "person":  # older runs have no authors
        said = f"by a person: {said}"
    info = json.loads(row["info"])
    asked = f"a person said no to: {info['asked']}" if "asked" in info else ""
    return {
        "action": action,
        "said": f"REFUSED, not done: {said}" if asked else said,
        "error": row["reply_error"] or asked,
        "proposed": _said(row.get("proposed")),
        "instruction": short(row.get("instruction") or ""),
        "thought": short(row["thought"]),
        "note": short(row["note"]),
        "text": short(row["text"]),
        "reasoning": short(row["reasoning"]),
        "reward": row["reward"],
        "target": _target(info.get("target")),
        **{key: row[key] for key in ("prompt_tokens", "cached_tokens", "generated_tokens", "images_sent")},
        "policy_seconds": row["policy_seconds"],
        "environment_seconds": row["environment_seconds"],
    }


def _said(action: str | None) -> str:
    return "" if action is None else describe(stored_action(json.loads(action)))


def _target(said: Any) -> list[list[float]] | None:
    """Corners of what was to be clicked, where the environment says so; drawn over the screenshot."""
    try:
        return [[float(x), float(y)] for x, y in said] or None
    except (TypeError, ValueError):
        return None
