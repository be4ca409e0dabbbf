"""The workloads that figures are quoted for, by name: `holotron bench sessions MODEL --preset window-3`.

What else is said on the command line goes before the preset, so `--preset long --sessions 25` is a smaller one.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Preset(NamedTuple):
    what: str
    options: dict[str, Any]  # by the names of the command line


SCREEN = "1920x1080"

PRESETS = {
    "append": Preset("agent-100: 100 sessions of six steps, everything stays", {}),
    "window-3": Preset(
        "each step sends anew, with the last three screenshots, eight steps", {"history": "window", "steps": 8}
    ),
    "window-3-pictures": Preset(
        "the same with real pictures through the vision tower", {"history": "window", "steps": 8, "picture": SCREEN}
    ),
    "pictures": Preset("append, a different 1920x1080 picture each step", {"picture": SCREEN}),
    "deltas": Preset(
        "append, pictures of which 42 % stay as they were, told as changes",
        {"picture": SCREEN, "unchanged": 0.42, "deltas": True},
    ),
    "long": Preset("append, steps 13 to 24, from a made-up past", {"begun": 12, "steps": 12}),
    "one": Preset("one session, 128 tokens after a screenshot", {"sessions": 1, "steps": 4, "picture": SCREEN}),
    "first-token": Preset(
        "a fresh process up to its first token, from a folder: with --cold, from disk",
        {"sessions": 1, "steps": 1, "system": 64, "screenshot": 0, "text": 16, "generate": 1},
    ),
    "http": Preset(
        "against --url: chat messages with PNG pictures, the whole history each time",
        {"api": "chat", "picture": SCREEN},
    ),
    "http-sessions": Preset(
        "against --url: the same in sessions of ours, only what is new", {"api": "chat-sessions", "picture": SCREEN}
    ),
    "http-window-3": Preset(
        "against --url: chat messages with the last three PNG pictures",
        {"api": "chat", "picture": SCREEN, "history": "window", "steps": 8},
    ),
    "http-tokens": Preset("against --url: token ids in our session extension", {"api": "sessions"}),
}


def listed() -> str:
    return "\n".join(f"  {name:18} {preset.what}" for name, preset in PRESETS.items())
