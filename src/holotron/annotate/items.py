"""What is to be labelled: screenshots of a folder, or the steps and episodes of a run.

An item is one question. Its id says what it is about and does not depend on anything else, so that a later run knows
what has been answered. Pictures are opened when their turn comes; one that cannot be read is reported, not fatal.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from PIL import Image

from holotron.agent.describe import describe
from holotron.errors import ConfigError, InputError
from holotron.rollouts.recorded import refuse_held_out_run
from holotron.rollouts.store import RunReader
from holotron.storage.manifest import MANIFEST
from holotron.suites.base import refuse_held_out
from holotron.types import Observation, Trajectory

Kind = Literal["point", "box", "caption", "judgement"]
KINDS: tuple[Kind, ...] = ("point", "box", "caption", "judgement")
SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp"})
LAST_SCREENS = 3  # of an episode, for its judge


@dataclass(frozen=True, slots=True)
class Item:
    id: str
    kind: Kind
    images: tuple[Path, ...]  # in order of time
    instruction: str = ""
    viewport: tuple[int, int] | None = None  # CSS pixels; None: the picture's own size
    context: tuple[str, ...] = ()  # lines about what happened


@dataclass(frozen=True, slots=True)
class Wishes:
    """Instructions to label for: for every picture, and for single ones (by path in the folder, or file name)."""

    everywhere: tuple[str, ...] = ()
    by_image: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.everywhere or self.by_image)

    def of(self, name: str) -> tuple[str, ...]:
        own = self.by_image.get(name) or self.by_image.get(name.rpartition("/")[2]) or ()
        return tuple(dict.fromkeys((*self.everywhere, *own)))


def read_wishes(path: Path) -> Wishes:
    """A text file, one instruction a line for every picture; or JSON lines with "image" and "instruction"."""
    everywhere: list[str] = []
    by_image: dict[str, tuple[str, ...]] = {}
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the instructions in {path} cannot be read: {error}") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        if not line.lstrip().startswith("{"):
            everywhere.append(line.strip())
            continue
        try:
            row = json.loads(line)
            image, instruction = str(row["image"]), str(row["instruction"])
        except (ValueError, KeyError):
            raise InputError(f'{path}, line {number}: expected {{"image": ..., "instruction": ...}}') from None
        by_image[image] = (*by_image.get(image, ()), instruction)
    return Wishes(tuple(everywhere), by_image)


# ------------------------------------------------------------------------------------------------------------- sources


def is_run(source: Path) -> bool:
    return (source / MANIFEST).is_file() and (source / "episodes").is_dir()


def pictures(source: Path) -> list[Path]:
    if not source.is_dir():
        raise InputError(f"{source} is not a folder; give one with screenshots, or a run directory")
    found = sorted(p for p in source.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())
    if not found:
        raise InputError(f"{source} holds no pictures ({', '.join(sorted(SUFFIXES))})")
    return found


def items_of_picture(source: Path, picture: Path, kind: Kind, instructions: Iterable[str]) -> list[Item]:
    """The questions about one screenshot. A caption needs no instruction."""
    name = picture.relative_to(source).as_posix()
    if kind == "caption":
        return [Item(f"{name}:{kind}", kind, (picture,))]
    return [Item(_id(name, kind, text), kind, (picture,), text) for text in instructions]


def items_of_run(source: Path, kind: Kind, wishes: Wishes) -> Iterator[Item]:
    """Points, boxes and captions for every step, a judgement for every episode. The instruction is the episode's goal
    unless others are given. Labels are there to be learnt, so what is held out gets none; it may be judged."""
    reader = RunReader(source)
    if kind != "judgement":
        refuse_held_out_run(reader)
    where = {row["id"]: (row, steps) for row, steps in reader.rows()}
    for trajectory in reader.trajectories(images=False):
        if kind != "judgement":
            refuse_held_out(f"{source}, episode {trajectory.id}", trajectory.task.suite, trajectory.task.options)
        episode, steps = where[trajectory.id]
        rows = sorted(steps, key=lambda row: row["index"])
        screens = [reader.picture_path(row["observation"]) for row in rows]
        if episode["final"]:
            screens.append(reader.picture_path(episode["final"]))
        if kind == "judgement":
            yield _judged(trajectory, tuple(screens[-LAST_SCREENS:]))
            continue
        for index, step in enumerate(trajectory.steps):
            name = f"{trajectory.id}/{step.index}"
            viewport = step.observation.viewport
            if kind == "caption":
                done = describe(step.reply.action) if step.reply.action else "nothing (the reply was not valid)"
                context = (f"Task: {trajectory.task.goal}", f"Action: {done}")
                yield Item(f"{name}:{kind}", kind, tuple(screens[index : index + 2]), "", viewport, context)
                continue
            for text in wishes.everywhere or (trajectory.task.goal,):
                yield Item(_id(name, kind, text), kind, (screens[index],), text, viewport)


def _judged(trajectory: Trajectory, screens: tuple[Path, ...]) -> Item:
    context = [f"{step.index + 1}. {describe(step.reply.action)}" for step in trajectory.steps if step.reply.action]
    if trajectory.answer:
        context.append(f"Answer: {trajectory.answer}")
    return Item(
        f"{trajectory.id}:judgement", "judgement", screens, trajectory.task.goal,
        trajectory.steps[-1].observation.viewport if trajectory.steps else None, tuple(context),
    )  # fmt: skip


def _id(name: str, kind: Kind, instruction: str) -> str:
    return f"{name}:{kind}:{hashlib.blake2b(instruction.encode(), digest_size=6).hexdigest()}"


# ------------------------------------------------------------------------------------------------------------ pictures


def open_picture(path: Path, viewport: tuple[int, int] | None = None) -> Observation:
    """A screenshot as a policy sees it; an unreadable one is an `InputError` that says why."""
    try:
        data = path.read_bytes()
        with Image.open(io.BytesIO(data)) as image:
            mime = Image.MIME.get(image.format or "", "image/png")
            image.load()
            size = image.size
    except FileNotFoundError:
        raise InputError("the file is not there") from None
    except Exception as error:  # Pillow's decoders raise almost anything on broken files
        raise InputError(f"it cannot be read: {str(error) or type(error).__name__}") from None
    return Observation(data, mime, size, viewport or size)


def check_kind(text: str) -> Kind:
    for kind in KINDS:
        if text == kind:
            return kind
    raise ConfigError(f"there is no kind of label {text!r}; there are {', '.join(KINDS)}")
