"""Many episodes at once: all end on record exactly once, whatever breaks on the way."""

from __future__ import annotations

import asyncio
import itertools
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holotron.agent.loop import Limits
from holotron.agent.policies.random import RandomPolicy
from holotron.agent.policies.scripted import ScriptedPolicy
from holotron.errors import ConfigError, EnvironmentFault, PolicyError
from holotron.rollouts.runner import RolloutSettings, episodes_of, rollout
from holotron.rollouts.store import RunReader
from holotron.types import Outcome, Task
from tests.agent.toy import ButtonEnvironment, ButtonPool, press_target
from tests.rollouts.killable import slowly

TEACHER = ScriptedPolicy(press_target)


class Remote:
    """A policy whose server may be down, as decided by a function of the task."""

    name = "scripted"

    def __init__(self, down):
        self.down = down

    def describe(self):
        return TEACHER.describe()

    async def start(self, task, environment):
        if reason := self.down(task):
            raise PolicyError(reason)
        return await TEACHER.start(task, environment)

    async def close(self):
        pass


def tasks(count: int, **options) -> list[Task]:
    return [Task("buttons", "press", seed=seed, options=options) for seed in range(count)]


def play(out: Path, todo, policy=TEACHER, pool=None, **options):
    pool = pool or ButtonPool()

    async def main():
        try:
            return await rollout(todo, policy, pool, out, **options)
        finally:
            await pool.close()

    return asyncio.run(main())


def recorded(out: Path) -> list[str]:
    return sorted(row["id"] for row in RunReader(out).episodes())


def ids(todo) -> list[str]:
    return sorted(task.id for task in todo)


def test_all_tasks_end_on_record(tmp_path):
    pool = ButtonPool()
    seen, finished = [], []
    todo = tasks(30, presses=2)
    progress = play(
        tmp_path / "run",
        todo,
        pool=pool,
        settings=RolloutSettings(sessions=4),
        on_progress=seen.append,
        on_episode=finished.append,
    )
    assert recorded(tmp_path / "run") == ids(todo)
    assert (progress.done, progress.successes, progress.scored, progress.steps) == (30, 30, 30, 60)
    assert progress.running == 0
    assert progress.remaining_seconds == 0
    assert len(finished) == 30
    assert [p.done for p in seen] == sorted(p.done for p in seen)
    assert any(p.remaining_seconds for p in seen)
    assert pool.most_leased <= 4
    assert pool.leased == 0
    assert pool.made <= 4  # environments are used again
    manifest = RunReader(tmp_path / "run").manifest
    assert manifest["config"]["policy"] == {"policy": "scripted", "script": "scripted"}
    assert manifest["episodes"] == ids(todo)


def test_only_the_environments_failures_are_tried_again(tmp_path):
    dice = random.Random(7)
    failed = []

    def trouble(call):
        if dice.random() < 0.15:
            failed.append(call)
            raise EnvironmentFault("the browser is gone")

    pool = ButtonPool(trouble)
    todo = tasks(60, presses=2)
    progress = play(
        tmp_path / "run", todo, pool=pool, settings=RolloutSettings(sessions=5, attempts=50, error_streak=1000)
    )
    assert recorded(tmp_path / "run") == ids(todo)
    assert progress.successes == 60
    assert progress.retries == len(failed) == pool.broken > 10
    assert pool.leased == 0
    reader = RunReader(tmp_path / "run")
    assert len(reader.spoiled()) == len(failed)
    assert sum(row["attempt"] for row in reader.episodes()) == len(failed)
    random_run = play(tmp_path / "other", todo, RandomPolicy(), limits=Limits(steps=3))
    assert random_run.retries == 0
    assert random_run.successes < 60


def test_attempts_are_limited_and_errors_counted_apart(tmp_path):
    class Cursed(ButtonEnvironment):
        async def reset(self, task):
            if task.seed % 5 == 0:
                raise EnvironmentFault("cursed")
            return await super().reset(task)

    class CursedPool(ButtonPool):
        async def acquire(self):
            self.leased += 1
            return Cursed()

    progress = play(tmp_path / "run", tasks(20), pool=CursedPool(), settings=RolloutSettings(sessions=3, attempts=2))
    assert progress.done == 20
    assert progress.environment_errors == 4
    assert progress.scored == progress.successes == 16
    assert progress.retries == 4
    # Asked to, a later call runs them again: here they fail again, and nothing is doubled.
    again = play(
        tmp_path / "run",
        tasks(20),
        pool=CursedPool(),
        settings=RolloutSettings(sessions=3, attempts=2, retry_errors=True),
    )
    assert (again.done, again.environment_errors, again.resumed) == (20, 4, 16)
    assert recorded(tmp_path / "run") == ids(tasks(20))
    healed = play(tmp_path / "run", tasks(20), settings=RolloutSettings(retry_errors=True))
    assert healed.successes == 20


