"""The rules of playing, which runs that end and runs that learn have in common."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holotron.agent.loop import Episode
from holotron.agent.policies.scripted import ScriptedPolicy
from holotron.errors import ConfigError, EnvironmentFault, PolicyError
from holotron.rollouts.messages import Assignment
from holotron.rollouts.rules import Attempts, ErrorStreak, Patience
from holotron.rollouts.seat import Seat
from holotron.types import Outcome, Task, Trajectory
from tests.agent.toy import ButtonPool, press_target

TASK = Task("buttons", "press", seed=1)


def test_attempts_come_later_each_time_and_end():
    assert [Attempts(3, backoff=0.5).again_after(attempt) for attempt in range(4)] == [0.5, 1.0, None, None]
    assert Attempts(1).again_after(0) is None


def failed(outcome: Outcome, error: str = "no display.") -> Trajectory:
    return Trajectory("e", TASK, (), outcome, error=error)


def test_a_streak_ends_a_run_unless_something_works():
    streak = ErrorStreak(3, "Call again.")
    for _ in range(2):
        streak.add(failed(Outcome.ENVIRONMENT_ERROR))
    streak.clear()
    for _ in range(2):
        streak.add(failed(Outcome.ENVIRONMENT_ERROR))
    with pytest.raises(EnvironmentFault, match=r"3 errors in a row; the last: no display\. Call again\."):
        streak.add(failed(Outcome.ENVIRONMENT_ERROR))
    with pytest.raises(PolicyError):
        streak.add(failed(Outcome.POLICY_ERROR))


@pytest.mark.parametrize(
    ("error", "said"),
    [("no display", "no display. Call"), ("no display.", "no display. Call"), ("running?", "running? Call")],
)
def test_the_advice_is_a_sentence_of_its_own(error: str, said: str):
    with pytest.raises(PolicyError) as stopped:
        ErrorStreak(1, "Call again.").add(failed(Outcome.POLICY_ERROR, error))
    assert said in str(stopped.value)


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=60), st.floats(1, 5), st.floats(0, 10))
def test_nobody_is_cut_who_is_as_quick_as_the_others(seconds: list[float], factor: float, shortest: float):
    limit = Patience(factor, shortest=shortest).limit(seconds)
    assert limit is not None and limit >= max(*seconds, shortest, 0)
    assert limit <= max(factor * max(seconds), shortest)
    few = Patience(factor, share=0.95, known=20).limit(seconds)
    assert (few is None) == (len(seconds) < 20)


def play(seat: Seat, script=press_target, seconds: float = 60) -> Trajectory:
    async def main() -> Trajectory:
        assignment = Assignment("e", TASK, 0)
        playing = asyncio.create_task(
            seat.play(assignment, lambda environment: Episode(environment, ScriptedPolicy(script), TASK))
        )
        await asyncio.wait({playing}, timeout=seconds)
        if not playing.done():
            playing.cancel()
            await asyncio.wait({playing})
            return seat.cut(assignment, Outcome.EXHAUSTED, "cut")
        return playing.result()

    return asyncio.run(main())


@pytest.mark.parametrize("keep", [True, False])
def test_a_seat_uses_what_works_again_and_throws_away_what_broke(keep: bool):
    broken = iter([False, False, True, False, False, False])

    def trouble(call: str) -> None:
        if next(broken, False):
            raise EnvironmentFault("the page is gone")

    pool = ButtonPool(trouble)
    seat = Seat(pool, keep=keep)
    outcomes = [play(seat).outcome for _ in range(3)]
    assert sorted(outcomes) == ["environment_error", "success", "success"]
    assert pool.broken == 1
    assert pool.leased == int(keep)
    asyncio.run(seat.leave())
    assert pool.leased == 0


def test_an_environment_whose_episode_was_cut_is_thrown_away():
    async def sleeps(environment, observation, step):
        await asyncio.sleep(600)

    pool = ButtonPool()
    seat = Seat(pool, keep=True)
    cut = play(seat, sleeps, seconds=0.2)
    assert (cut.outcome, cut.error) == (Outcome.EXHAUSTED, "cut")
    assert (pool.broken, pool.leased) == (1, 0)
    assert play(seat).outcome is Outcome.SUCCESS


def test_a_wrong_set_up_is_no_outcome():
    def trouble(call: str) -> None:
        raise ConfigError("no such task")

    pool = ButtonPool(trouble)
    with pytest.raises(ConfigError, match="no such task"):
        play(Seat(pool, keep=True))
    assert pool.leased == 0
