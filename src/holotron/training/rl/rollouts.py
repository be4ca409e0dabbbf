"""Rollouts that never stop: a thread of its own in which groups of episodes are played and finished ones handed in.

    with Rollouts(player, desk, counts, ...) as rollouts:
        ...                                             # groups come from the desk, and go back to it
        scores = rollouts.evaluate(tasks)               # greedy episodes, before anything else

Every session plays one episode after another, in an environment that it keeps: when nothing is left of its group, it
helps with another or begins the next. Nobody waits for a group to be complete, and nothing here waits for the trainer.
How many sessions share a group is `side_by_side`: all of them finish it soonest; one alone has the task's page open
already for every member but the first, and starting over costs a fraction of loading a page. The slowest members of a
group are cut when the others have long been done; an episode that the environment spoils is tried again. These rules
are `holotron.rollouts.rules`, as for any run; what is here is groups.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from holotron.agent.loop import Episode
from holotron.agent.policies.base import Policy
from holotron.engine.api import EngineStopped
from holotron.envs.base import EnvironmentPool
from holotron.errors import ConfigError
from holotron.rollouts.messages import Assignment
from holotron.rollouts.rules import ERRORS, Attempts, ErrorStreak, Patience
from holotron.rollouts.seat import Seat
from holotron.training.rl.counts import Counts
from holotron.training.rl.desk import GroupSource
from holotron.training.rl.player import Player
from holotron.training.rl.policy import RolloutPolicy, Trunk
from holotron.training.rl.record import Rollout
from holotron.training.rl.tasks import Drawn
from holotron.types import Outcome, Task, Trajectory

T = TypeVar("T")
OnEpisode = Callable[[Trajectory, Drawn], None]

_SHORTEST_PATIENCE = 2.0  # seconds: a group of quick episodes is not cut for a hiccup
_UNSCORABLE = (
    "this suite cannot say whether an episode succeeded, so nothing can be learnt from it: use one that scores"
)


class Score(NamedTuple):
    """An episode that was played to be judged."""

    success: bool
    reward: float


@dataclass(eq=False)
class _Job:
    """One episode to play."""

    assignment: Assignment
    policy: Policy
    report: Callable[[_Job, Trajectory], Coroutine[Any, Any, None]]
    group: _Open | None = None  # that it is a member of
    started: float = 0.0
    seat: Seat | None = None  # where it is played
    playing: asyncio.Task[Trajectory] | None = None
    cut: bool = False


@dataclass(eq=False)
class _Open:
    """A group that is being played."""

    drawn: Drawn
    trunk: Trunk
    jobs: list[_Job] = field(default_factory=list)
    waiting: deque[_Job] = field(default_factory=deque)
    players: int = 0  # sessions that play it
    rollouts: dict[_Job, Rollout | None] = field(default_factory=dict)  # None: spoiled, cut or too long
    seconds: list[float] = field(default_factory=list)  # of those that came to an end of their own

    def unfinished(self) -> list[_Job]:
        return [job for job in self.jobs if job not in self.rollouts]


class Rollouts:
    def __init__(
        self,
        player: Player,
        desk: GroupSource,
        counts: Counts,
        *,
        sessions: int,
        group: int,
        side_by_side: int,
        straggler: float,
        longest: int,
        on_episode: OnEpisode | None = None,
    ) -> None:
        self._player = player
        self._desk = desk
        self.counts = counts
        self._sessions = sessions
        self._group = group
        self._side_by_side = side_by_side
        self._patience = Patience(straggler, shortest=_SHORTEST_PATIENCE)
        self._longest = longest  # tokens of a sequence that the trainer can take
        self._on_episode = on_episode
        self._urgent: deque[_Job] = deque()  # evaluations, and episodes to be tried again
        self._open: dict[int, _Open] = {}
        self._choosing = asyncio.Lock()
        self._error: BaseException | None = None  # why nobody plays any more
        self._attempts = Attempts()
        self._streak = ErrorStreak(ErrorStreak.usual_limit(sessions), "Call again to go on from the last checkpoint.")
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._asked: set[asyncio.Task[Any]] = set()  # what the trainer's thread waits for
        self._thread = threading.Thread(target=self._run, name="holotron-rollouts", daemon=True)

    def __enter__(self) -> Rollouts:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()

    # ------------------------------------------------------------------------------------- for the trainer's thread

    def evaluate(self, tasks: Sequence[Task]) -> dict[str, list[Score]]:
        """Play these greedily, before anything else, and wait. By task; what the environment spoiled is left out."""
        return self._in_loop(self._evaluate(tasks))

    def _in_loop(self, work: Coroutine[Any, Any, T]) -> T:
        async def asked() -> T:
            task = asyncio.current_task()
            assert task is not None
            self._asked.add(task)
            try:
                return await work
            finally:
                self._asked.discard(task)

        future: concurrent.futures.Future[T] = asyncio.run_coroutine_threadsafe(asked(), self._loop)
        while self._thread.is_alive() and not future.done():
            concurrent.futures.wait({future}, timeout=1.0)
        if future.done() and not future.cancelled():
            return future.result()
        self._thread.join()  # rollouts have failed, or are about to have
        raise self._error or EngineStopped("rollouts have ended")

    # ---------------------------------------------------------------------------------------------- the loop's thread

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._main())
        except BaseException as error:  # whatever it is, the trainer must not wait for ever
            self._error = error
            self._desk.failed(error)

    async def _main(self) -> None:
        pool = self._player.open_pool(self._sessions)
        workers = [asyncio.create_task(self._work(pool)) for _ in range(self._sessions)]
        stop = asyncio.create_task(self._stop.wait())
        try:
            done, _ = await asyncio.wait({stop, *workers}, return_when=asyncio.FIRST_COMPLETED)
            for worker in done - {stop}:
                worker.result()  # workers end only by failing
        finally:
            ours = [stop, *workers, *self._asked]
            for task in ours:  # and no others: the browsers' driver has tasks in this loop too, and needs them to close
                task.cancel()
            await asyncio.gather(*ours, return_exceptions=True)
            await asyncio.gather(*(group.trunk.close() for group in self._open.values()), return_exceptions=True)
            await pool.close()

    async def _work(self, pool: EnvironmentPool[Any]) -> None:
        seat = Seat(pool, keep=True)
        mine: _Open | None = None
        try:
            while True:
                job = self._urgent.popleft() if self._urgent else None
                if job is None:
                    async with self._choosing:
                        mine = await self._group_for(mine)
                        job = mine.waiting.popleft()
                job.seat, job.started = seat, time.monotonic()
                job.playing = asyncio.create_task(self._play(seat, job))
                if job.group is not None:
                    self._mind_stragglers(job.group)
                try:
                    await asyncio.wait({job.playing})
                except asyncio.CancelledError:
                    job.playing.cancel()
                    await asyncio.wait({job.playing})
                    raise
                await self._ended(job, seat, job.playing)
        finally:
            await seat.leave()

    async def _group_for(self, mine: _Open | None) -> _Open:
        """Which group a session plays next: its own as long as there is something to play, then one that wants more
        players, then a new one."""
        if mine is not None and mine.waiting:
            return mine
        wanting = (group for group in self._open.values() if group.waiting and group.players < self._side_by_side)
        group = next(wanting, None) or await self._begin()
        group.players += 1
        return group

    async def _play(self, seat: Seat, job: _Job) -> Trajectory:
        given, limits = job.assignment, self._player.limits
        return await seat.play(
            given,
            lambda environment: Episode(
                environment, job.policy, given.task, id=given.episode, attempt=given.attempt, limits=limits
            ),
        )

    async def _ended(self, job: _Job, seat: Seat, playing: asyncio.Task[Trajectory]) -> None:
        given = job.assignment
        if playing.cancelled():
            job.cut = True
            await job.report(job, seat.cut(given, Outcome.EXHAUSTED, "cut as a straggler"))
            return
        trajectory = playing.result()
        if trajectory.outcome is Outcome.UNSCORED:
            raise ConfigError(_UNSCORABLE)
        if trajectory.outcome in ERRORS:
            self._streak.add(trajectory)
        else:
            self._streak.clear()
        wait = self._attempts.again_after(given.attempt)
        if trajectory.outcome is Outcome.ENVIRONMENT_ERROR and wait is not None:
            self.counts.retries += 1
            job.assignment = replace(given, attempt=given.attempt + 1)
            self._loop.call_later(wait, self._urgent.append, job)
            return
        await job.report(job, trajectory)

    # ------------------------------------------------------------------------------------------------------- groups

    async def _begin(self) -> _Open:
        drawn = await self._desk.draw()
        group = self._open[drawn.number] = _Open(drawn, self._player.trunk())
        task = self._player.task(drawn.name, drawn.seed)

        async def report(job: _Job, trajectory: Trajectory) -> None:
            await self._reported(group, job, trajectory)

        for member in range(self._group):
            policy = self._player.member(group.trunk, drawn.number, member)
            assignment = Assignment(f"{task.id}#{drawn.number}.{member}", task, 0)
            group.jobs.append(_Job(assignment, policy, report, group))
        group.waiting.extend(group.jobs)
        return group

    async def _reported(self, group: _Open, job: _Job, trajectory: Trajectory) -> None:
        policy = job.policy
        assert isinstance(policy, RolloutPolicy)
        rollout = None
        if job.cut:
            self.counts.cut += 1
        elif trajectory.outcome in ERRORS:
            self.counts.spoiled += 1
        else:
            rollout = await asyncio.to_thread(self._player.rollout, policy, trajectory)
            self.counts.episode(trajectory, policy.logs)
            group.seconds.append(time.monotonic() - job.started)
            if any(len(play) > self._longest for play in rollout.plays):
                self.counts.too_long += 1
                rollout = None
            if self._on_episode is not None:
                await asyncio.to_thread(self._on_episode, trajectory, group.drawn)
        policy.logs = []
        group.rollouts[job] = rollout
        if group.unfinished():
            self._mind_stragglers(group)
        else:
            await self._finish(group)

    def _mind_stragglers(self, group: _Open) -> None:
        """With three quarters of a group done, the others get some times as long as the longest of those took."""
        left = group.unfinished()
        if len(left) > len(group.jobs) // 4 or not group.seconds:
            return
        patience = self._patience.limit(group.seconds)
        assert patience is not None
        for job in left:
            if job.seat is not None and job.playing is not None and not job.playing.done():
                self._loop.call_later(job.started + patience - time.monotonic(), _cut, job.seat, job.playing)

    async def _finish(self, group: _Open) -> None:
        self.counts.forks += group.trunk.forks
        await group.trunk.close()
        members = [(n, found) for n, job in enumerate(group.jobs) if (found := group.rollouts[job]) is not None]
        await self._desk.finished(group.drawn, members)
        del self._open[group.drawn.number]

    # -------------------------------------------------------------------------------------------------- evaluation

    async def _evaluate(self, tasks: Sequence[Task]) -> dict[str, list[Score]]:
        scores: dict[str, list[Score]] = {}
        over: asyncio.Future[None] = self._loop.create_future()
        left = Counter(total=len(tasks))

        async def report(job: _Job, trajectory: Trajectory) -> None:
            if trajectory.outcome not in ERRORS:
                score = Score(trajectory.outcome is Outcome.SUCCESS, trajectory.reward)
                scores.setdefault(job.assignment.task.name, []).append(score)
            left["total"] -= 1
            if not left["total"]:
                over.set_result(None)

        judge_policy = self._player.judge()
        self._urgent.extendleft(
            _Job(Assignment(f"{task.id}#evaluation", task, 0), judge_policy, report) for task in reversed(tasks)
        )
        await over
        return scores


def _cut(seat: Seat, playing: asyncio.Task[Trajectory]) -> None:
    """`playing`: one attempt, that has taken too long. The next one has time of its own."""
    if not seat.ending:
        playing.cancel()