def test_an_environment_that_cannot_be_leased_is_tried_again(tmp_path):
    class Slow(ButtonPool):
        refusals = 5

        async def acquire(self):
            if self.refusals:
                self.refusals -= 1
                raise EnvironmentFault("cannot start a browser")
            return await super().acquire()

    progress = play(tmp_path / "run", tasks(4), pool=Slow(), settings=RolloutSettings(sessions=2))
    assert progress.successes == 4


def test_a_policy_that_is_down_stops_the_run_and_leaves_it_resumable(tmp_path):
    calls = itertools.count()
    dies = Remote(lambda task: "connection refused" if next(calls) >= 20 else "")
    todo = tasks(60)
    with pytest.raises(PolicyError, match=r"6 errors in a row; the last: connection refused\. .*call again"):
        play(tmp_path / "run", todo, dies, settings=RolloutSettings(sessions=3, error_streak=6))
    rows = RunReader(tmp_path / "run").episodes()
    assert len(rows) == 20
    assert {row["outcome"] for row in rows} == {"success"}
    progress = play(tmp_path / "run", todo)
    assert (progress.resumed, progress.successes) == (20, 60)
    assert recorded(tmp_path / "run") == ids(todo)


def test_single_policy_errors_are_on_record_and_in_no_rate(tmp_path):
    fails_sometimes = Remote(lambda task: "too many requests" if task.seed % 4 == 0 else "")
    progress = play(tmp_path / "run", tasks(20), fails_sometimes, settings=RolloutSettings(sessions=2))
    assert progress.outcomes == {Outcome.SUCCESS: 15, Outcome.POLICY_ERROR: 5}
    assert progress.retries == 0
    assert progress.scored == 15  # "too many requests" says nothing about the agent
    broken = [row for row in RunReader(tmp_path / "run").episodes() if row["outcome"] == "policy_error"]
    assert {(row["success"], row["reward"]) for row in broken} == {(None, None)}  # never 0


def test_an_environment_that_never_works_stops_the_run(tmp_path):
    def trouble(call):
        raise EnvironmentFault("no display")

    with pytest.raises(EnvironmentFault, match="no display"):
        play(tmp_path / "run", tasks(100), pool=ButtonPool(trouble))
    assert len(RunReader(tmp_path / "run").episodes()) == 0


def test_wrong_set_up_ends_the_run_at_once(tmp_path):
    class Picky(ButtonEnvironment):
        async def reset(self, task):
            raise ConfigError(f"there is no task {task.name}")

    class PickyPool(ButtonPool):
        async def acquire(self):
            return Picky()

    with pytest.raises(ConfigError, match="no task press"):
        play(tmp_path / "run", tasks(50), pool=PickyPool())


def test_a_pool_that_raises_anything_is_an_environment_that_fails(tmp_path):
    class Odd(ButtonPool):
        refusals = 2

        async def acquire(self):
            if self.refusals:
                self.refusals -= 1
                raise RuntimeError("no licence for the emulator")
            return await super().acquire()

    progress = play(tmp_path / "run", tasks(4), pool=Odd(), settings=RolloutSettings(sessions=2))
    assert (progress.successes, progress.retries) == (4, 2)
    assert "RuntimeError: no licence" in RunReader(tmp_path / "run").spoiled()[0]["error"]


def test_a_listener_that_fails_ends_the_run_and_does_not_hang_it(tmp_path):
    def listener(episode, event):
        raise ZeroDivisionError("a bug of the listener's")

    with pytest.raises(ZeroDivisionError, match="a bug of the listener's"):
        play(tmp_path / "run", tasks(4), listeners=[listener])


def test_a_worker_that_does_not_report_is_cut_and_its_episode_tried_again(tmp_path):
    hung = set()

    async def hangs_once(environment, observation, step):
        if environment.task.seed % 3 == 0 and environment.task.seed not in hung:
            hung.add(environment.task.seed)
            await asyncio.sleep(600)
        return press_target(environment, observation, step)

    pool = ButtonPool()
    progress = play(
        tmp_path / "run",
        tasks(6),
        ScriptedPolicy(hangs_once),
        pool,
        settings=RolloutSettings(sessions=6, lease_seconds=0.5),
    )
    assert progress.successes == 6
    assert progress.retries == pool.broken == 2
    assert "no report within 0.5 s" in RunReader(tmp_path / "run").spoiled()[0]["error"]


