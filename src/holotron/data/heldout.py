"""The frozen localisation set: pages whose themes, fonts and layouts are never trained on, and hard targets on them.

    report = make_heldout(Path("data/heldout"))
    content_hash(Path("data/heldout"))                 # goes on the model card

Themes, fonts and layouts carry a `held_out` mark where they are defined, and `Recipe(held_out=...)` takes from one side
only. On this side labels share words twice as often, and a target is taken only if something else on the page is easily
mistaken for it. Half of the targets cover at most half a percent of the page.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median

from holotron.data.describing import Screen, normal
from holotron.data.labels import Element, Sample
from holotron.data.pages.make import MadePage, Recipe, Size
from holotron.data.render import Shot
from holotron.data.samples import click_sample
from holotron.data.shards import content_hash, iter_rows
from holotron.data.synth import Progress, synthesise
from holotron.errors import InputError

SEED = 20_000_000
SIZES = (Size(320, 320, 2.0),)
MEDIAN_AREA = 0.005  # of the page
LARGEST_AREA = 0.012
TARGETS = 2  # of a page


@dataclass(frozen=True, slots=True)
class HeldOut:
    pages: int
    samples: int
    median_area: float  # of the page
    hash: str


def make_heldout(
    folder: Path,
    *,
    pages: int = 400,
    sizes: tuple[Size, ...] = SIZES,
    processes: int = 2,
    progress: Progress = lambda report: None,
) -> HeldOut:
    """Make the set (or finish it), check that it is as hard as it claims, and give its hash."""
    recipe = Recipe(sizes=sizes, held_out=True, episodes=0.0)
    synthesise(folder, recipe, seed=SEED, pages=pages, processes=processes, choose=hard_samples, progress=progress)
    areas = []
    for row in iter_rows(folder, ["width", "height", "scale", "samples"]):
        whole = row["width"] * row["height"] / row["scale"] ** 2
        areas += [_area(sample["box"]) / whole for sample in row["samples"]]
    if not areas or median(areas) > MEDIAN_AREA:
        found = f"{median(areas):.2%}" if areas else "none"
        raise InputError(f"the median target is {found} of the page, more than {MEDIAN_AREA:.1%}; use larger pages")
    return HeldOut(pages, len(areas), median(areas), content_hash(folder))


def _area(box: list[float]) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def hard_samples(page: MadePage, shot: Shot, rng: random.Random) -> list[Sample]:
    """Small targets with something similar beside them, smaller ones first."""
    screen = Screen(shot.elements, shot.text)
    whole = page.size.width * page.size.height
    small = [e for e in screen.targets if e.area <= LARGEST_AREA * whole and mistakable(screen, e)]
    small.sort(key=lambda e: (e.area > MEDIAN_AREA * whole, rng.random()))
    made = (click_sample(screen, target, rng) for target in small)
    return list(islice((sample for sample in made if sample is not None), TARGETS))


def mistakable(screen: Screen, target: Element) -> bool:
    """Is there something else that shares a word with it, or looks like it?"""
    others = [e for e in screen.rivals if e is not target]
    if words := set(normal(target.name).split()):
        return any(words & set(normal(e.name).split()) for e in others)
    return sum(e.role == target.role for e in others) >= 2
