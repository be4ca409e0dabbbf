"""Where samples come from: recorded conversations, stored pages, and pages painted on the spot."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from holotron.errors import InputError
from holotron.model.config import ModelConfig
from holotron.model.processor import Deltas, Processor
from holotron.training.mixture import Source
from holotron.training.recipe import ConversationData, Data, DrawnData, EpisodeData, PageData, TextData
from holotron.training.samples import Sample
from holotron.training.stream import conversation_sample


def open_source(data: Data, processor: Processor, config: ModelConfig, deltas: Deltas | None = None) -> Source:
    """`deltas`: conversations and episodes tell screenshots as changes to the one before."""
    match data:
        case ConversationData():
            return Conversations(data, processor, deltas)
        case DrawnData():
            from holotron.training.pages import DrawnPages

            return DrawnPages(data, processor, config)
        case PageData():
            from holotron.training.pages import StoredPages

            return StoredPages(data, processor, config)
        case EpisodeData():
            from holotron.training.episodes import Episodes

            return Episodes(data, processor, config, deltas)
        case TextData():
            from holotron.training.texts import Texts

            return Texts(data, processor)


class Conversations:
    """JSON lines of `rollouts.export`. Only their places in the files are kept; pictures are read when needed."""

    def __init__(self, data: ConversationData, processor: Processor, deltas: Deltas | None = None) -> None:
        self._processor = processor
        self._deltas = deltas
        self._lines: list[tuple[Path, int]] = []
        for file in data.files:
            self._lines += [(file, place) for place in _line_starts(file)]

    @property
    def size(self) -> int:
        return len(self._lines)

    def sample(self, index: int, rng: np.random.Generator) -> Sample:
        file, place = self._lines[index]
        with file.open("rb") as opened:
            opened.seek(place)
            raw = opened.readline()
        try:
            line = json.loads(raw)
            pictures = [(file.parent / path).read_bytes() for path in line.get("images", ())]
            messages = _with_pictures(line["messages"], pictures)
            return conversation_sample(self._processor, messages, line.get("learn"), self._deltas)
        except (ValueError, KeyError, TypeError, AttributeError, OSError, InputError) as error:
            raise InputError(f"{file}, at byte {place}: {error}") from error


def _line_starts(file: Path) -> list[int]:
    try:
        with file.open("rb") as opened:
            starts, place = [], 0
            for line in opened:
                if line.strip():
                    starts.append(place)
                place += len(line)
            return starts
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}") from error


def _with_pictures(messages: Sequence[dict[str, Any]], pictures: list[bytes]) -> list[dict[str, Any]]:
    left = iter(pictures)
    filled = []
    for message in messages:
        content = message.get("content")
        if isinstance(content, list):
            try:
                content = [
                    {"type": "image", "image": next(left)} if part.get("type") == "image" else part for part in content
                ]
            except StopIteration:
                raise InputError("there are more image parts than images") from None
        filled.append({**message, "content": content})
    if next(left, None) is not None:
        raise InputError("there are more images than image parts")
    return filled
