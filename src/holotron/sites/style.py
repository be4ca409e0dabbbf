"""The stylesheet of a page: one small inline sheet per theme, layout, density and viewport, from files in `css/`."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from holotron.sites.looks import Layout, Theme
from holotron.sites.variation import Density, Viewport

_UNIT = {"compact": 3, "normal": 4, "airy": 5}  # CSS pixels
_TYPE = {"compact": 13, "normal": 15, "airy": 16}

_BUTTONS = {
    "solid": "",
    "pill": "border-radius: 99px; padding-inline: calc(var(--u)*5);",
    "outline": "background: transparent; color: var(--accent); border-color: var(--accent);",
    "soft": "background: color-mix(in srgb, var(--accent) 16%, var(--surface)); color: var(--accent);"
    "border-color: transparent; font-weight: 700;",
    "upper": "text-transform: uppercase; letter-spacing: .04em; font-size: .86em;",
}


@cache
def stylesheet(theme: Theme, layout: Layout, density: Density, viewport: Viewport) -> str:
    variables = {
        "ground": theme.ground, "surface": theme.surface, "ink": theme.ink, "faint": theme.faint, "line": theme.line,
        "accent": theme.accent, "on-accent": theme.on_accent, "bar": theme.bar, "on-bar": theme.on_bar,
        "r": f"{theme.radius}px", "shadow": theme.shadow, "u": f"{_UNIT[density]}px",
    }  # fmt: skip
    parts = [
        ":root{" + "".join(f"--{name}:{value};" for name, value in variables.items()) + "}",
        f"body{{font:{_TYPE[density]}px/1.45 {theme.font}}}h1,h2,h3,.brand{{font-family:{theme.heading}}}",
        _file("base"),
        f".button:not(.quiet){{{_BUTTONS[theme.button]}}}",
        _file(f"skeleton-{layout.skeleton}"),
        _file(f"form-{layout.form}"),
    ]
    return "".join([*parts, _file("phone")] if viewport == "phone" else parts)


@cache
def _file(name: str) -> str:
    """A file of rules without comments and needless space: it travels with every page."""
    text = (files(__package__) / "css" / f"{name}.css").read_text()
    text = " ".join(re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL).split())
    return re.sub(r"\s*([{};])\s*|(?<=[a-z]): ", lambda m: m[1] or ":", text)
