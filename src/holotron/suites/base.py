"""Suites: which tasks there are, where they are played, and by which rules.

    suite = miniwob_suite("all", parse_seeds("0:20"))
    pool = suite.open(sessions=16)

A suite is all that a rollout or an evaluation has to know of its environments.
"""

from __future__ import annotations

import difflib
import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from holotron.actions import ACTIONS
from holotron.agent.loop import Limits
from holotron.envs.base import EnvironmentPool, FreshEnvironments
from holotron.errors import ConfigError
from holotron.types import Task

# Small widgets on one page: there is nowhere to go and nobody to answer.
MINIWOB_ACTIONS = ("click", "double_click", "right_click", "hover", "write", "press_keys", "scroll", "drag", "wait")


@dataclass(frozen=True, slots=True)
class Suite:
    name: str
    tasks: tuple[Task, ...]
    open: Callable[[int], EnvironmentPool[Any]]  # the most sessions -> environments
    actions: tuple[str, ...] = tuple(ACTIONS)  # what makes sense there
    limits: Limits = field(default_factory=Limits)
    describe: Mapping[str, Any] = field(default_factory=dict)  # for manifests

    def limited(self, steps: int | None = None, seconds: float | None = None) -> Suite:
        """The same suite with other limits where they are given."""
        limits = replace(self.limits, steps=steps or self.limits.steps, seconds=seconds or self.limits.seconds)
        return replace(self, limits=limits)


def find_suite(name: str, tasks: str, seeds: str, **options: Any) -> Suite:
    """A suite as people name it: `miniwob`, `painted`, a file of web tasks, or a folder of pages."""
    if name == "miniwob":
        return miniwob_suite(tasks, parse_seeds(seeds), **options)
    if name == "painted":
        return painted_suite(tasks, parse_seeds(seeds), size=options.get("size", "160x160@2"))
    if Path(name).suffix in (".jsonl", ".json"):
        return web_suite(Path(name))
    if Path(name).is_dir():
        return asked_suite(Path(name), tasks, parse_seeds(seeds))
    raise ConfigError(
        f"there is no suite {name!r}; use miniwob, painted, a JSON-lines file with url and goal, or a folder of pages "
        "as of `holotron data synth`"
    )


def miniwob_suite(
    names: str | Sequence[str] = "all",
    seeds: range = range(1),
    *,
    scale: float = 3.0,
    crop_instruction: bool = False,
    image_format: str = "jpeg",
    limits: Limits = Limits(steps=20, seconds=300.0),
) -> Suite:
    """MiniWoB++ tasks by name ("all", or names separated by commas), each at every seed."""
    from holotron.envs.miniwob import MiniWobPool, task_names

    known = task_names(unregistered=True)
    wanted = _wanted(names, task_names())
    unknown = [name for name in wanted if name not in known]
    if unknown:
        close = difflib.get_close_matches(unknown[0], known, n=3) or known[:5]
        raise ConfigError(f"there is no MiniWoB++ task {unknown[0]!r}; there are such as: {', '.join(close)}")

    def open_pool(sessions: int) -> EnvironmentPool[Any]:
        return MiniWobPool(
            sessions=sessions,
            scale=scale,
            crop_instruction=crop_instruction,
            image_format="png" if image_format == "png" else "jpeg",
        )

    return Suite(
        name="miniwob",
        tasks=tuple(Task("miniwob", name, seed=seed) for name in wanted for seed in seeds),
        open=open_pool,
        actions=MINIWOB_ACTIONS,
        limits=limits,
        describe={
            "suite": "miniwob",
            "scale": scale,
            "crop_instruction": crop_instruction,
            "image_format": image_format,
            "browser": browser_version(),
        },
    )


def painted_suite(
    names: str | Sequence[str] = "all",
    seeds: range = range(1),
    *,
    size: str = "160x160@2",
    limits: Limits = Limits(steps=10, seconds=300.0),
) -> Suite:
    """Painted screens to click on, without a browser; see `holotron.suites.painted`."""
    from holotron.data.pages.make import Size
    from holotron.suites.painted import NAMES, PaintedEnvironment, check_name

    wanted = _wanted(names, NAMES)
    for name in wanted:
        check_name(name)
    shape = Size.parse(size)
    return Suite(
        name="painted",
        tasks=tuple(Task("painted", name, seed=seed) for name in wanted for seed in seeds),
        open=lambda sessions: FreshEnvironments(lambda: PaintedEnvironment(shape)),
        actions=("click",),
        limits=limits,
        describe={"suite": "painted", "size": size},
    )


def asked_suite(folder: Path, names: str | Sequence[str] = "all", seeds: range = range(1)) -> Suite:
    """Questions about stored pages, without a browser; see `holotron.suites.asked`."""
    from holotron.suites.asked import ACTIONS as CLICKS
    from holotron.suites.asked import AskedEnvironment, questions

    known = sorted(questions(folder))
    wanted = _wanted(names, known)
    if unknown := [name for name in wanted if name not in known]:
        raise ConfigError(f"{folder} asks nothing by {unknown[0]!r}; there are: {', '.join(known)}")
    return Suite(
        name="asked",
        tasks=tuple(Task(str(folder), name, seed=seed) for name in wanted for seed in seeds),
        open=lambda sessions: FreshEnvironments(AskedEnvironment),
        actions=CLICKS,
        limits=Limits(steps=1, seconds=60.0),
        describe={"suite": "asked", "pages": folder.name},
    )


def web_suite(path: Path, *, limits: Limits = Limits(answer_when_over=True)) -> Suite:
    """Tasks on any web pages, from a JSON-lines file with `url` and `goal` (and optionally `name` and `seed`)."""
    from holotron.envs.web import WebPool

    def open_pool(sessions: int) -> EnvironmentPool[Any]:
        return WebPool(sessions=sessions)

    return Suite(
        name="web",
        tasks=tuple(_web_tasks(path)),
        open=open_pool,
        limits=limits,
        describe={"suite": "web", "tasks": path.name, "browser": browser_version()},
    )


def _wanted(names: str | Sequence[str], every: Sequence[str]) -> list[str]:
    """Names as people write them: "all", or some with commas between them."""
    if names == "all":
        return list(every)
    return names.split(",") if isinstance(names, str) else list(names)


def _web_tasks(path: Path) -> list[Task]:
    tasks = []
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise ConfigError(f"cannot read the tasks in {path}: {error.strerror}") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            goal, url = str(entry["goal"]), str(entry["url"])
        except (ValueError, KeyError, TypeError):
            raise ConfigError(
                f'{path}, line {number}: expected {{"url": ..., "goal": ...}}, got {line[:80]!r}'
            ) from None
        tasks.append(Task("web", str(entry.get("name", number)), goal, int(entry.get("seed", 0)), url))
    if not tasks:
        raise ConfigError(f"{path} holds no tasks")
    return tasks


def parse_seeds(text: str) -> range:
    """`7` is one seed, `A:B` is A up to but not including B."""
    first, colon, last = text.partition(":")
    try:
        seeds = range(int(first), int(last)) if colon else range(int(first), int(first) + 1)
    except ValueError:
        seeds = range(0)
    if not seeds or seeds.start < 0:
        raise ConfigError(f"seeds {text!r}: write A:B with A below B (B is left out), or a single number")
    return seeds


def browser_version() -> str:
    """What the browser says of itself, for manifests."""
    from holotron.envs.chromium import find_chromium

    try:
        command = [str(find_chromium()), "--version"]
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"
