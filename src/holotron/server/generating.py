"""A request for text on its way, chat or plain: prepared, begun in the engine, answered whole or as a stream.

    job = ChatJob(service, request, caller)         # or TextJob: what the two endpoints do differently
    return await answer(job, http)

What differs is what a prompt is made of and how a choice is written; see `chat` and `completions`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from holotron import __version__
from holotron.engine import Generation, Grammar, Log, Matcher, Result, SamplingParams
from holotron.model.processor import Prompt
from holotron.server import routed
from holotron.server.errors import ApiError, unavailable
from holotron.server.limits import check_format, letters, prompt_texts
from holotron.server.logs import note
from holotron.server.parameters import choices_of, sampling_of
from holotron.server.pictures import SentPicture
from holotron.server.replies import Choice, Json, Usage, new_id
from holotron.server.routed import Spent, Told
from holotron.server.running import EventStream, LongAnswer, Running, unbroken, while_connected
from holotron.server.served import Kind, ServedSession
from holotron.server.service import Caller, Loaded, Service
from holotron.server.tokenising import PIECE
from holotron.server.turns import TurnTransaction, begin
from holotron.server.wire import ChatRequest, CompletionRequest
from holotron.server.workers import Lane

T = TypeVar("T")
Body = TypeVar("Body", ChatRequest, CompletionRequest)


@dataclass(frozen=True)
class Prepared:
    """One prompt of a request, and what its replies must look like."""

    prompt: Prompt | list[int] | None  # None: the session has a prompt that waits for its reply
    grammar: Grammar | None = None
    opens_reasoning: bool = False
    thinking: bool = False
    tools: list[Json] | None = None  # that the reply may call

    @property
    def ids(self) -> list[int]:
        return self.prompt.ids if isinstance(self.prompt, Prompt) else self.prompt or []


class GenerationJob(ABC, Generic[Body]):
    kind: ClassVar[Kind]
    id_prefix: ClassVar[str]
    object_name: ClassVar[str]
    chunk_name: ClassVar[str]
    events: ClassVar[type[EventStream]] = EventStream

    def __init__(self, service: Service, request: Body, caller: Caller, prompts: int = 1) -> None:
        self.service = service
        self.request: Body = request
        self.caller = caller
        check_format(service.settings.limits, request.response_format)
        self.loaded: Loaded = service.serving(request.model)
        limits = service.settings.reply
        self.n = choices_of(request, limits.max_choices, prompts)
        self.sampling: SamplingParams = sampling_of(request, limits, self.loaded.engine.context_limit)
        self.routed = routed.current.get()
        self.said = routed.NOTHING
        if self.routed is not None:
            self.said = self.routed.said = service.said.pop(self.routed.reply, routed.NOTHING)
            if self.sampling.seed is None:
                self.sampling = replace(self.sampling, seed=self.routed.seed)
        self.id = new_id(self.id_prefix)
        self.created = int(time.time()) if self.routed is None else self.routed.created
        seconds = service.settings.server.request_seconds
        self.deadline = time.monotonic() + seconds if seconds is not None else None
        self.brought = 0  # tokens
        self.running: Running | None = None
        self.lane: Lane = "small"
        self.turn: TurnTransaction | None = None
        self.prepared: list[Prepared] = []
        self.choices: list[Choice] = []
        self.pictures: list[SentPicture] = []  # that the request brought
        if request.in_session and self.n * prompts > 1:
            raise ApiError(400, "a session has one future: fork it to get several replies", param="n")

    # ------------------------------------------------------------------------------------- what the endpoints differ in

    async def fetch(self) -> None:
        """Get what the request refers to, while no session is held yet."""
        return

    @abstractmethod
    def prepare(self, session: ServedSession | None) -> list[Prepared]:
        """On a worker: the prompts, and a grammar for the replies. Refuses what cannot be the session's next turn."""

    @abstractmethod
    def choice(self, index: int, prepared: Prepared) -> Choice:
        """How this reply will be written."""

    async def begin_turn(self) -> TurnTransaction:
        """Find or make the session for the reply, and hold it. Not to be cancelled half-way."""
        return await begin(self.loaded.sessions, self.request, self.caller.owner, self.caller.scope)

    # ----------------------------------------------------------------------------------------------------- beginning

    async def start(self) -> Running:
        """Have the engine begin. Whatever is wrong with the request shows here, while the status can still say so. May
        be cancelled at any moment, and leaves nothing behind then."""
        try:
            async with asyncio.timeout(self.seconds_left):
                await self._measure()
                await self.fetch()
                running = await (self._in_session() if self.request.in_session else self._stateless())
        except TimeoutError:
            raise unavailable("the request waited too long for its turn", "timed_out_waiting") from None
        replies = [prepared for prepared in self.prepared for _ in range(self.n)]
        self.choices = [self.choice(index, prepared) for index, prepared in enumerate(replies)]
        return running

    async def _measure(self) -> None:
        """Refuse a text that is too long before it is tokenised."""

        def check() -> None:
            for texts in prompt_texts(self.request):
                self.loaded.gauge.check(texts)

        if letters(self.request) <= PIECE:
            check()
        else:
            self.lane = "large"
            await self._on_worker(check)

    async def _on_worker(self, work: Callable[[], T], lane: Lane | None = None) -> T:
        return await self.service.workers.run(self.caller.turn, work, lane or self.lane)

    async def _compile(self, one: Prepared, copies: int = 1) -> list[Matcher | None]:
        engine, grammar = self.loaded.engine, one.grammar
        if grammar is None:
            return [None] * copies
        return await self._on_worker(
            lambda: [engine.compile(grammar, self.caller.scope) for _ in range(copies)], "grammar"
        )

    async def _stateless(self) -> Running:
        engine, generations = self.loaded.engine, list[Generation]()

        def prepare() -> list[Log]:
            self.prepared = self.prepare(None)
            prompts = [one.prompt for one in self.prepared if one.prompt is not None]
            return [engine.prepare(prompt, scope=self.caller.scope) for prompt in prompts]

        contents = await self._on_worker(prepare)

        async def generate(content: Log, matchers: list[Matcher | None]) -> None:
            first = len(generations)  # a request may have several prompts; what was said is by choice
            said = {n: self.said.tokens.get(first + n, ()) for n in range(len(matchers))}
            later = engine.complete_later(content, self.sampling, matchers, self.seconds_left, self.caller.scope, said)
            started = await asyncio.wrap_future(later)
            generations.extend(started)

        try:
            for one, content in zip(self.prepared, contents, strict=True):
                await unbroken(generate(content, await self._compile(one, self.n)))
        except BaseException:
            for generation in generations:
                generation.cancel()
            raise
        self.brought = sum(len(one.ids) for one in self.prepared)
        return Running(generations)

    async def _in_session(self) -> Running:
        sessions = self.loaded.sessions
        await sessions.check_memory(self.caller.owner)
        running = Running([])

        async def find() -> TurnTransaction:
            running.turn = await self.begin_turn()
            return running.turn

        try:
            turn = await unbroken(find())
        except BaseException:
            await running.close()
            raise
        session = turn.session

        async def append_and_generate(one: Prepared, matcher: Matcher | None) -> None:
            if one.prompt is not None:
                await session.add_prompt(one.prompt, self.kind, thinking=one.thinking, mark=bool(self.request.mark))
                session.tools = one.tools
            generation = await session.engine_session.generate(
                self.sampling, grammar=matcher, timeout=self.seconds_left, said=self.said.tokens.get(0, ())
            )
            running.generations.append(generation)

        try:
            session.of_kind(self.kind)
            self.prepared = await self._on_worker(lambda: self.prepare(session))
            (one,) = self.prepared
            # Before the prompt is appended: taking that back may cost a computation.
            (matcher,) = await self._compile(one)
            await unbroken(append_and_generate(one, matcher))
        except BaseException:
            await running.close()
            raise
        self.brought = len(one.ids)
        turn.pictures = self.pictures
        self.turn = turn
        return running

    @property
    def spent(self) -> int:
        """Tokens that the request brought, and those generated for it so far, whether or not anybody read them."""
        generations = self.running.generations if self.running is not None else []
        return self.brought + sum(generation.count for generation in generations)

    @property
    def seconds_left(self) -> float | None:
        return None if self.deadline is None else max(0.001, self.deadline - time.monotonic())

    # -------------------------------------------------------------------------------------------------- the answer

    async def whole(self, running: Running, http: Request) -> Response:
        results = await running.results(http)
        usage, choices = Usage(), list[Json]()
        for index, result in enumerate(results):
            if index:
                await asyncio.sleep(0)
            choices.append(self.choices[index].whole(result))
            self._count(usage, index, result)
        note(http, usage=usage.body(), session=self._session_id)
        body = self._frame(self.object_name) | {"choices": choices, "usage": usage.body()} | self.end()
        long = any(choice["logprobs"] for choice in choices)
        return LongAnswer(body, self.service.cut) if long else JSONResponse(body)

    async def chunks(self, running: Running, http: Request) -> AsyncIterator[Json | Told | Spent]:
        frame, usage = self._frame(self.chunk_name), Usage()
        for choice in self.choices:
            if (first := choice.first()) is not None:
                yield frame | {"choices": [first]}
        yield Told()
        async for index, item in running.events():
            choice = self.choices[index]
            if isinstance(item, Result):
                for last in choice.finish(item):
                    yield frame | {"choices": [last]} | (self.end() if last["finish_reason"] else {})
                self._count(usage, index, item)
                continue
            if (chunk := choice.push(item)) is not None:
                yield frame | {"choices": [chunk]}
            yield Told(index, item.token)
        note(http, usage=usage.body(), session=self._session_id)
        if self.request.stream_options is not None and self.request.stream_options.include_usage:
            yield frame | {"choices": [], "usage": usage.body()}
        yield Spent(self.spent)

    def _count(self, usage: Usage, index: int, result: Result) -> None:
        usage.add(result, self.choices[index].reasoning_tokens(result), prompt=index // self.n)
        self.service.metrics.generated(result)

    def _frame(self, kind: str) -> Json:
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.loaded.name,
            "system_fingerprint": f"holotron-{__version__}",
        }

    def end(self) -> Json:
        """What comes with the end of a reply: the session as it is now."""
        return {"session": self.turn.session.describe()} if self.turn is not None else {}

    def for_router(self) -> dict[str, str]:
        """What the router wants to know, in headers: where the conversation goes on, and what was spent so far."""
        named = {routed.SESSION: self.turn.session.id} if self.turn is not None else {}
        return named | {routed.SPENT: str(self.spent)}

    @property
    def _session_id(self) -> str | None:
        return self.turn.session.id if self.turn is not None else None


async def answer(job: GenerationJob[ChatRequest] | GenerationJob[CompletionRequest], http: Request) -> Response:
    quotas, owner = job.service.quotas, job.caller.owner
    with contextlib.ExitStack() as stack:
        stack.enter_context(quotas.admitted(owner))
        stack.callback(lambda: quotas.used(owner, job.spent))
        running = job.running = await while_connected(http, job.start())
        if not job.request.stream:
            response = await job.whole(running, http)
        else:
            seconds = job.seconds_left
            patience = None if seconds is None else seconds + job.service.settings.connections.write_seconds
            response = job.events(job.chunks(running, http), running, job.service.cut, patience, stack.pop_all())
        if job.routed is not None:
            response.headers.update(job.for_router())
        return response
