"""Recorded episodes as something to learn from: what was asked, seen and done, and pixels on demand.

    source = open_recorded(Path("runs/demos"))          # a run directory, or a packed one (see `pack`)
    episode = source.episodes[0]
    source.pixels(episode.steps[0].frame)               # uint8 [height, width, 3]

Rows are kept small, so that a hundred thousand steps can lie in memory and be shared by worker processes. What was
recorded on a suite that is held out (`Suite.held_out`) is refused here and in `export`: nothing is learnt from it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from holotron.actions import stored_action
from holotron.errors import ConfigError, InputError
from holotron.rollouts.records import Row
from holotron.rollouts.store import RunReader
from holotron.storage.files import is_folder
from holotron.suites.base import refuse_held_out
from holotron.types import Action, Task


class RecordedStep(NamedTuple):
    frame: int | str  # for `pixels`
    viewport: tuple[int, int]
    action_json: str | None
    label_json: str | None = None  # what a teacher would have done
    refused: bool = False  # not carried out, or nothing to learn from: what a person typed in private
    note: str = ""  # what was said beside the action
    thought: str = ""
    instruction: str = ""  # what the user added before it

    @property
    def action(self) -> Action | None:
        return None if self.action_json is None else stored_action(json.loads(self.action_json))

    @property
    def label(self) -> Action | None:
        return None if self.label_json is None else stored_action(json.loads(self.label_json))


class RecordedEpisode(NamedTuple):
    id: str
    task: Task
    success: bool
    steps: tuple[RecordedStep, ...]

    @property
    def labelled(self) -> bool:
        return any(step.label_json for step in self.steps)


class Recorded(Protocol):
    @property
    def episodes(self) -> list[RecordedEpisode]: ...

    def pixels(self, frame: int | str) -> np.ndarray: ...


Where = Callable[[Row], bool]


def open_recorded(path: Path, where: Where = lambda row: True) -> Recorded:
    """The episodes in `path` that `where` selects by their row (task, seed, success ...) and that have steps."""
    if is_folder(path):
        return RunEpisodes(path, where)
    if path.suffix == ".zip":
        from holotron.rollouts.pack import Pack

        return Pack(path, where)
    raise InputError(f"{path} is neither a run directory nor a packed run (.zip)")


class RunEpisodes:
    """A run directory; pictures are read when they are needed."""

    def __init__(self, path: Path, where: Where = lambda row: True) -> None:
        self._path = path
        reader = RunReader(path)
        refuse_held_out_run(reader)
        self.episodes = [
            recorded(row, [_step(step) for step in sorted(steps, key=lambda step: step["index"])], path)
            for row, steps in reader.rows()
            if steps and where(row)
        ]

    def pixels(self, frame: int | str) -> np.ndarray:
        from PIL import Image

        try:
            with Image.open(self._path / str(frame)) as opened:
                return np.asarray(opened.convert("RGB"))
        except OSError as error:
            raise InputError(f"{self._path / str(frame)} cannot be read: {error}") from error


def refuse_held_out_run(reader: RunReader) -> None:
    """By what the suite said of itself when it was played; a name alone says nothing of a suite from elsewhere."""
    environment = reader.manifest.get("config", {}).get("environment") or {}
    if environment.get("held_out"):
        raise ConfigError(
            f"{reader.path} was recorded on {environment.get('suite')}, which is held out for measuring: nothing is "
            "trained on it; choose other runs to learn from"
        )


def recorded(row: Mapping[str, Any], steps: list[RecordedStep], source: Path) -> RecordedEpisode:
    task = Task(row["suite"], row["task"], row["goal"], row["seed"], row["start_url"], json.loads(row["options"]))
    refuse_held_out(f"{source}, episode {row['id']}", task.suite, task.options)
    return RecordedEpisode(row["id"], task, bool(row["success"]), tuple(steps))


def learnable(info: Mapping[str, Any]) -> bool:
    """Whether what was done at a step is there to be learnt: not what was refused, nor what a person typed into a
    password field, of which only a mask is on record."""
    return not (info.get("refused") or info.get("private"))


def _step(row: Row) -> RecordedStep:
    seen = row["observation"]
    viewport = (seen["viewport_width"], seen["viewport_height"])
    refused = not learnable(json.loads(row["info"]))
    said = (row["note"] or "", row["thought"] or "", row.get("instruction") or "")
    return RecordedStep(seen["image"], viewport, row["action"], row.get("label"), refused, *said)
