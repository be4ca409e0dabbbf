"""Everything that can be measured without the open web, played by one policy, part by part, for one report.

    parts = offline_parts("full")
    played = await play_offline(parts, PolicyRequest("holotron-mini"), Path("runs/offline"))
    played.results, played.skipped

Each part is a run directory of its own below the folder, so whatever interrupts it, the same call goes on where it was,
and each part can be compared, reported and judged like any other run. What a part holds is fixed by its size, and so
are its seeds: from 230,000 on, which nothing here is trained or tuned on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from holotron.agent.policies.registry import PolicyRequest
from holotron.errors import ConfigError, EnvironmentFault, InputError, MissingDependency
from holotron.evals.costs import Prices
from holotron.evals.evaluate import evaluate
from holotron.evals.results import RunResult, read_result
from holotron.rollouts.progress import Progress
from holotron.rollouts.runner import RolloutSettings
from holotron.rollouts.store import RunReader
from holotron.rollouts.suite import opened
from holotron.storage.manifest import MANIFEST

Size = Literal["full", "small"]
FIRST_SEED = 230_000
TRANSFER = ("trac", "oscar")


@dataclass(frozen=True, slots=True)
class Part:
    name: str  # of its folder
    suite: str  # as `holotron eval` takes it
    about: str
    tasks: str = "all"
    seeds: range = range(FIRST_SEED, FIRST_SEED + 1)
    stride: int = 1  # of the suite's tasks, the first of every so many
    installs: bool = False  # what it needs is fetched on first use; where that fails, the part is left out


@dataclass(frozen=True, slots=True)
class OfflineResult:
    results: tuple[RunResult, ...]
    skipped: dict[str, str]  # parts that were not played, or not to their end, and why
    seconds: float  # of this call


def offline_parts(size: Size = "full", grounding: Sequence[str] = ()) -> list[Part]:
    """`grounding`: benchmarks with the folders of their files, `osworld-g:data/OSWorld-G`; they cannot be shipped."""
    full = size == "full"
    parts = [
        Part("miniwob", "miniwob", "small web tasks with an exact reward", seeds=_seeds(3 if full else 1),
             stride=1 if full else 20),
        *(
            Part(f"sites-{length}", "sites:heldout", f"web apps, {steps} steps, in looks that nothing is trained on",
                 tasks=",".join(_templates(length)), stride=1 if full else 8)
            for length, steps in (("short", "2 to 5"), ("medium", "6 to 15"), ("long", "16 to 40"))
        ),
        *(
            Part(name, name, "transfer: a web app that others wrote", stride=1 if full else 13, installs=True)
            for name in TRANSFER
        ),
        Part("recall", "recall:heldout", "a word seen k steps ago", tasks="all" if full else "1,4",
             seeds=_seeds(3 if full else 1)),
    ]  # fmt: skip
    for spec in grounding:
        name = spec.partition(":")[0]
        parts.append(Part(name, spec, "one screenshot, one instruction, one click", seeds=range(1)))
    if len({part.name for part in parts}) < len(parts):
        raise ConfigError("each grounding benchmark can be named once")
    return parts


def _seeds(count: int) -> range:
    return range(FIRST_SEED, FIRST_SEED + count)


def _templates(length: str) -> list[str]:
    """Of the five apps; the sixth, `rounds`, is what recall is measured with."""
    from holotron.sites.tasks import templates

    return [one.name for one in templates() if one.length == length and not one.name.startswith("rounds-")]


def select(parts: Sequence[Part], names: str) -> list[Part]:
    """Some of the parts, by names with commas; "all" is all."""
    if names == "all":
        return list(parts)
    wanted = [name.strip() for name in names.split(",")]
    known = [part.name for part in parts]
    if unknown := [name for name in wanted if name not in known]:
        raise ConfigError(f"there is no part {unknown[0]!r}; there are {', '.join(known)}")
    return [part for part in parts if part.name in wanted]


async def play_offline(
    parts: Sequence[Part],
    policy: PolicyRequest,
    out: Path,
    *,
    settings: RolloutSettings = RolloutSettings(sessions=4),
    prices: Prices | None = None,
    on_part: Callable[[Part, int], Callable[[Progress], None] | None] = lambda part, number: None,
) -> OfflineResult:
    """Play the parts one after the other. `on_part(part, number)` is told of each and may return what follows its
    progress. A part that cannot be played is left out, or left where it broke, and the reason kept."""
    began = time.monotonic()
    skipped: dict[str, str] = {}
    for number, part in enumerate(parts, start=1):
        show = on_part(part, number)
        async with AsyncExitStack() as playing:
            try:
                actor, suite = await playing.enter_async_context(
                    opened(policy, part.suite, tasks=part.tasks, seeds=part.seeds)
                )
                suite = replace(suite, tasks=suite.tasks[:: part.stride])
                if part.installs:
                    await suite.open(1).close()
            except (ConfigError, InputError, MissingDependency, EnvironmentFault) as error:
                skipped[part.name] = f"not played: {error}"
                continue
            try:
                await evaluate(actor, suite, out / part.name, settings=settings, on_progress=show)
            except EnvironmentFault as error:
                skipped[part.name] = f"not completed: {error}"
    return OfflineResult(tuple(_results(parts, out, prices)), skipped, time.monotonic() - began)


def _results(parts: Sequence[Part], out: Path, prices: Prices | None) -> list[RunResult]:
    """Of the parts that have something on record."""
    there = [part for part in parts if (out / part.name / MANIFEST).is_file()]
    return [
        read_result(out / part.name, prices=prices, name=part.name)
        for part in there
        if RunReader(out / part.name).episodes()
    ]
