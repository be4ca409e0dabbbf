"""What differs from episode to episode without being the task: look, language, size, day, and what gets in the way.

    Variation.draw("shop-wish", seed=7, split="train")

All of it follows from the template's name, the seed and the split. `split` decides which themes and layouts may appear
and nothing else, so one seed asks for the same thing of the same data on both sides.
"""

from __future__ import annotations

import datetime
import random
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from holotron.errors import ConfigError
from holotron.sites.looks import LAYOUTS, THEMES, Layout, Theme

Split = Literal["train", "heldout"]
Language = Literal["en", "de", "fr", "es"]
Density = Literal["compact", "normal", "airy"]
Viewport = Literal["laptop", "phone"]

SIZES: dict[str, tuple[int, int]] = {"laptop": (1280, 720), "phone": (390, 844)}
# Image pixels for each CSS pixel, times what the view asks for: phones are narrow and have fine screens.
SCALES: dict[str, float] = {"laptop": 1.0, "phone": 1.5}
_CHANCES: dict[Any, dict[Any, int]] = {
    Language: {"en": 7, "de": 1, "fr": 1, "es": 1},
    Density: {"compact": 1, "normal": 2, "airy": 1},
    Viewport: {"laptop": 3, "phone": 1},
}


@dataclass(frozen=True, slots=True)
class Trouble:
    """What gets in the way, counted in pages the agent has opened so that it is the same every time."""

    cookies: bool = False  # a banner asks about cookies until it is answered
    newsletter: int = 0  # a window offers a newsletter on this page and all later ones until it is closed; 0: never
    signed_out: int = 0  # the log-in expires when this many pages have been opened; 0: never
    slow: str = ""  # addresses that begin with this show "loading" first


@dataclass(frozen=True, slots=True)
class Variation:
    theme: Theme
    layout: Layout
    language: Language
    density: Density
    viewport: Viewport
    today: datetime.date
    trouble: Trouble

    @classmethod
    def draw(cls, name: str, seed: int, split: Split = "train", **fixed: Any) -> Variation:
        """`fixed`: fields that are given instead of drawn; what is drawn for the others stays the same."""
        if split not in get_args(Split):
            raise ConfigError(f"there is no split {split!r} of sites; use {' or '.join(get_args(Split))}")
        dice = generator(name, seed, "variation")
        held_out = split == "heldout"
        drawn = cls(
            language=_draw(dice, Language),
            density=_draw(dice, Density),
            viewport=_draw(dice, Viewport),
            today=datetime.date(2025, 1, 1) + datetime.timedelta(days=dice.randrange(700)),
            trouble=Trouble(
                cookies=dice.random() < 0.25,
                newsletter=dice.choice((2, 3, 4)) if dice.random() < 0.12 else 0,
            ),
            theme=dice.choice([theme for theme in THEMES if theme.held_out == held_out]),
            layout=dice.choice([layout for layout in LAYOUTS if layout.held_out == held_out]),
        )
        return replace(drawn, **{name: value for name, value in fixed.items() if value is not None})

    @property
    def size(self) -> tuple[int, int]:
        return SIZES[self.viewport]

    @property
    def scale(self) -> float:
        return SCALES[self.viewport]


def generator(*key: Any) -> random.Random:
    """A random generator that belongs to these words alone, in every process and on every machine."""
    return random.Random("/".join(map(str, key)))


def _draw(dice: random.Random, kind: Any) -> Any:
    chances = _CHANCES[kind]
    return dice.choices(list(chances), list(chances.values()))[0]
