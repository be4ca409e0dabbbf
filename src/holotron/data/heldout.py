"""The frozen localisation set: pages whose themes, fonts and layouts are never trained on, and hard targets on them.

    report = make_heldout(Path("data/heldout"))
    report.hash                                        # goes on the model card; data/heldout/heldout.json keeps it

The hash covers pixels, labels and samples. Pages are drawn with the machine's fonts, so a set is copied to where it is
used, not made there again: equal hashes mean equal sets.

Themes, fonts and layouts carry a `held_out` mark where they are defined, and `Recipe(held_out=...)` takes from one side
only. On this side labels share words twice as often, and a target is taken only if something else on the page is easily
mistaken for it. At least half of the targets cover at most half a percent of the page.
"""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from holotron.data.describing import DescribedScreen
from holotron.data.labels import Element, Sample
from holotron.data.pages.make import MadePage, Recipe, Size
from holotron.data.render import Shot
from holotron.data.samples import click_sample
from holotron.data.shards import content_hash, iter_rows
from holotron.data.synth import Progress, synthesise
from holotron.data.targets import in_turns, mistakable
from holotron.errors import InputError
from holotron.storage.files import replace_json

SEED = 20_000_000
SIZES = (Size(320, 320, 2.0),)
CARD = "heldout.json"  # in the folder: what a model card says about the set
MEDIAN_AREA = 0.005  # of the page
LARGEST_AREA = 0.012


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
    made = HeldOut(pages, len(areas), median(areas), content_hash(folder))
    replace_json(folder / CARD, asdict(made))
    return made


def _area(box: list[float]) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def hard_samples(page: MadePage, shot: Shot, rng: random.Random) -> list[Sample]:
    """Up to two targets that are easily mistaken for something else: one of at most half a percent of the page, if
    possible with a name; then one that may be somewhat larger. So at least half of all targets are small."""
    screen = DescribedScreen(shot.elements, shot.text)
    whole = page.size.width * page.size.height
    hard = [e for e in screen.targets if e.area <= LARGEST_AREA * whole and mistakable(screen, e)]
    small = sorted(in_turns([e for e in hard if e.area <= MEDIAN_AREA * whole], rng), key=lambda e: not e.name)
    first = first_sample(screen, small, rng)
    if first is None:
        return []
    second = first_sample(screen, [e for e in in_turns(hard, rng) if e.box != first.box], rng)
    return [first] if second is None else [first, second]


def first_sample(screen: DescribedScreen, targets: list[Element], rng: random.Random) -> Sample | None:
    """Of the first target that can be described."""
    samples = (click_sample(screen, target, rng) for target in targets)
    return next((sample for sample in samples if sample is not None), None)
