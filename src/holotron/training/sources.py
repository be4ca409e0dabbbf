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


# ------------------------------------------------------------------------------------------------------- conversations

_EXPECTED = (
    'a line is {"messages": [{"role": ..., "content": ...}, ...], "images": [paths, counted from the folder of this '
    'file], "learn": [which messages are learnt]}; the last two may be absent'
)


class Conversations:
    """JSON lines of `rollouts.export`. Only their places in the files are kept; pictures are read when needed."""

    def __init__(self, data: ConversationData, processor: Processor, deltas: Deltas | None = None) -> None:
        self._processor = processor
        self._deltas = deltas
        self._lines: list[tuple[Path, int, int]] = []  # file, byte, number of the line
        for file in data.files:
            self._lines += [(file, place, number) for place, number in _line_starts(file)]

    @property
    def size(self) -> int:
        return len(self._lines)

    def sample(self, index: int, rng: np.random.Generator) -> Sample:
        file, place, number = self._lines[index]
        with file.open("rb") as opened:
            opened.seek(place)
            raw = opened.readline()
        try:
            messages, images, learn = _parse(raw)
            pictures = [_picture(file, path) for path in images]
            return conversation_sample(self._processor, _with_pictures(messages, pictures), learn, self._deltas)
        except (ValueError, KeyError, TypeError, AttributeError, InputError) as error:
            raise InputError(f"{file}, line {number}: {error}") from error


def _line_starts(file: Path) -> list[tuple[int, int]]:
    try:
        with file.open("rb") as opened:
            starts, place = [], 0
            for number, line in enumerate(opened, start=1):
                if line.strip():
                    starts.append((place, number))
                place += len(line)
            return starts
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}") from error


def _parse(raw: bytes) -> tuple[list[dict[str, Any]], list[str], list[int] | None]:
    """Messages, paths of pictures, and which messages are learnt; None: all replies."""
    try:
        line = json.loads(raw)
    except ValueError as error:
        raise InputError(f"this is not JSON ({error}); {_EXPECTED}") from None
    if not isinstance(line, dict):
        raise InputError(f"found {_named(line)} where {_EXPECTED}")
    if "messages" not in line:
        keys = ", ".join(map(repr, line)) or "nothing"
        raise InputError(f"there is no 'messages', only {keys}; {_EXPECTED}")
    messages, images, learn = line["messages"], line.get("images") or [], line.get("learn")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise InputError(f"'messages' should be a list of objects and is {_named(messages)}; {_EXPECTED}")
    for place, message in enumerate(messages):
        if not isinstance(message.get("content"), str | list | None) or not isinstance(message.get("role"), str):
            found = {key: _named(value) for key, value in message.items()}
            raise InputError(f"message {place} needs a 'role' and a 'content' (text or parts) and has {found}")
    if not isinstance(images, list) or not all(isinstance(image, str) for image in images):
        raise InputError(f"'images' should be a list of paths and is {_named(images)}")
    if learn is not None:
        replies = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
        if not isinstance(learn, list) or not set(learn) <= set(replies):
            raise InputError(f"'learn' should be some of {replies}, which are the replies here, and is {learn}")
    return messages, images, learn


def _named(value: object) -> str:
    kinds = {list: "a list", dict: "an object", str: "a text", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")


def _picture(file: Path, path: str) -> bytes:
    try:
        return (file.parent / path).read_bytes()
    except OSError as error:
        raise InputError(
            f"the picture {path} cannot be read ({error.strerror}). Its path counts from the folder of {file.name}: "
            "where that file is moved, its pictures must be moved along"
        ) from None


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
