"""Our own engine, in this process, as a policy: a session per episode, and every token with its logprob.

Under an append-only history an episode is one engine session: each turn appends the new screenshot and computes nothing
that was computed before. When the history policy rewrites the past (`window`, the restarts of `epoch`), the session is
given up for a new one, and the price shows in `cached_tokens`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from holotron.agent.dialects.base import Dialect, Output
from holotron.agent.dialects.tools import write_calls
from holotron.agent.history import History
from holotron.agent.images import Image
from holotron.agent.messages import Message, count_images, to_openai
from holotron.agent.policies.conversation import Conversation, new_messages
from holotron.agent.policies.registry import (
    MAX_TOKENS,
    PolicyRequest,
    declares,
    first_said,
    local_profile,
    policies,
)
from holotron.engine import EngineStopped, Grammar, Overloaded, Result, SamplingParams
from holotron.engine.reasoning import behind_reasoning
from holotron.envs.base import Environment
from holotron.errors import ConfigError, InputError, PolicyError
from holotron.model.processor import Transcript
from holotron.types import Completion, Task

if TYPE_CHECKING:
    from holotron.engine import AsyncSession, Engine
    from holotron.model.processor import Deltas, Processor, Prompt

T = TypeVar("T")


class EnginePolicy:
    def __init__(
        self,
        engine: Engine,
        dialect: Dialect,
        history: History,
        *,
        name: str = "engine",
        sampling: SamplingParams | None = None,
        constrained: bool = True,
        thinking: bool = False,
        deltas: Deltas | None = None,
        owns_engine: bool = False,
        weights: str | None = None,
    ) -> None:
        """`constrained`: decode under the dialect's schema or regular expression. `deltas`: tell screenshots as changes
        to the one before, for models trained for it. `owns_engine`: close it with us. `weights`: the fingerprint of
        the files they came from, for manifests."""
        if engine.processor is None:
            raise ConfigError("an agent needs an engine with a processor: it writes text and sends images")
        self.engine = engine
        self._dialect = dialect
        self._history = history
        self._name = name
        self.sampling = sampling or SamplingParams(temperature=0.0)
        self.constrained = constrained
        self.thinking = thinking
        self.deltas = deltas
        self._owns_engine = owns_engine
        self._weights = weights

    @property
    def name(self) -> str:
        return self._name

    def describe(self) -> dict[str, Any]:
        return {
            "policy": "engine",
            "model": self._name,
            "weights": self._weights,
            "dialect": self._dialect.describe(),
            "history": self._history.name,
            "sampling": asdict(self.sampling),
            "constrained": self.constrained,
            "thinking": self.thinking,
            "deltas": self.deltas.tolerance if self.deltas is not None else None,
        }

    @property
    def dialect(self) -> Dialect:
        return self._dialect

    async def sample(
        self, messages: Sequence[Message], output: Output, *, n: int, temperature: float, seed: int
    ) -> list[Completion]:
        """Answers to one question, outside any episode: `n` of them, the question computed once."""
        processor, aio = self.engine.processor, self.engine.aio
        assert processor is not None
        tools = list(output.tools) or None
        sampling = replace(self.sampling, temperature=temperature, seed=seed)
        try:
            plain = [_plain(message) for message in messages]
            prompt = await aio.on_worker(lambda: Transcript().next(processor, plain, tools, self.thinking))
            grammar = _grammar(output, prompt, self.thinking) if self.constrained else None
            started = await _patiently(lambda: aio.complete(prompt, sampling, grammar=grammar, n=n))
            results = [await generation for generation in started]
        except (InputError, EngineStopped) as error:
            raise PolicyError(f"the engine refused: {error}") from error
        images = count_images(messages)
        return [_completion(result, prompt.opens_reasoning, output, images) for result in results]

    async def start(self, task: Task, environment: Environment | None = None) -> Conversation:
        return Conversation(task, self._dialect, self._history, self.chat())

    def chat(self) -> EngineChat:
        """The engine's side of a new episode."""
        return EngineChat(
            self.engine, self.sampling, constrained=self.constrained, thinking=self.thinking, deltas=self.deltas
        )

    async def close(self) -> None:
        if self._owns_engine:
            await asyncio.to_thread(self.engine.close)


MOST_IMAGES = 64  # in one request of ours; the history policy is what keeps them few


async def _ask_files(request: PolicyRequest) -> PolicyRequest:
    return replace(request, declared=await asyncio.to_thread(local_profile, request.argument))


@policies.register("engine")
@declares(_ask_files)
async def make_engine_policy(request: PolicyRequest) -> EnginePolicy:
    """A model in an engine of this process."""
    return await asyncio.to_thread(_load, request)


def _load(request: PolicyRequest) -> EnginePolicy:
    from holotron.engine import Engine
    from holotron.model.loading import load_model, resolve
    from holotron.model.processor import Deltas
    from holotron.model.weights.fingerprint import fingerprint

    model, processor = load_model(request.argument, device=request.device)
    profile, own = request.profile, processor.sampling
    sampling = SamplingParams(
        max_tokens=profile.max_tokens or MAX_TOKENS,
        temperature=first_said(profile.temperature, own.temperature, 0.0),
        top_p=first_said(profile.top_p, own.top_p, 1.0),
        top_k=own.top_k or 0,
        min_p=own.min_p or 0.0,
        repetition_penalty=own.repetition_penalty or 1.0,
        seed=request.seed,
    )
    processor.limits = replace(processor.limits, max_images=MOST_IMAGES, max_tiles=MOST_IMAGES * 13)
    folder = resolve(request.argument)
    return EnginePolicy(
        Engine(model, processor),
        profile.make_dialect(request.actions),
        profile.make_history(),
        name=request.argument,
        sampling=sampling,
        constrained=request.constrained,
        thinking=processor.template.thinks_by_default if profile.thinking is None else profile.thinking,
        deltas=None if profile.deltas is None else Deltas(profile.deltas),
        owns_engine=True,
        weights=fingerprint(folder) if isinstance(folder, Path) else None,  # of a preset they are random
    )


