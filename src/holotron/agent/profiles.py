"""What a model speaks and how it wants to be shown the screen: its dialect, coordinate frame, history, views, sampling.

A checkpoint says so itself in a file `agent.json` beside its weights; a server says it of its model in `/v1/models`:

    {"dialect": "compact", "frame": "cells", "history": "append", "temperature": 0.0, "thinking": false,
     "views": {"miniwob": {"scale": 2, "crop": true, "format": "png"}, "web": {"width": 640, "height": 480}}}

`views` is by suite: how the model was shown it in training, and wants to be shown it again. `"deltas": 0` asks for
screenshots told as changes. For the published families, which do not carry that file, the name decides
(`model/families`). Whatever the user says wins over both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from holotron.agent.dialects import Dialect, make_dialect
from holotron.agent.history import History, parse_history
from holotron.errors import ConfigError
from holotron.model.families import agent_defaults
from holotron.view import View

FILE = "agent.json"


@dataclass(frozen=True, slots=True)
class Profile:
    dialect: str = "holotron"
    frame: str | None = None  # None: the dialect's own
    history: str = "window:3"
    views: Mapping[str, View] = field(default_factory=dict)  # by suite
    deltas: int | None = None  # tolerance of screenshot deltas, for a model trained with them; None: off
    # None: what the checkpoint's generation_config.json and chat template say.
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None  # of one reply, its reasoning included
    thinking: bool | None = None  # whether it reasons before it replies

    def __post_init__(self) -> None:
        for name, good, what in (
            ("deltas", lambda d: type(d) is int and 0 <= d <= 255, "a tolerance from 0 to 255"),
            ("temperature", lambda t: type(t) in (int, float) and t >= 0, "a number from 0 on"),
            ("top_p", lambda p: type(p) in (int, float) and 0 < p <= 1, "a number above 0 and at most 1"),
            ("max_tokens", lambda n: type(n) is int and n > 0, "a positive whole number"),
            ("thinking", lambda b: type(b) is bool, "true or false"),
        ):
            if (value := getattr(self, name)) is not None and not good(value):
                raise ConfigError(f"{name} is {what}, or absent; found {value!r}")
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
    """What the model says of itself, else what its family is known to speak, else the most common contract."""
    if folder is not None and (folder / FILE).is_file():
        return read_profile(folder / FILE)
    known = agent_defaults(name)
    if known is None:
        # Of a model behind a URL nothing else is known: greedy, as agents mostly are.
        return Profile(temperature=0.0) if folder is None else Profile()
    said = ("dialect", "frame", "history", "temperature", "top_p", "max_tokens", "thinking")
    return Profile(**{field: getattr(known, field) for field in said})


def read_profile(path: Path) -> Profile:
    try:
        return Profile.from_json(json.loads(path.read_text()))
    except (ValueError, TypeError, ConfigError) as error:
        raise ConfigError(f"{path}: {error}") from None


def write_profile(folder: Path, profile: Profile) -> None:
    """Let a checkpoint say what it speaks."""
    (folder / FILE).write_text(json.dumps(profile.to_json(), indent=2) + "\n")
