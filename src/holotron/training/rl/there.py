"""A player in another process: an engine, rollouts, and the trainer at the end of a channel; see `spread`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace

import torch

from holotron.errors import EnvironmentFault, HolotronError
from holotron.rollouts.processes import Channel
from holotron.training.loading import load_learner
from holotron.training.rl.counts import Counts
from holotron.training.rl.desk import GroupSource, Members
from holotron.training.rl.messages import (
    Ask,
    Failed,
    Judge,
    Judged,
    Played,
    Ready,
    Recorded,
    Said,
    Updated,
    Wanted,
    Weights,
)
from holotron.training.rl.player import open_suite
from holotron.training.rl.players import PlayersHere
from holotron.training.rl.recipe import RlRecipe
from holotron.training.rl.record import Rollout
from holotron.training.rl.tasks import Drawn
from holotron.types import Trajectory


class _DeskThere:
    """The desk, seen from another process."""

    def __init__(self, channel: Channel, counts: Counts, busy: Callable[[], float]) -> None:
        self._channel = channel
        self._counts = counts
        self._busy = busy
        self._drawn: asyncio.Queue[Drawn] = asyncio.Queue()
        self.loop: asyncio.AbstractEventLoop | None = None  # in which they play

    def take(self, drawn: Drawn) -> None:
        assert self.loop is not None
        self.loop.call_soon_threadsafe(self._drawn.put_nowait, drawn)

    async def draw(self) -> Drawn:
        self.loop = asyncio.get_running_loop()
        self._channel.send(Wanted())
        return await self._drawn.get()

    async def finished(self, drawn: Drawn, members: Members) -> None:
        counts = self._counts.taken()
        compact = [(member, _compact(rollout)) for member, rollout in members]
        self._channel.send(Played(drawn, compact, counts, self._busy()))

    def failed(self, error: BaseException) -> None:
        plain = error if isinstance(error, HolotronError) else EnvironmentFault(f"{type(error).__name__}: {error}")
        self._channel.send(Failed(plain))


def _compact(rollout: Rollout) -> Rollout:
    """A tile that is part of a larger picture would take all of it along."""
    return replace(rollout, tiles={key: tile.clone() for key, tile in rollout.tiles.items()})


async def play_groups(channel: Channel, recipe: RlRecipe, device: str, processes: int) -> None:
    """Until the trainer lets go."""
    if device == "cpu":
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // (processes + 1)))
    counts = Counts()
    players: PlayersHere | None = None

    def record(trajectory: Trajectory, drawn: Drawn) -> None:
        if drawn.number % recipe.rollouts.record_every == 0:
            channel.send(Recorded(trajectory, drawn))

    try:
        learner, processor = await asyncio.to_thread(load_learner, recipe, torch.device(device))
        desk = _DeskThere(channel, counts, lambda: players.busy() if players is not None else 0.0)
        players = PlayersHere(
            recipe,
            open_suite(recipe),
            learner.model.requires_grad_(False),
            processor,
            desk,
            counts,
            record if recipe.rollouts.record_every else None,
        )
    except HolotronError as error:
        channel.send(Failed(error))
        await asyncio.Event().wait()  # until we are stopped: that this process ends is no news then
        raise
    channel.send(Ready())
    begun = False
    background: set[asyncio.Task[None]] = set()
    try:
        while True:
            match message := await channel.receive():
                case Weights():
                    await asyncio.to_thread(players.publish, message.tensors.open(), message.update)
                    if not begun:
                        players.__enter__()
                        begun = True
                    channel.send(Updated(message.update))
                case Drawn():
                    desk.take(message)
                case Ask() | Judge():
                    task = asyncio.create_task(_answer(channel, players, desk, message))
                    background.add(task)
                    task.add_done_callback(background.discard)
    finally:
        if begun:
            players.__exit__(None, None, None)
        else:
            players.engine.close()


async def _answer(channel: Channel, players: PlayersHere, desk: GroupSource, question: Ask | Judge) -> None:
    try:
        if isinstance(question, Ask):
            channel.send(Said(question.number, await asyncio.to_thread(players.ask(question.prompt))))
        else:
            channel.send(Judged(question.number, await asyncio.to_thread(players.evaluate, question.tasks)))
    except Exception as error:  # the trainer waits for an answer
        desk.failed(error)