class EngineChat:
    """One conversation, in one engine session for as long as it only grows. `sampling`, `begin` and `heard` are there
    for those who need more than replies: a trainer forks sessions and keeps every token."""

    def __init__(
        self,
        engine: Engine,
        sampling: SamplingParams,
        *,
        constrained: bool = True,
        thinking: bool = False,
        deltas: Deltas | None = None,
    ) -> None:
        assert engine.processor is not None
        self.engine = engine
        self._processor: Processor = engine.processor
        self.sampling = sampling
        self.constrained = constrained
        self.thinking = thinking
        self.deltas = deltas
        self._session: AsyncSession | None = None
        self._whole = True  # False: a request was broken off, and nobody knows what is in the session's log
        self._known: list[Message] = []  # in the session's log, which goes on with the last reply
        self._said = Transcript(deltas=deltas)  # the same as tokens

    async def complete(self, messages: Sequence[Message], output: Output) -> Completion:
        whole, self._whole = self._whole, False
        if not whole:
            await self.close()
        try:
            session, prompt, images = await self._continue(messages, output)
            grammar = _grammar(output, prompt, self.thinking) if self.constrained else None
            result = await self._generate(session, grammar)
        except (InputError, EngineStopped) as error:
            raise PolicyError(f"the engine refused: {error}") from error
        self._whole = True
        self._known, self._said = list(messages), self._said.asked(prompt).replied(result.tokens)
        self.heard(prompt, result, grammar)
        return _completion(result, prompt.opens_reasoning, output, images)

    async def begin(self, prompt: Prompt) -> AsyncSession:
        """A session for a conversation that begins with this prompt."""
        return await self.open(prompt)

    async def open(self, prompt: Prompt) -> AsyncSession:
        """A new session whose log is this prompt."""
        session = await _patiently(self.engine.aio.open)
        try:
            await session.append(prompt)
        except BaseException:  # refused, or broken off: nobody else knows of it
            await session.close()
            raise
        return session

    def heard(self, prompt: Prompt, result: Result, grammar: Grammar | None) -> None:
        """The session's log has grown by this prompt and this reply, which was held to a grammar or not."""

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None and not session.closed:
            await session.close()

    async def _continue(self, messages: Sequence[Message], output: Output) -> tuple[AsyncSession, Prompt, int]:
        """The session to go on with, what is new at the end of its log, and how many images that holds."""
        new = new_messages(self._known, messages) if self._session is not None else None
        if new is not None and self._session is not None:
            prompt = await self._next(new, output)
            await self._session.append(prompt)
            return self._session, prompt, count_images(new)
        await self.close()
        self._said = Transcript(deltas=self.deltas)
        prompt = await self._next(messages, output)
        self._session = await self.begin(prompt)
        return self._session, prompt, count_images(messages)

    async def _next(self, messages: Sequence[Message], output: Output) -> Prompt:
        tools, said = list(output.tools) or None, self._said
        return await self.engine.aio.on_worker(
            lambda: said.next(self._processor, [_plain(m) for m in messages], tools, self.thinking)
        )

    async def _generate(self, session: AsyncSession, grammar: Grammar | None) -> Result:
        generation = await _patiently(lambda: session.generate(self.sampling, grammar=grammar))
        try:
            return await generation
        except asyncio.CancelledError:
            generation.cancel()
            raise


async def _patiently(call: Callable[[], Awaitable[T]]) -> T:
    """Wait for room as long as the engine says there may be some; the episode's own time limit ends the waiting."""
    while True:
        try:
            return await call()
        except Overloaded as full:
            await asyncio.sleep(full.retry_after)


def _plain(message: Message) -> dict[str, Any]:
    """As the processor takes it: like OpenAI's form, but images as bytes."""
    if not message.images:
        return to_openai(message)
    parts = [
        {"type": "image", "image": part.data} if isinstance(part, Image) else {"type": "text", "text": part}
        for part in message.parts
        if part != ""
    ]
    return {"role": message.role, "content": parts}


def _grammar(output: Output, prompt: Prompt, thinking: bool) -> Grammar | None:
    if output.json_schema is None and output.regex is None:
        return None
    plain = Grammar.regex(output.regex or "") if output.json_schema is None else Grammar.json_schema(output.json_schema)
    if not thinking and not prompt.opens_reasoning:
        return plain
    return behind_reasoning(plain, thinking=thinking, opens_reasoning=prompt.opens_reasoning)


def _completion(result: Result, opens_reasoning: bool, output: Output, images: int) -> Completion:
    from holotron.model.processor.reply import parse_reply

    part = parse_reply(result.text, opens_reasoning=opens_reasoning, tools=output.tools or None)
    finish = "length" if result.finish_reason == "deadline" else result.finish_reason
    return Completion(
        text=write_calls(part.content, [(call.name, call.arguments) for call in part.tool_calls]),
        reasoning=part.reasoning,
        prompt_tokens=result.prompt_tokens,
        cached_tokens=result.cached_tokens,
        generated_tokens=len(result.tokens),
        images_sent=images,
        tokens=result.tokens,
        logprobs=result.logprobs,
        versions=result.versions,
        policy_version=min(result.versions, default=0),  # the oldest weights that had a part in it
        finish_reason=finish,
        seconds=result.timings.total,
    )
