"""The fault run: browsers and their renderers are killed at random while a hundred episodes are played."""

from __future__ import annotations

import asyncio
import os
import random
import signal

import psutil
import pytest

from holotron.rollouts.runner import RolloutSettings, rollout
from holotron.rollouts.store import RunReader
from holotron.suites.base import find_suite
from holotron.suites.miniwob_solver import SolverPolicy
from holotron.types import Outcome
from holotron.view import View
from tests.envs.processes import alive, browsers_under, eventually, renderers_under

pytestmark = [pytest.mark.browser, pytest.mark.slow]

TASKS = "click-test,click-button,focus-text,click-dialog,enter-text"


def test_a_hundred_episodes_under_fire(tmp_path):
    suite = find_suite("miniwob", tasks=TASKS, seeds=range(20), view=View(scale=1))
    dice = random.Random(11)
    kills = {"browser": 0, "renderer": 0}
    seen: set[psutil.Process] = set()

    def shoot(progress):
        """Every few episodes, kill something: rarely a whole browser, more often one renderer."""
        if progress.done < 8 * sum(kills.values()) + 4:
            return
        kind = "browser" if dice.random() < 0.4 else "renderer"
        targets = (browsers_under if kind == "browser" else renderers_under)(os.getpid())
        seen.update(browsers_under(os.getpid()))
        if targets:
            dice.choice(targets).send_signal(signal.SIGKILL)
            kills[kind] += 1

    async def main():
        pool = suite.open(6)
        try:
            return await rollout(
                suite.tasks,
                SolverPolicy(),
                pool,
                tmp_path / "run",
                settings=RolloutSettings(sessions=6, attempts=8, error_streak=1000),
                limits=suite.limits,
                on_progress=shoot,
            )
        finally:
            await pool.close()

    progress = asyncio.run(main())
    assert kills["browser"] >= 2
    assert kills["renderer"] >= 2
    reader = RunReader(tmp_path / "run")
    assert sorted(row["id"] for row in reader.episodes()) == sorted(task.id for task in suite.tasks)
    assert progress.done == 100
    # A killed browser costs attempts, not results: whatever is not a success was spoiled to the last attempt.
    assert set(progress.outcomes) <= {Outcome.SUCCESS, Outcome.ENVIRONMENT_ERROR}
    assert progress.successes >= 95
    assert progress.retries >= 1
    assert len(reader.spoiled()) == progress.retries + progress.environment_errors
    assert eventually(lambda: not alive(list(seen)) and not browsers_under(os.getpid()))
