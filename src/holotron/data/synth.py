"""`holotron data synth`: pages by the thousand, made in real browsers, in parallel, resumable.

    report = synthesise(Path("data/synth"), Recipe(), seed=7, pages=10_000, processes=2)

Pages are numbered; a shard holds a fixed range of numbers and is the unit of work. Who makes it, and when, does not
change what is in it. Killed at any point, the same call goes on with the shards that are missing; called with more
pages, it adds them.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from holotron.actions import action_to_json
from holotron.data.labels import Sample
from holotron.data.pages.make import MadePage, Recipe, make_page
from holotron.data.render import Renderer, Shot
from holotron.data.samples import make_samples
from holotron.data.shards import FOLDER, FORMAT, Row, make_row, pages_in_shard, write_shard
from holotron.errors import ConfigError, EnvironmentFault
from holotron.storage.files import sweep_temporaries
from holotron.storage.manifest import agree

TABS = 3  # pages that one browser works on at a time

Choose = Callable[[MadePage, Shot, random.Random], list[Sample]]  # the samples of one screenshot
Progress = Callable[["SynthSummary"], None]


@dataclass(slots=True)
class SynthSummary:
    """What a run has done so far."""

    pages: int = 0  # made by this run
    kept: int = 0  # made by earlier runs
    wanted: int = 0
    screenshots: int = 0
    episodes: int = 0
    bytes: int = 0
    samples: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def pages_per_second(self) -> float:
        return self.pages / self.seconds if self.seconds else 0.0


def usual_samples(page: MadePage, shot: Shot, rng: random.Random) -> list[Sample]:
    return make_samples(shot.elements, shot.text, rng)


def synthesise(
    folder: Path,
    recipe: Recipe,
    *,
    seed: int,
    pages: int,
    processes: int = 2,
    shard_pages: int = 64,
    choose: Choose = usual_samples,
    progress: Progress = lambda report: None,
) -> SynthSummary:
    """Fill the folder with pages 0 .. pages - 1 of this recipe and seed. Resumes; adds; refuses to mix recipes."""
    if pages < 1 or processes < 1 or shard_pages < 1:
        raise ConfigError("pages, processes and shard_pages must be at least 1")
    config = {"recipe": recipe.describe(), "seed": seed, "shard_pages": shard_pages, "samples": choose.__name__}
    agree(folder, {"format": FORMAT, "config": config})
    sweep_temporaries(folder / FOLDER)
    report = SynthSummary(wanted=pages)
    todo = []
    for number in range(-(-pages // shard_pages)):
        first, last = number * shard_pages, min((number + 1) * shard_pages, pages)
        there = pages_in_shard(folder, number)
        if there >= last - first:
            report.kept += there
        else:
            todo.append(_Shard(folder, number, recipe, seed, first, last, choose))
    started = time.monotonic()
    for part in _work(todo, processes):
        report.pages += part.pages
        report.screenshots += part.screenshots
        report.episodes += part.episodes
        report.bytes += part.bytes
        report.samples += part.samples
        report.seconds = time.monotonic() - started
        progress(report)
    return report


# ------------------------------------------------------------------------------------------------------ shard by shard


@dataclass(frozen=True, slots=True)
class _Shard:
    folder: Path
    number: int
    recipe: Recipe
    seed: int
    first: int
    last: int
    choose: Choose


def _work(todo: list[_Shard], processes: int) -> Iterator[SynthSummary]:
    """Reports of shards as they are finished."""
    if processes == 1 or len(todo) <= 1:
        with closing(_Maker()) as maker:
            yield from map(maker.make, todo)
        return
    spawn = multiprocessing.get_context("spawn")  # a forked child would share the parent's event loop and pipes
    with ProcessPoolExecutor(min(processes, len(todo)), mp_context=spawn, initializer=_start) as pool:
        waiting: set[Future[SynthSummary]] = {pool.submit(_make, shard) for shard in todo}
        try:
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        except BrokenProcessPool:
            raise EnvironmentFault("A worker process died. Start the same command again to go on.") from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


class _Maker:
    """One browser in this process, making one shard after the other."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._renderer = Renderer(tabs=TABS)

    def make(self, shard: _Shard) -> SynthSummary:
        return self._runner.run(_make_shard(self._renderer, shard))

    def close(self) -> None:
        self._runner.run(self._renderer.close())
        self._runner.close()


_maker: _Maker | None = None  # of a worker process, which has no other purpose; its browser ends with it


def _start() -> None:
    global _maker
    _maker = _Maker()
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for work for ever, and keep its browser open."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _make(shard: _Shard) -> SynthSummary:
    assert _maker is not None
    return _maker.make(shard)


async def _make_shard(renderer: Renderer, shard: _Shard) -> SynthSummary:
    made = [make_page(shard.recipe, shard.seed, index) for index in range(shard.first, shard.last)]
    report = SynthSummary()
    rows: list[Row] = []
    for page, shots in zip(made, await asyncio.gather(*map(renderer.render, made)), strict=True):
        report.pages += 1
        report.episodes += shots[0].action is not None
        for step, shot in enumerate(shots):
            samples = shard.choose(page, shot, random.Random(f"holotron samples {page.id} {step}"))
            rows.append(_row(page, shot, step, len(shots), samples))
            report.screenshots += 1
            report.bytes += len(shot.image)
            report.samples.update(sample.kind for sample in samples)
    write_shard(shard.folder, shard.number, rows, report.pages)
    return report


def _row(page: MadePage, shot: Shot, step: int, steps: int, samples: list[Sample]) -> Row:
    episode = shot.action is not None and page.flow is not None
    return make_row(
        id=f"{page.id}/{step}" if episode else page.id,
        image=shot.image,
        size=shot.size,
        scale=page.size.scale,
        elements=shot.elements,
        text=shot.text,
        origin=page.origin,
        goal=page.flow.goal if episode and page.flow else "",
        step=step,
        steps=steps if episode else 0,
        action=action_to_json(shot.action) if shot.action else None,
        samples=samples,
    )
