"""How pages look: themes (colours and shapes), density, type size. One `Style` is drawn for each page.

A theme fixes what makes a look recognisable and leaves the rest to chance, so that a theme never looks the same twice.
Themes marked `held_out` are never trained on.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal

from holotron.data.colours import RGB, contrast, hsl, legible, luminance, mix, readable_on, to_hex

Buttons = Literal["native", "flat", "outline", "raised", "pill", "gradient", "text"]
Fields = Literal["native", "boxed", "underlined", "filled"]


@dataclass(frozen=True, slots=True)
class Theme:
    name: str
    background: tuple[float, float, float]  # hue, saturation, lightness; a hue below 0 stands for "that of the accent"
    accent: tuple[float, float] = (0, 360)  # range of hues
    accent_strength: tuple[float, float] = (0.45, 0.9)  # range of saturation
    buttons: tuple[Buttons, ...] = ("flat", "outline", "raised")
    fields: tuple[Fields, ...] = ("boxed",)
    radius: tuple[float, float] = (0, 6)
    surface: float = 0.04  # how far cards stand off the background
    shadows: bool = False
    bar: Literal["plain", "accent", "dark"] = "plain"  # page headers
    held_out: bool = False


THEMES: dict[str, Theme] = {theme.name: theme for theme in (
    Theme("bare", (0, 0, 1), (200, 240), (0.6, 1), ("native",), ("native",), (0, 3), 0.0),
    Theme("plain", (0, 0, 1), buttons=("native", "flat", "outline"), fields=("native", "boxed"), surface=0.02),
    Theme("paper", (40, 0.2, 0.97), radius=(0, 4), fields=("boxed", "underlined")),
    Theme("slate", (215, 0.22, 0.94), (190, 260), buttons=("flat", "raised"), radius=(3, 8)),
    Theme("boot", (0, 0, 1), (195, 225), (0.7, 1), ("flat", "outline"), ("boxed",), (3, 5), 0.03, bar="dark"),
    Theme("sheet", (0, 0, 0.98), (0, 360), (0.6, 1), ("flat", "text", "raised"), ("underlined", "filled"), (2, 4), 0.02,
          True, "accent"),
    Theme("dark", (220, 0.12, 0.12), (150, 330), (0.5, 0.9), ("flat", "outline"), ("boxed", "filled"), (2, 8), 0.05),
    Theme("black", (0, 0, 0.04), (0, 360), (0.6, 1), ("outline", "pill"), ("boxed",), (0, 12), 0.07),
    Theme("brand", (-1, 0.25, 0.95), (0, 360), (0.6, 1), ("flat", "pill"), ("boxed", "filled"), (4, 14), 0.05, True,
          "accent"),
    Theme("office", (0, 0, 0.88), (205, 225), (0.4, 0.7), ("raised", "gradient"), ("boxed",), (0, 2), 0.05),
    Theme("widget", (45, 0.35, 0.95), (20, 50), (0.7, 1), ("gradient",), ("boxed",), (3, 5), 0.04),
    Theme("contrast", (0, 0, 1), (0, 360), (0.9, 1), ("outline", "flat"), ("boxed",), (0, 0), 0.0, bar="dark"),
    Theme("candy", (-1, 0.5, 0.9), (270, 360), (0.5, 0.9), ("pill", "flat"), ("filled", "boxed"), (8, 16), 0.06, True),
    Theme("sepia", (38, 0.45, 0.86), (10, 45), (0.4, 0.7), ("outline", "gradient"), ("underlined", "boxed"), (1, 5),
          0.05, held_out=True),
    Theme("terminal", (140, 0.3, 0.06), (100, 150), (0.7, 1), ("outline", "text"), ("underlined", "boxed"), (0, 0),
          0.04, held_out=True),
    Theme("midnight", (248, 0.4, 0.16), (30, 200), (0.6, 0.9), ("pill", "raised"), ("filled",), (6, 14), 0.07, True,
          "accent", held_out=True),
    Theme("mint", (155, 0.4, 0.9), (140, 190), (0.5, 0.9), ("flat", "raised"), ("filled", "boxed"), (4, 12), 0.06, True,
          "dark", held_out=True),
)}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Style:
    theme: Theme
    family: str
    size: float  # of plain text, CSS pixels
    gap: float  # between things, CSS pixels
    radius: float
    buttons: Buttons
    fields: Fields
    background: RGB
    surface: RGB
    text: RGB
    muted: RGB
    line: RGB
    accent: RGB
    on_accent: RGB
    link: RGB
    stroke: float  # of icons

    @property
    def dark(self) -> bool:
        return luminance(self.background) < 0.2


def draw_style(rng: random.Random, theme: Theme, family: str, *, size: float, gap: float) -> Style:
    low, high = theme.accent
    hue = rng.uniform(low, high)
    accent = hsl(hue, rng.uniform(*theme.accent_strength), rng.uniform(0.34, 0.56))
    base_hue, saturation, lightness = theme.background
    jitter = 0.0 if theme.name in ("bare", "contrast") else rng.uniform(-0.03, 0.03)
    background = hsl(hue if base_hue < 0 else base_hue + rng.uniform(-8, 8), saturation, min(1.0, lightness + jitter))
    pole = (255, 255, 255) if luminance(background) > 0.2 or lightness < 0.3 else (0, 0, 0)
    surface = mix(background, pole if lightness < 0.99 else (0, 0, 0), theme.surface * (2.5 if pole[0] else 1))
    ink = readable_on(background)
    text = legible(mix(ink, accent, rng.choice((0, 0, 0.15))), background, 7)
    muted = legible(mix(text, background, rng.uniform(0.25, 0.45)), background, 3.2)
    if contrast(accent, background) < 1.6:
        accent = legible(accent, background, 2.0)
    return Style(
        theme=theme,
        family=family,
        size=size,
        gap=gap,
        radius=round(rng.uniform(*theme.radius), 1),
        buttons=rng.choice(theme.buttons),
        fields=rng.choice(theme.fields),
        background=background,
        surface=surface,
        text=text,
        muted=muted,
        line=mix(background, text, rng.uniform(0.12, 0.35)),
        accent=accent,
        on_accent=readable_on(accent),
        link=legible((0, 0, 238) if theme.name == "bare" else accent, background, 3.5),
        stroke=rng.choice((1.5, 2.0, 2.0, 2.5)),
    )


def stylesheet(style: Style) -> str:
    """The sheet that all pages share, and this page's values for its variables."""
    s = style
    bar, on_bar = {
        "plain": (s.surface, s.text),
        "accent": (s.accent, s.on_accent),
        "dark": ((35, 39, 46), (244, 244, 245)),
    }[s.theme.bar]
    selected = mix(s.background, s.accent, 0.22)
    colours = {
        "background": s.background,
        "surface": s.surface,
        "raised": mix(s.surface, s.text, 0.11),
        "field": mix(s.background, (0, 0, 0) if s.dark else (255, 255, 255), 0.5),
        "text": s.text,
        "muted": s.muted,
        "line": s.line,
        "accent": s.accent,
        "on-accent": s.on_accent,
        "link": s.link,
        "bar": bar,
        "on-bar": on_bar,
        "selected": selected,
        "on-selected": legible(s.text, selected, 4.5),
    }
    values = [f"--{name}:{to_hex(colour)}" for name, colour in colours.items()]
    values += [f"--size:{s.size:g}px", f"--gap:{s.gap:g}px", f"--radius:{s.radius:g}px", f'--family:"{s.family}"']
    values += [f"color-scheme:{'dark' if s.dark else 'light'}"]
    return f"{_SHEET}:root{{{';'.join(values)}}}"


def body_classes(style: Style) -> str:
    """The skins of buttons and fields. A native button is light, so dark pages draw their own."""
    buttons = "flat" if style.buttons == "native" and style.dark else style.buttons
    return f"b-{buttons} f-{style.fields}{' shadows' if style.theme.shadows else ''}"


_SHEET = (files(__package__) / "assets" / "page.css").read_text()
