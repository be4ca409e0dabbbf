"""A crew that is spread over processes, on this machine or on many.

    crew = ProcessCrew(LocalPlace(), Playing(PolicyRequest("http://..."), "miniwob", seeds=range(20)), processes=4)
    await play(suite, policy, out, crew=crew, settings=RolloutSettings(sessions=32))

Every process opens suite and policy for itself and plays its share of the sessions in a loop of its own. One that is
lost is replaced; whatever it played is played again. Pictures go straight to the run's folder where a process sees it
(a shared disk, an object store), so that they do not all pass through the coordinator; rows go to the coordinator,
which alone decides what is on record.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from holotron.agent.policies.base import Policy
from holotron.agent.policies.registry import PolicyRequest, ask_profile
from holotron.envs.network import NetworkPolicy
from holotron.errors import (
    CheckpointError,
    ConfigError,
    MissingDependency,
    StorageError,
)
from holotron.rollouts.crew import LoopCrew, Reports
from holotron.rollouts.messages import Finished, FromWorker, Joined, Left, Misconfigured, ToWorker
from holotron.rollouts.pictures import Pictures
from holotron.rollouts.posts import Post
from holotron.rollouts.processes import Channel, Place, Process
from holotron.rollouts.records import to_rows
from holotron.rollouts.store import RunMark
from holotron.rollouts.suite import opened
from holotron.suites.base import Suite
from holotron.types import Observation, Trajectory
from holotron.view import View

_FATAL = (ConfigError, MissingDependency, CheckpointError, StorageError)  # it would be the same in the next process


@dataclass(frozen=True, slots=True)
class Playing:
    """What is played by whom, for a process that has to open it for itself. See `suite.opened`."""

    policy: PolicyRequest
    suite: str
    tasks: str | Sequence[str] = "all"
    seeds: range = range(1)
    view: View = field(default_factory=View)
    steps: int | None = None
    seconds: float | None = None
    label: PolicyRequest | None = None
    network: NetworkPolicy | None = None

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[tuple[Policy, Suite]]:
        async with opened(
            self.policy, self.suite, tasks=self.tasks, seeds=self.seeds, view=self.view, steps=self.steps,
            seconds=self.seconds, label=self.label, network=self.network,
        ) as both:  # fmt: skip
            yield both


# ----------------------------------------------------------------------------------------------- with the coordinator


class ProcessCrew:
    def __init__(self, place: Place, playing: Playing, processes: int) -> None:
        self._place = place
        self._playing = playing
        self._most = processes
        self._reports: Reports = asyncio.Queue()
        self._mark: RunMark | None = None
        self._posts: list[asyncio.Task[None]] = []
        self._processes: dict[str, Process] = {}  # by worker

    async def open(self, reports: Reports, sessions: int, mark: RunMark | None = None) -> None:
        self._reports, self._mark = reports, mark
        # Asked once: a process that comes later must not need a server that may just be away.
        self._playing = replace(self._playing, policy=await ask_profile(self._playing.policy))
        count = min(self._most, sessions)
        shares = [sessions // count + (n < sessions % count) for n in range(count)] if count else []
        self._posts = [asyncio.create_task(self._man(number, share)) for number, share in enumerate(shares)]

    def tell(self, worker: str, message: ToWorker) -> None:
        self._send(worker, message)

    def replace(self, worker: str) -> None:
        self._send(worker, None)

    def _send(self, worker: str, message: ToWorker | None) -> None:
        if (process := self._processes.get(worker)) is not None:  # else it has left, and that has been reported
            process.send((worker.rpartition("/")[2], message))

    async def _man(self, number: int, sessions: int) -> None:
        post = Post(self._place, f"player-{number}", play_here, self._playing, sessions, self._mark)
        try:
            await post.run(self._heard, self._lost)
        except Exception as error:  # whatever it is: without this process nobody would play its share
            self._reports.put_nowait(Misconfigured("", error))

    def _heard(self, process: Process, report: FromWorker) -> None:
        report = replace(report, worker=f"{process.name}/{report.worker}")
        if isinstance(report, Joined):
            self._processes[report.worker] = process
        self._reports.put_nowait(report)

    def _lost(self, process: Process, reason: str) -> None:
        for worker in [worker for worker, there in self._processes.items() if there is process]:
            del self._processes[worker]
            self._reports.put_nowait(Left(worker, reason))

    async def close(self) -> None:
        for post in self._posts:
            post.cancel()
        await asyncio.gather(*self._posts, return_exceptions=True)
        await self._place.close()


# ------------------------------------------------------------------------------------------------- in another process


async def play_here(channel: Channel, playing: Playing, sessions: int, mark: RunMark | None) -> None:
    try:
        async with playing.opened() as (policy, suite):
            pool = suite.open(sessions)
            crew = LoopCrew(pool, policy, suite.limits)
            try:
                reports: Reports = asyncio.Queue()
                await crew.open(reports, sessions)
                await asyncio.gather(_listen(channel, crew), _report(channel, reports, _keeper(mark)))
            finally:
                await crew.close()
                await pool.close()
    except _FATAL as error:
        channel.send(Misconfigured("", error))
        await asyncio.Event().wait()  # until we are stopped: that this process ends is no news then


async def _listen(channel: Channel, crew: LoopCrew) -> None:
    while True:
        worker, message = await channel.receive()
        if message is None:
            crew.replace(worker)
        else:
            crew.tell(worker, message)


async def _report(channel: Channel, reports: Reports, pictures: Pictures | None) -> None:
    while True:
        report = await reports.get()
        if isinstance(report, Finished) and pictures is not None:
            rows = await asyncio.to_thread(to_rows, report.trajectory, pictures.keep)
            report = replace(report, trajectory=_without_pictures(report.trajectory), rows=rows)
        channel.send(report)


def _keeper(mark: RunMark | None) -> Pictures | None:
    """Where this process may put pictures itself; None: they travel with their episode."""
    return Pictures(mark.path) if mark is not None and mark.seen() else None


def _without_pictures(trajectory: Trajectory) -> Trajectory:
    def bare(seen: Observation) -> Observation:
        return replace(seen, image=b"")

    steps = tuple(replace(step, observation=bare(step.observation)) for step in trajectory.steps)
    return replace(trajectory, steps=steps, final=None if trajectory.final is None else bare(trajectory.final))
