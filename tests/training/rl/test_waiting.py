"""How long rollouts wait: for an attempt that takes too long, and for an answer."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, cast

from holotron.training.rl.counts import Counts
from holotron.training.rl.rollouts import Rollouts, _Job, _Open
from holotron.types import Task


class Nobody:
    """Plays nothing: no group is ever drawn, and a policy to be judged cannot be had."""

    def open_pool(self, sessions: int) -> Any:
        return self

    async def draw(self) -> Any:
        await asyncio.Event().wait()

    def judge(self) -> Any:
        raise TimeoutError("no answer")

    async def close(self) -> None: ...


def of_nobody() -> Rollouts:
    given: Any = Nobody()
    return Rollouts(given, given, Counts(), sessions=1, group=4, side_by_side=4, straggler=1.0, longest=100)


def test_an_attempt_is_not_cut_for_the_time_that_the_one_before_it_took():
    rollouts = of_nobody()

    async def main() -> None:
        seat, nothing = cast(Any, SimpleNamespace(ending=False)), cast(Any, None)
        jobs = [_Job(nothing, nothing, nothing, seat=seat, started=time.monotonic() - 60) for _ in range(4)]
        group = _Open(nothing, nothing, jobs, rollouts=dict.fromkeys(jobs[1:]), seconds=[1.0])
        first, second = (cast(Any, asyncio.get_running_loop().create_future()) for _ in range(2))
        jobs[0].playing = first
        rollouts._mind_stragglers(group)  # its time is up long since
        first.set_result("spoiled")
        jobs[0].playing = second
        await asyncio.sleep(0.01)
        assert not second.cancelled() and not jobs[0].cut
        rollouts._mind_stragglers(group)
        await asyncio.sleep(0.01)
        assert second.cancelled()

    rollouts._loop.run_until_complete(main())
    rollouts._loop.close()


def test_an_evaluation_that_ends_in_a_time_out_ends():
    with ThreadPoolExecutor() as trainer, of_nobody() as rollouts:
        asked = trainer.submit(rollouts.evaluate, [Task("painted", "boxes-1")])
        assert str(asked.exception(timeout=60)) == "no answer"
