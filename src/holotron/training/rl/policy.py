"""The policy of a rollout: the engine, with two things added.

A group shares its beginning. All its members have the same task and seed, so the same goal and first screenshot: the
first one to arrive has them computed once, and everybody forks that session. Should a member see something else (a page
that is not deterministic), it opens a session of its own.

Every token is kept: what was appended and what was said, with logprobs and versions, as the engine reports it.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from holotron.agent.policies.engine import EngineChat, EnginePolicy
from holotron.engine import Grammar, Result, SamplingParams
from holotron.training.rl.record import SampledTurn

if TYPE_CHECKING:
    from holotron.engine import AsyncSession, Engine
    from holotron.model.processor import Prompt


class Trunk:
    """The common beginning of a group, computed once for each version of the weights that members start under."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._session: AsyncSession | None = None
        self._prompt: Prompt | None = None
        self._version = -1
        self._turn = asyncio.Lock()
        self.forks = 0

    async def begin(self, chat: EngineChat, prompt: Prompt) -> AsyncSession | None:
        """A fork whose log is this prompt; None if the group began with something else."""
        async with self._turn:
            if self._session is None or self._version != self._engine.version:
                await self.close()
                self._prompt, self._version = prompt, self._engine.version
                self._session = await chat.open(prompt)
                await self._session.prefill()
            assert self._prompt is not None
            if not _same(self._prompt, prompt):
                return None
            (fork,) = await self._session.fork()
            self.forks += 1
            return fork

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None and not session.closed:
            await session.close()


class RolloutPolicy(EnginePolicy):
    """One member of a group. Afterwards `logs` holds its sessions, turn by turn."""

    def __init__(self, engine: Engine, *args: Any, trunk: Trunk, seed: tuple[int, ...], **options: Any) -> None:
        super().__init__(engine, *args, **options)
        self._trunk = trunk
        self._seed = seed
        self.logs: list[list[SampledTurn]] = []

    def chat(self) -> EngineChat:
        self.logs.clear()  # an attempt that the environment spoiled leaves nothing behind
        return _RecordedChat(self)


class _RecordedChat(EngineChat):
    def __init__(self, policy: RolloutPolicy) -> None:
        super().__init__(
            policy.engine,
            policy.sampling,
            constrained=policy.constrained,
            thinking=policy.thinking,
            deltas=policy.deltas,
        )
        self._policy = policy
        self._reseed(0)

    async def begin(self, prompt: Prompt) -> AsyncSession:
        self._policy.logs.append([])
        if len(self._policy.logs) == 1 and (fork := await self._policy._trunk.begin(self, prompt)) is not None:
            return fork
        return await self.open(prompt)

    def heard(self, prompt: Prompt, result: Result, grammar: Grammar | None) -> None:
        self._policy.logs[-1].append(SampledTurn(prompt, result, grammar))
        self._reseed(sum(map(len, self._policy.logs)))

    def _reseed(self, turn: int) -> None:
        """Chance follows from the run's seed, the group, the member and the turn, and from nothing else."""
        seed = int(np.random.SeedSequence([*self._policy._seed, turn]).generate_state(1, np.uint64)[0] >> 1)
        self.sampling: SamplingParams = replace(self.sampling, seed=seed)


def _same(a: Prompt, b: Prompt) -> bool:
    return a.ids == b.ids and [image.keys for image in a.images] == [image.keys for image in b.images]