def test_a_worker_that_does_not_break_off_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr("holotron.rollouts.runner.BREAK_OFF_SECONDS", 0.3)
    release = asyncio.Event()
    stubborn = []

    async def deaf(environment, observation, step):
        if environment.task.seed == 0 and not stubborn:
            stubborn.append(1)
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    asyncio.current_task().uncancel()
        return press_target(environment, observation, step)

    async def main():
        asyncio.get_running_loop().call_later(3, release.set)
        settings = RolloutSettings(sessions=2, lease_seconds=0.3)
        return await rollout(tasks(8), ScriptedPolicy(deaf), ButtonPool(), tmp_path / "run", settings=settings)

    progress = asyncio.run(main())
    assert progress.successes == 8
    assert recorded(tmp_path / "run") == ids(tasks(8))  # the late report of the lost worker is not a second record
    assert any("worker was lost" in row["error"] for row in RunReader(tmp_path / "run").spoiled())


def test_stragglers_are_cut_with_what_they_have(tmp_path):
    async def one_is_slow(environment, observation, step):
        if environment.task.seed == 39 and step == 1:
            await asyncio.sleep(600)
        return press_target(environment, observation, step)

    progress = play(
        tmp_path / "run",
        tasks(40, presses=2),
        ScriptedPolicy(one_is_slow),
        settings=RolloutSettings(sessions=4, straggler_factor=5),
    )
    assert progress.outcomes == {Outcome.SUCCESS: 39, Outcome.EXHAUSTED: 1}
    slow = next(RunReader(tmp_path / "run").trajectories(where=lambda row: row["seed"] == 39))
    assert "straggler" in slow.error
    assert len(slow.steps) == 1


def test_repeats_and_more_tasks_later(tmp_path):
    assert [id for id, _ in episodes_of(tasks(1), repeats=3)] == [
        "buttons/press/0",
        "buttons/press/0#1",
        "buttons/press/0#2",
    ]
    with pytest.raises(ConfigError, match="listed twice"):
        episodes_of(tasks(1) * 2)
    play(tmp_path / "run", tasks(3), repeats=2)
    progress = play(tmp_path / "run", tasks(5), repeats=2)
    assert (progress.total, progress.resumed, progress.done) == (10, 6, 10)
    assert len(RunReader(tmp_path / "run").manifest["episodes"]) == 10


def test_an_interrupted_run_keeps_what_was_done(tmp_path):
    async def main():
        def stop_after(progress):
            if progress.done >= 5:
                running.cancel()

        running = asyncio.create_task(
            rollout(tasks(50), TEACHER, ButtonPool(), tmp_path / "run", on_progress=stop_after)
        )
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())
    assert 5 <= len(RunReader(tmp_path / "run").episodes()) < 50
    progress = play(tmp_path / "run", tasks(50))
    assert progress.successes == 50
    assert recorded(tmp_path / "run") == ids(tasks(50))


@pytest.mark.slow
def test_kill_minus_nine_at_any_moment(tmp_path):
    """SIGKILL at random moments, resume each time; in the end every episode is on record exactly once."""
    out, count = tmp_path / "run", 120
    command = [sys.executable, "-m", "tests.rollouts.killable", str(out), str(count)]
    dice = random.Random(3)
    told: list[str] = []
    kills = 0
    while len(told) < count:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        told += [line.strip() for line in itertools.islice(process.stdout, dice.randint(10, 45))]
        time.sleep(dice.random() * 0.03)
        kills += process.poll() is None
        process.kill()
        told += [line.strip() for line in process.stdout if line.endswith("\n")]
        process.wait()
        assert set(told) <= set(recorded(out))  # nothing that was reported as done is lost
        assert len(set(told)) == len(told)  # and nothing is done twice
        if process.returncode == 0:
            break
    assert kills >= 3
    play(out, tasks(count, presses=3), ScriptedPolicy(slowly))  # whatever is left
    assert recorded(out) == ids(tasks(count))
    trajectories = list(RunReader(out).trajectories())
    assert all(len(trajectory.steps) == 3 for trajectory in trajectories)
    assert {trajectory.outcome for trajectory in trajectories} == {Outcome.SUCCESS}
