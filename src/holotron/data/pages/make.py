"""One page from a seed and a number.

    made = make_page(Recipe(), seed=7, index=12)
    made.html, made.size                  # load it at this viewport and scale

The page is a function of the recipe, the seed and the number: each page has a random stream of its own, so pages can be
made in any order, by any number of processes, and again years later.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from typing import Any

from holotron.data.fonts import Family, families_for
from holotron.data.pages.flows import FLOWS, Flow, make_flow
from holotron.data.pages.frames import FRAMES, OVERLAYS
from holotron.data.pages.kit import Kit
from holotron.data.pages.style import THEMES, body_classes, draw_style, stylesheet
from holotron.data.pages.words import draw_words
from holotron.errors import ConfigError
from holotron.view import View


@dataclass(frozen=True, slots=True)
class Size:
    """A viewport in CSS pixels and the device pixels per CSS pixel, written `160x160@2`."""

    width: int
    height: int
    scale: float = 1.0

    @classmethod
    def parse(cls, text: str) -> Size:
        match = re.fullmatch(r"(\d+)x(\d+)(?:@(\d+(?:\.\d+)?))?", text.strip())
        if match is None:
            raise ConfigError(f"{text!r} is no page size; write it like 160x160@2 (CSS width, height, scale)")
        size = cls(int(match[1]), int(match[2]), float(match[3] or 1))
        if not (64 <= size.width <= 4096 and 64 <= size.height <= 4096 and 0.5 <= size.scale <= 4):
            raise ConfigError(f"{text!r}: pages are 64 to 4096 CSS pixels a side, at scales from 0.5 to 4")
        return size

    @property
    def view(self) -> View:
        return View(width=self.width, height=self.height, scale=self.scale)

    def __str__(self) -> str:
        return f"{self.width}x{self.height}@{self.scale:g}"


# From the smallest task pages to desktop windows.
SIZES = tuple(Size.parse(text) for text in (
    "160x160@2", "160x160@2", "160x160@3", "160x210@2", "200x200@2", "240x240@2", "320x320@2", "320x240@1.5",
    "360x640@1", "400x300@1.5", "480x480@1", "640x480@1", "800x600@1", "1024x640@1", "1280x720@1", "1280x800@1",
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Recipe:
    """What kind of pages to make."""

    sizes: tuple[Size, ...] = SIZES
    held_out: bool = False  # from the reserved themes, fonts and layouts, instead of the others
    episodes: float = 0.15  # share of pages that come with a scripted episode
    fonts: tuple[Family, ...] = field(default=())  # empty: those installed, on this side of the split

    def describe(self) -> dict[str, Any]:
        """Everything that pages depend on, for manifests."""
        return {
            "sizes": [str(size) for size in self.sizes],
            "held_out": self.held_out,
            "episodes": self.episodes,
            "fonts": [family.name for family in self.families],
        }

    @property
    def families(self) -> tuple[Family, ...]:
        return self.fonts or families_for(held_out=self.held_out)


@dataclass(frozen=True, slots=True)
class MadePage:
    id: str
    html: str
    size: Size
    origin: dict[str, Any]
    flow: Flow | None = None


def make_page(recipe: Recipe, seed: int, index: int) -> MadePage:
    rng = random.Random(f"holotron page {seed} {index} {recipe.held_out}")
    size = rng.choice(recipe.sizes)
    theme = rng.choice([theme for theme in THEMES.values() if theme.held_out == recipe.held_out])
    families = recipe.families
    family = rng.choices(families, [family.weight for family in families])[0]
    words = draw_words(rng, family.languages, sharing=0.6 if recipe.held_out else 0.3)
    style = draw_style(rng, theme, family.name, size=_type_size(rng, size), gap=_gap(rng, size))
    kit = Kit(rng, words, style, size.width, size.height)
    flow = None
    if rng.random() < recipe.episodes:
        name = rng.choice([name for name, made in FLOWS.items() if made.width * style.size <= size.width])
        flow = make_flow(kit, name)
        layout, body = f"episode/{name}", flow.body
    else:
        frame = _choose_frame(rng, size, recipe.held_out)
        layout, body = frame.name, frame.make(kit, recipe.held_out)
        if rng.random() < 0.14:
            overlay = rng.choice(OVERLAYS)
            layout, body = f"{layout}+{overlay.__name__}", body + overlay(kit)
    origin = {
        "maker": "chromium",
        "seed": seed,
        "index": index,
        "held_out": recipe.held_out,
        "size": str(size),
        "layout": layout,
        "blocks": kit.used,
        "theme": theme.name,
        "font": family.name,
        "language": words.language,
        "voice": words.voice,
    }
    head = f'<!doctype html><html lang="{words.language}"><meta charset="utf-8"><style>{stylesheet(style)}</style>'
    html = f'{head}<body class="{body_classes(style)}">{body}</body></html>'
    side = "held-out" if recipe.held_out else "train"
    return MadePage(f"{side}-{seed}-{index:07d}", html, size, origin, flow)


def _choose_frame(rng: random.Random, size: Size, held_out: bool) -> Any:
    fitting = [frame for frame in FRAMES.values() if frame.held_out == held_out and frame.width <= size.width]
    return rng.choices(fitting, [frame.weight for frame in fitting])[0]


def _type_size(rng: random.Random, size: Size) -> float:
    """Small pages have small type: 8 to 13 pixels; desktop pages up to 17."""
    if size.width <= 240:
        return rng.choice((8, 9, 9, 10, 10, 10, 11, 11, 12, 12, 13))
    if size.width <= 480:
        return rng.choice((10, 10, 11, 12, 12, 13, 14)) if size.scale >= 1.5 else rng.choice((11, 12, 13, 14, 15))
    return rng.choice((12, 13, 13, 14, 14, 15, 16, 17))


def _gap(rng: random.Random, size: Size) -> float:
    """The density of the page: from packed to airy."""
    if size.width <= 240:
        return round(rng.uniform(3, 8), 1)
    return round(rng.uniform(4, 10 if size.width < 640 else 16), 1)
