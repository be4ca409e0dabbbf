"""Key names. Models write "ctrl + c", "ESC" or "Return"; environments understand Playwright's names. Translated here,
and nowhere else."""

from __future__ import annotations

import string
from collections.abc import Iterable

# fmt: off
_NAMED = [
    "Control", "Shift", "Alt", "Meta", "ControlOrMeta", "Enter", "Escape", "Backspace", "Delete", "Tab", "Space",
    "Insert", "Home", "End", "PageUp", "PageDown", "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "CapsLock",
    "ContextMenu", *(f"F{number}" for number in range(1, 25)),
]
# fmt: on

_ALIASES = {name.lower(): name for name in _NAMED} | {
    "ctrl": "Control",
    "cmd": "Meta",
    "command": "Meta",
    "win": "Meta",
    "windows": "Meta",
    "super": "Meta",
    "option": "Alt",
    "return": "Enter",
    "esc": "Escape",
    "del": "Delete",
    "up": "ArrowUp",
    "down": "ArrowDown",
    "left": "ArrowLeft",
    "right": "ArrowRight",
    "page_up": "PageUp",
    "page_down": "PageDown",
    "pgup": "PageUp",
    "pgdn": "PageDown",
    "spacebar": "Space",
    " ": "Space",
    "plus": "+",
}

# Keys by their places have the names of what they write, so that whoever looks at names knows what is written.
_ALIASES |= {f"key{letter}": letter for letter in string.ascii_lowercase}
_ALIASES |= {f"{row}{digit}": digit for row in ("digit", "numpad") for digit in string.digits}
_SIDES = [(name, side) for name in ("Control", "Shift", "Alt", "Meta") for side in ("left", "right")]
_ALIASES |= {f"{name.lower()}{side}": name for name, side in _SIDES}
_ALIASES |= {
    "altgraph": "Alt", "minus": "-", "equal": "=", "bracketleft": "[", "bracketright": "]", "backslash": "\\",
    "semicolon": ";", "quote": "'", "backquote": "`", "comma": ",", "period": ".", "slash": "/", "numpaddivide": "/",
    "numpadmultiply": "*", "numpadsubtract": "-", "numpadadd": "+", "numpaddecimal": ".",
}  # fmt: skip


def normalise_keys(keys: Iterable[str]) -> tuple[str, ...]:
    """One chord in Playwright's names: ("ctrl+a",) and ("Control", "a") both become ("Control", "a")."""
    pieces: list[str] = []
    for key in keys:
        pieces += _split(key)
    bare = (piece.strip() or piece for piece in pieces)  # a blank by itself is a key
    return tuple(_ALIASES.get(piece.lower(), piece) for piece in bare)


def _split(key: str) -> list[str]:
    if len(key) <= 1 or "+" not in key:
        return [key] if key else []
    if key.endswith("++"):  # "Control++" presses the plus key
        return [*_split(key[:-2]), "+"]
    return [piece for piece in key.split("+") if piece.strip()]
