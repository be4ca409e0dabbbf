"""Many episodes at once, to the end: hand out, collect, retry, record.

    progress = await rollout(tasks, policy, pool, Path("runs/demo"), sessions=16)

The coordinator owns the queue and the store; workers own one episode each. Where they are is the crew's business: in
this event loop, or in other processes on any machine (`spread`). Rules it keeps:

* Those of `rules`: what is tried again, when a run stops, who is cut at its end.
* Every episode ends on record exactly once. A killed run is taken up where it was: same call, same folder.
* A worker that does not report in time is told to break off, and replaced if it does not even do that.
* An episode whose worker was lost is played by another one. That is not an attempt, and never a result.
* A run that stops for nothing but errors does not record the errors of that streak, so a later call runs those
  episodes again.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holotron.agent.events import Listener
from holotron.agent.loop import Limits
from holotron.agent.policies.base import Policy
from holotron.agent.steered import Steer
from holotron.envs.base import EnvironmentPool
from holotron.errors import ConfigError
from holotron.rollouts.crew import BREAK_OFF_SECONDS, Crew, LoopCrew
from holotron.rollouts.messages import (
    Assignment,
    Cut,
    Finished,
    FromWorker,
    Joined,
    Left,
    Misconfigured,
    Standing,
    Stepped,
)
from holotron.rollouts.progress import Progress
from holotron.rollouts.queue import Lease, TaskQueue
from holotron.rollouts.rules import ERRORS, Attempts, ErrorStreak, Patience, unplayed
from holotron.rollouts.store import RunWriter
from holotron.rollouts.subset import describe_request, describe_subset
from holotron.storage.manifest import describe_run
from holotron.storage.tables import Record
from holotron.types import Outcome, Task, Trajectory


@dataclass(frozen=True, slots=True)
class RolloutSettings:
    """How a rollout is run; none of it changes what an episode is."""

    sessions: int = 8
    attempts: int = 3  # for episodes that the environment spoils
    lease_seconds: float | None = None  # None: the episode's own limits and some grace
    straggler_factor: float | None = None  # at the end, cut episodes slower than this many times the 95th centile
    error_streak: int | None = None  # stop after this many errors in a row; None: three for every session, at least 12
    retry_errors: bool = False  # run again what is on record as an error

    def __post_init__(self) -> None:
        if self.sessions < 1 or self.attempts < 1:
            raise ConfigError("a rollout needs at least one session and one attempt")


def episodes_of(tasks: Iterable[Task], repeats: int = 1) -> list[tuple[str, Task]]:
    """Episode ids for tasks, each played `repeats` times. Ids are unique and mean the same in every process."""
    episodes = [
        (task.id if repeat == 0 else f"{task.id}#{repeat}", task) for task in tasks for repeat in range(repeats)
    ]
    twice = [id for id, count in Counter(id for id, _ in episodes).items() if count > 1]
    if twice:
        raise ConfigError(f"the task {twice[0]} is listed twice; use repeats to play a task more than once")
    return episodes


async def rollout(
    tasks: Sequence[Task],
    policy: Policy,
    pool: EnvironmentPool[Any] | None,
    out: Path,
    *,
    crew: Crew | None = None,
    settings: RolloutSettings = RolloutSettings(),
    limits: Limits = Limits(),
    repeats: int = 1,
    environment: Mapping[str, Any] | None = None,
    judge: str | None = None,
    kind: str = "rollout",
    on_progress: Callable[[Progress], None] | None = None,
    on_episode: Callable[[Trajectory], None] | None = None,
    listeners: Sequence[Listener] = (),
    steer: Steer | None = None,
    complete: bool = False,
) -> Progress:
    """Play all tasks and record them in `out`. For the manifest, `environment` describes the pool and `judge` says who
    decides what succeeded. `on_episode` is told what is on record, `listeners` everything that happens in every attempt
    at an episode; `steer` puts each of them into a person's hand. `complete`: these episodes are the whole run, as in
    an evaluation; otherwise a later call may add others to it. With a `crew` neither the pool is needed nor the policy
    but to be described: the crew has its own, and listeners and hands must be where it plays."""
    if crew is None:
        if pool is None:
            raise ConfigError("a rollout needs a pool of environments, or a crew that has them")
        crew = LoopCrew(pool, policy, limits, listeners, steer)
    episodes = episodes_of(tasks, repeats)
    ids = sorted(id for id, _ in episodes)
    manifest = describe_run(kind, policy=policy.describe(), limits=limits.describe(), environment=environment)
    manifest |= {"attempts": settings.attempts, "sessions": settings.sessions, "repeats": repeats, "judge": judge}
    manifest |= {"subset": describe_subset(tasks), "request": describe_request(policy), "episodes": ids}
    equal = ("kind", "config", "episodes") if complete else ("config",)
    with RunWriter(out, manifest, equal=equal) as writer:
        if settings.retry_errors:
            writer.forget(ERRORS)
        if not set(ids) <= set(known := writer.manifest.get("episodes", [])):
            # Of several sets of tasks only the ids are known: their contents have no hash any more.
            writer.update_manifest(episodes=sorted({*known, *ids}), subset=None)
        return await _Coordinator(episodes, crew, writer, settings, limits, on_progress, on_episode).run()


class _Coordinator:
    def __init__(
        self,
        episodes: Sequence[tuple[str, Task]],
        crew: Crew,
        writer: RunWriter,
        settings: RolloutSettings,
        limits: Limits,
        on_progress: Callable[[Progress], None] | None,
        on_episode: Callable[[Trajectory], None] | None,
    ) -> None:
        ids = {id for id, _ in episodes}
        done = Counter(outcome for id, outcome in writer.finished.items() if id in ids)
        self._total = len(episodes)
        self._outcomes = done
        self._resumed = done.total()
        self._queue = TaskQueue(
            [(id, task) for id, task in episodes if id not in writer.finished], attempts=Attempts(settings.attempts)
        )
        self._crew = crew
        self._writer = writer
        self._sessions = settings.sessions
        self._on_progress = on_progress
        self._on_episode = on_episode
        self._lease_seconds = settings.lease_seconds or limits.seconds + 3 * limits.environment_seconds + 60
        limit = settings.error_streak or ErrorStreak.usual_limit(settings.sessions)
        self._streak = ErrorStreak(limit, "What is done is on record: call again to go on.")
        self._held: list[Trajectory] = []  # errors of the streak, not recorded before something goes right
        factor = settings.straggler_factor
        self._patience = None if factor is None else Patience(factor, share=0.95, known=20)
        self._reports: asyncio.Queue[FromWorker] = asyncio.Queue()
        self._workers: list[str] = []  # those there are, in order of their coming
        self._durations: list[float] = []
        self._retries = 0
        self._steps = 0
        self._started = time.monotonic()

    async def run(self) -> Progress:
        try:
            await self._crew.open(self._reports, min(self._sessions, self._queue.unfinished), self._writer.mark)
            while self._queue.unfinished:
                self._hand_out()
                await self._hear()
                self._mind_leases()
            await self._record_held()
            self._tell()
            return self._progress()
        finally:
            await self._crew.close()

    # ------------------------------------------------------------------------------------------------------ workers

    def _hand_out(self) -> None:
        now = time.monotonic()
        for worker in self._workers:
            if worker not in self._queue.leases:
                assignment = self._queue.lease(worker, now)
                if assignment is None:
                    return
                self._crew.tell(worker, assignment)

    def _mind_leases(self) -> None:
        now = time.monotonic()
        limit = self._straggler_limit()
        for lease in list(self._queue.leases.values()):
            held_for = now - lease.since
            if lease.still_since is not None:
                continue
            if lease.cut_at is not None:
                if now - lease.cut_at > BREAK_OFF_SECONDS:
                    self._replace(lease, now)
            elif held_for > self._lease_seconds:
                self._cut(lease, now, Outcome.ENVIRONMENT_ERROR, f"no report within {self._lease_seconds:g} s")
            elif limit is not None and held_for > limit:
                self._cut(lease, now, Outcome.EXHAUSTED, f"cut as a straggler after {held_for:.0f} s")

    def _straggler_limit(self) -> float | None:
        """How long an episode may take when only the last ones are still running."""
        if self._patience is None or self._queue.pending:
            return None
        return self._patience.limit(self._durations)

    def _cut(self, lease: Lease, now: float, outcome: Outcome, reason: str) -> None:
        lease.cut_at = now
        self._crew.tell(lease.worker, Cut(lease.assignment.episode, outcome, reason))

    def _replace(self, lease: Lease, now: float) -> None:
        """The worker does not even break off: give its place to a new one. What it may still report is ignored."""
        self._workers.remove(lease.worker)
        self._crew.replace(lease.worker)
        self._queue.end(lease.worker, lease.assignment.episode)
        lost = unplayed(lease.assignment, Outcome.ENVIRONMENT_ERROR, "the worker was lost")
        self._spoiled(lease.assignment, lost)

    def _left(self, report: Left) -> None:
        """A worker is gone, and not by its episode's doing as far as anybody knows."""
        if report.worker in self._workers:
            self._workers.remove(report.worker)
        lease = self._queue.drop(report.worker)
        if lease is None:
            return
        lost = unplayed(lease.assignment, Outcome.ENVIRONMENT_ERROR, f"the worker was lost: {report.reason}")
        if not self._queue.play_next(lease.assignment):
            self._spoiled(lease.assignment, lost)
            return
        self._writer.spoiled(lost.id, lost.attempt, lost.error)
        self._retries += 1
        self._streak.add(lost)

    # ------------------------------------------------------------------------------------------------------ reports

    async def _hear(self) -> None:
        """Take in what has been reported; wait a moment if nothing has."""
        due = self._queue.next_due(time.monotonic())
        idle = len(self._queue.leases) < len(self._workers)
        patience = min(1.0, due) if idle and due is not None else 1.0
        try:
            async with asyncio.timeout(max(patience, 0.01)):
                report = await self._reports.get()
        except TimeoutError:
            self._tell()
            return
        match report:
            case Misconfigured():
                raise report.error
            case Joined():
                self._workers.append(report.worker)
            case Left():
                self._left(report)
            case Stepped():
                self._steps += 1
            case Standing():
                lease = self._queue.leases.get(report.worker)
                if lease is not None and lease.assignment.episode == report.episode:
                    lease.stand(report.still, time.monotonic())
            case Finished():
                await self._finished(report)
        self._tell()

    async def _finished(self, report: Finished) -> None:
        trajectory = report.trajectory
        lease = self._queue.end(report.worker, trajectory.id)
        if lease is None:
            return
        if trajectory.outcome is Outcome.ENVIRONMENT_ERROR:
            self._spoiled(lease.assignment, trajectory)
        elif trajectory.outcome is Outcome.POLICY_ERROR:
            self._held.append(trajectory)
            self._streak.add(trajectory)
        else:
            await self._record_held()
            await self._record(trajectory, report.rows)
            self._durations.append(time.monotonic() - lease.since)

    def _spoiled(self, assignment: Assignment, trajectory: Trajectory) -> None:
        self._writer.spoiled(trajectory.id, trajectory.attempt, trajectory.error)
        if self._queue.try_again(assignment, time.monotonic()):
            self._retries += 1
        else:
            self._held.append(trajectory)
        self._streak.add(trajectory)

    async def _record_held(self) -> None:
        held, self._held = self._held, []
        self._streak.clear()
        for trajectory in held:
            await self._record(trajectory)

    async def _record(self, trajectory: Trajectory, rows: Record | None = None) -> None:
        if rows is None:
            await asyncio.to_thread(self._writer.append, trajectory)
        else:
            await asyncio.to_thread(self._writer.append_rows, rows)
        self._outcomes[trajectory.outcome] += 1
        if self._on_episode is not None:
            self._on_episode(trajectory)

    def _tell(self) -> None:
        if self._on_progress is not None:
            self._on_progress(self._progress())

    def _progress(self) -> Progress:
        return Progress(
            total=self._total,
            resumed=self._resumed,
            running=len(self._queue.leases),
            outcomes=dict(self._outcomes),
            retries=self._retries,
            steps=self._steps,
            seconds=time.monotonic() - self._started,
            failing=self._streak.last if self._streak.length else "",
        )
