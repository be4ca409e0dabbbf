"""What a model speaks: its dialect, its coordinate frame, its history; and how it is sampled.

A checkpoint says so itself in a file `agent.json` beside its weights:

    {"dialect": "compact", "frame": "cells", "history": "append", "miniwob": {"scale": 2, "crop": true, "png": true},
     "screen": {"width": 320, "height": 320, "scale": 2}}

`miniwob` is how it was shown MiniWoB++ in training, and wants to be shown it again, `screen` how large it wants the web
to be; `"deltas": 0` asks for screenshots told as changes; `temperature`, `top_p`, `max_tokens` and `thinking` are said
where they matter. For the published families, which do not carry that file, the name decides (`model/families`).
Whatever the user says wins over both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from holotron.agent.dialects import Dialect, make_dialect
from holotron.agent.history import History, parse_history
from holotron.errors import ConfigError
from holotron.model.families import agent_defaults

FILE = "agent.json"


@dataclass(frozen=True, slots=True)
class Profile:
    dialect: str = "holotron"
    frame: str | None = None  # None: the dialect's own
    history: str = "window:3"
    miniwob: Mapping[str, Any] = field(default_factory=dict)  # scale, crop, png; see `holotron eval miniwob`
    screen: Mapping[str, float] = field(default_factory=dict)  # width, height, scale; see `holotron run`
    deltas: int | None = None  # tolerance of screenshot deltas, for a model trained with them; None: off
    # None: what the checkpoint's generation_config.json and chat template say.
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    thinking: bool | None = None

    def make_dialect(self, actions: Sequence[str] | None = None) -> Dialect:
        return make_dialect(self.dialect, frame=self.frame, actions=actions)

    def make_history(self) -> History:
        return parse_history(self.history)

    def with_wishes(self, *, dialect: str | None, frame: str | None, history: str | None) -> Profile:
        """The user's own choices on top. Another dialect comes with its own frame."""
        profile = replace(self, dialect=dialect, frame=None) if dialect and dialect != self.dialect else self
        profile = replace(profile, frame=frame or profile.frame, history=history or profile.history)
        profile.make_dialect()
        profile.make_history()
        return profile


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
        values = json.loads(path.read_text())
        profile = Profile(**values)
        profile.make_dialect()
        profile.make_history()
        if not (profile.deltas is None or (type(profile.deltas) is int and 0 <= profile.deltas <= 255)):
            raise ConfigError(f"deltas is a tolerance from 0 to 255, or absent; found {profile.deltas!r}")
        for field, good, what in (
            ("temperature", lambda t: type(t) in (int, float) and t >= 0, "a number from 0 on"),
            ("top_p", lambda p: type(p) in (int, float) and 0 < p <= 1, "a number above 0 and at most 1"),
            ("max_tokens", lambda n: type(n) is int and n > 0, "a positive whole number"),
            ("thinking", lambda b: type(b) is bool, "true or false"),
        ):
            if (value := getattr(profile, field)) is not None and not good(value):
                raise ConfigError(f"{field} is {what}, or absent; found {value!r}")
    except (ValueError, TypeError, ConfigError) as error:
        raise ConfigError(f"{path}: {error}") from None
    return profile


def write_profile(folder: Path, profile: Profile) -> None:
    """Let a checkpoint say what it speaks."""
    values = {key: value for key, value in asdict(profile).items() if value not in (None, {})}
    (folder / FILE).write_text(json.dumps(values, indent=2) + "\n")
