"""What a model speaks and how it wants to be shown the screen: its dialect, coordinate frame, history, views, sampling.

A checkpoint says so itself in a file `agent.json` beside its weights; a server says it of its model in `/v1/models`:

    {"dialect": "compact", "frame": "cells", "history": "append", "temperature": 0.0, "thinking": false,
     "views": {"miniwob": {"scale": 2, "crop": true, "format": "png"}, "web": {"width": 640, "height": 480}}}

`views` is by suite: how the model was shown it in training, and wants to be shown it again. `"deltas": 0` asks for
screenshots told as changes. For the published families, which do not carry that file, the name decides
(`model/families`). Whatever the user says wins over both; what nobody says, the checkpoint's `generation_config.json`
and chat template do.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from holotron.agent.dialects import Dialect, make_dialect
from holotron.agent.history import History, parse_history
from holotron.errors import ConfigError
from holotron.model.families import agent_defaults
from holotron.model.hf_json import read_json
from holotron.model.processor import SamplingDefaults
from holotron.view import View

FILE = "agent.json"


def _number(value: Any, least: float = 0.0, most: float = math.inf) -> bool:
    return value is None or (type(value) in (int, float) and least <= value <= most)


@dataclass(frozen=True, slots=True)
class Profile:
    dialect: str = "holotron"
    frame: str | None = None  # None: the dialect's own
    history: str = "window:3"
    views: Mapping[str, View] = field(default_factory=dict)  # by suite
    deltas: int | None = None  # tolerance of screenshot deltas, for a model trained with them; None: off
    # None: as whoever runs the model has it.
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None  # of one reply, its reasoning included
    thinking: bool | None = None  # whether it reasons before it replies

    def __post_init__(self) -> None:
        if not (self.deltas is None or (type(self.deltas) is int and 0 <= self.deltas <= 255)):
            raise ConfigError(f"deltas is a tolerance from 0 to 255, or absent; found {self.deltas!r}")
        if not _number(self.temperature) or not _number(self.top_p, 1e-9, 1.0):
            raise ConfigError("temperature is at least 0, top_p between 0 and 1")
        if not (self.max_tokens is None or (type(self.max_tokens) is int and self.max_tokens > 0)):
            raise ConfigError(f"max_tokens is a positive whole number, or absent; found {self.max_tokens!r}")
        if self.thinking is not None and type(self.thinking) is not bool:
            raise ConfigError(f"thinking is true or false, or absent; found {self.thinking!r}")
        self.make_dialect()
        self.make_history()

    def make_dialect(self, actions: Sequence[str] | None = None) -> Dialect:
        return make_dialect(self.dialect, frame=self.frame, actions=actions)

    def make_history(self) -> History:
        return parse_history(self.history)

    def with_wishes(self, *, dialect: str | None, frame: str | None, history: str | None) -> Profile:
        """The user's own choices on top. Another dialect comes with its own frame."""
        changed = dialect is not None and dialect != self.dialect
        return replace(
            self,
            dialect=dialect or self.dialect,
            frame=frame or (None if changed else self.frame),
            history=history or self.history,
        )

    def to_json(self) -> dict[str, Any]:
        """Dialect and history, and whatever differs from the defaults."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "views"}
        said = {name: value for name, value in values.items() if value != getattr(_DEFAULT, name)}
        views = {suite: view.to_json() for suite, view in self.views.items()}
        return {"dialect": self.dialect, "history": self.history} | said | ({"views": views} if views else {})

    @classmethod
    def from_json(cls, values: Any) -> Profile:
        if not isinstance(values, Mapping):
            raise ConfigError(f"an agent profile is a JSON object; found {values!r}")
        said = _renamed(values)
        views = {suite: View.from_json(view) for suite, view in dict(said.pop("views", {})).items()}
        if unknown := [name for name in said if name not in {f.name for f in fields(cls)}]:
            raise ConfigError(f"unknown entry {unknown[0]!r}; there are {', '.join(f.name for f in fields(cls))}")
        return cls(**said, views=views)


_DEFAULT = Profile()


def _renamed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Checkpoints of version 0.1 say `miniwob` (with `png` for the format) and `screen` instead of `views`."""
    said = dict(values)
    miniwob, screen = said.pop("miniwob", None), said.pop("screen", None)
    if miniwob:
        view = {name: value for name, value in miniwob.items() if name != "png"}
        formats = {"format": "png" if miniwob["png"] else "jpeg"} if "png" in miniwob else {}
        said["views"] = {**said.get("views", {}), "miniwob": view | formats}
    if screen:
        said["views"] = {**said.get("views", {}), "web": screen}
    return said


def profile_for(name: str, folder: Path | None = None) -> Profile:
    """What the model says of itself, else what its family is known to speak, else the most common contract. How a
    model in a folder is sampled is known in the end: as its publishers do, else greedily."""
    if folder is None:
        # Behind a URL, of a family that nobody here knows: greedily, or two runs would differ for no reason.
        return _by_name(name) if agent_defaults(name) is not None else Profile(temperature=0.0)
    said = read_profile(folder / FILE) if (folder / FILE).is_file() else _by_name(name)
    file = folder / "generation_config.json"
    own = SamplingDefaults.from_hf(read_json(file) if file.is_file() else {})
    sampled = next(value for value in (said.temperature, own.temperature, 0.0) if value is not None)
    return replace(said, temperature=sampled, top_p=own.top_p if said.top_p is None else said.top_p)


def _by_name(name: str) -> Profile:
    known = agent_defaults(name)
    said = () if known is None else ("dialect", "frame", "history", "temperature", "top_p", "max_tokens", "thinking")
    return Profile(**{field: getattr(known, field) for field in said})


def read_profile(path: Path) -> Profile:
    try:
        return Profile.from_json(json.loads(path.read_text()))
    except (ValueError, TypeError, ConfigError) as error:
        raise ConfigError(f"{path}: {error}") from None


def write_profile(folder: Path, profile: Profile) -> None:
    """Let a checkpoint say what it speaks."""
    (folder / FILE).write_text(json.dumps(profile.to_json(), indent=2) + "\n")
