"""A second frozen localisation set: screens of the web apps of `holotron.sites` in held-out looks, at laptop size.

    made = make_site_pages(Path("data/heldout-sites"))
    made.hash, made.median_area

Nothing in it comes from the synthesiser of `data.pages`: the apps have templates of their own, and the themes, layouts
and fonts of their held-out side, which nothing is trained on. Each app's solver goes a few steps into a task, so that
lists, forms, menus and dialogs are there, and the screen is labelled as it stands. As on the other set, targets are
small and easily mistaken for something else; here at least half of them cover at most 0.15 % of the page.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from statistics import median

from holotron.data.describing import DescribedScreen
from holotron.data.heldout import CARD, HeldOut, first_sample
from holotron.data.labels import Sample
from holotron.data.render import FLAGS, LABELS, Shot, labelled
from holotron.data.shards import FORMAT, Row, content_hash, iter_rows, make_row, pages_in_shard, write_shard
from holotron.data.targets import in_turns, mistakable
from holotron.envs.session import SessionOptions
from holotron.envs.tab import Display
from holotron.errors import InputError
from holotron.sites.environment import SitesEnvironment, SitesPool
from holotron.sites.solver import SitesSolver
from holotron.sites.tasks import SUITE, templates
from holotron.storage.files import replace_json
from holotron.storage.manifest import agree
from holotron.types import Answer, Task

APPS = ("shop", "mail", "calendar", "tracker", "admin")
FIRST_SEED = 280_000
OPTIONS = {"split": "heldout", "viewport": "laptop", "language": "en"}
PAGE = 1280 * 720  # CSS pixels
MEDIAN_AREA = 0.0015  # of the page
LARGEST_AREA = 0.004
MOST_STEPS = 5  # that the solver goes before a screen is taken
SHARD_PAGES = 16


def make_site_pages(
    folder: Path, *, pages: int = 240, sessions: int = 2, progress: Callable[[int], None] = lambda done: None
) -> HeldOut:
    """Make the set (or finish it), check that it is as hard as it claims, and give its hash."""
    agree(folder, {"format": FORMAT, "config": {"set": "sites", "first_seed": FIRST_SEED, "shard_pages": SHARD_PAGES}})
    asyncio.run(_make(folder, pages, sessions, progress))
    boxes = [sample["box"] for row in iter_rows(folder, ["samples"]) for sample in row["samples"]]
    areas = [(right - left) * (bottom - top) / PAGE for left, top, right, bottom in boxes]
    if not areas or median(areas) > MEDIAN_AREA:
        found = f"{median(areas):.2%}" if areas else "none"
        raise InputError(f"the median target is {found} of the page, more than {MEDIAN_AREA:.2%}; make more pages")
    made = HeldOut(pages, len(areas), median(areas), content_hash(folder))
    replace_json(folder / CARD, asdict(made))
    return made


async def _make(folder: Path, pages: int, sessions: int, progress: Callable[[int], None]) -> None:
    pool = SitesPool(sessions=sessions, browsers=1, options=SessionOptions(display=Display(format="png")), flags=FLAGS)
    try:
        for number, first in enumerate(range(0, pages, SHARD_PAGES)):
            last = min(first + SHARD_PAGES, pages)
            if pages_in_shard(folder, number) < last - first:
                rows = await asyncio.gather(*(_row(pool, index) for index in range(first, last)))
                write_shard(folder, number, list(rows), last - first)
            progress(last)
    finally:
        await pool.close()


async def _row(pool: SitesPool, index: int) -> Row:
    rng = random.Random(f"holotron site pages {index}")
    known = [template.name for app in APPS for template in templates(app)]
    task = Task(SUITE, known[index * 7 % len(known)], seed=FIRST_SEED + index, options=OPTIONS)
    environment = await pool.acquire()
    try:
        shot = await _screen(environment, task, rng.randrange(MOST_STEPS + 1))
    finally:
        await pool.release(environment)
    return make_row(
        id=f"{task.name}/{task.seed}",
        image=shot.image,
        size=shot.size,
        scale=1.0,
        elements=shot.elements,
        text=shot.text,
        origin={"suite": SUITE, "task": task.name, "seed": task.seed, **OPTIONS},
        samples=small_samples(shot, rng),
    )


async def _screen(environment: SitesEnvironment, task: Task, steps: int) -> Shot:
    """The screen after so many steps of the solver, or before the one that would end the episode."""
    solver, observation = SitesSolver(), await environment.reset(task)
    for step in range(steps):
        action = await solver(environment, observation, step)
        if action is None or isinstance(action, Answer):
            break
        result = await environment.step(action)
        observation = result.observation
        if result.done:
            break
    await environment.evaluate("document.activeElement?.blur()")  # a caret blinks
    found = await environment.evaluate(LABELS)
    return await asyncio.to_thread(labelled, (await environment.observe()).image, found)


def small_samples(shot: Shot, rng: random.Random) -> list[Sample]:
    """Up to three targets that are easily mistaken for something else, two of them small."""
    screen = DescribedScreen(shot.elements, shot.text)
    hard = in_turns([e for e in screen.targets if e.area <= LARGEST_AREA * PAGE and mistakable(screen, e)], rng)
    small = sorted([e for e in hard if e.area <= MEDIAN_AREA * PAGE], key=lambda e: not e.name)
    chosen: list[Sample] = []
    for targets in (small, small, hard):
        taken = {sample.box for sample in chosen}
        found = first_sample(screen, [target for target in targets if target.box not in taken], rng)
        if found is None and not chosen:
            return []
        chosen += [found] if found is not None else []
    return chosen
