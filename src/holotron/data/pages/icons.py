"""Icons, drawn for this project. `assets/icons.txt` has their names, what people call them, and their strokes."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


def _read() -> dict[str, tuple[list[str], list[str]]]:
    lines = (files(__package__) / "assets" / "icons.txt").read_text().splitlines()
    rows = (line.split(": ") for line in lines if not line.startswith("#"))
    return {name: (words.split(", "), strokes.split("|")) for name, words, strokes in rows}


_ICONS = _read()
NAMES = tuple(_ICONS)


def words_for(name: str) -> list[str]:
    """What people call the icon, the plainest word first."""
    return _ICONS[name][0]


def strokes(name: str) -> list[tuple[str, str, bool]]:
    """Kind, numbers and whether it is filled, of each of its strokes; kinds as in `assets/icons.txt`."""
    parts = (stroke.partition(" ") for stroke in _ICONS[name][1])
    return [(kind, rest.removesuffix(" f"), rest.endswith(" f")) for kind, _, rest in parts]


@cache
def _body(name: str) -> str:
    parts = []
    for kind, rest, fills in strokes(name):
        filled = ' fill="currentColor"' if fills else ""
        if kind == "p":
            parts.append(f'<path d="{rest}"{filled}/>')
        elif kind == "c":
            x, y, r = rest.split()
            parts.append(f'<circle cx="{x}" cy="{y}" r="{r}"{filled}/>')
        else:
            x, y, width, height, radius = rest.split()
            parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="{radius}"{filled}/>')
    return "".join(parts)


def svg(name: str, size: float, stroke: float = 2.0) -> str:
    """The icon as inline SVG in the colour of the text around it."""
    pen = f'fill="none" stroke="currentColor" stroke-width="{stroke:g}" stroke-linecap="round" stroke-linejoin="round"'
    return f'<svg data-icon="{name}" width="{size:g}" height="{size:g}" viewBox="0 0 24 24" {pen}>{_body(name)}</svg>'
