"""A request for text on its way, chat or plain: prepared, begun in the engine, answered whole or as a stream.

    job = ChatJob(service, request, owner)          # or TextJob: what the two endpoints do differently
    return await answer(job, http)

What differs is what a prompt is made of and how a choice is written; see `chat` and `completions`.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from holotron import __version__
from holotron.engine import Generation, Grammar, Result, SamplingParams
from holotron.model.processor import Prompt
from holotron.server.errors import ApiError
from holotron.server.logs import note
from holotron.server.parameters import choices_of, sampling_of
from holotron.server.replies import Choice, Json, Usage, new_id
from holotron.server.running import EventStream, Running
from holotron.server.served import Kind, ServedSession
from holotron.server.service import Loaded, Service
from holotron.server.turns import TurnTransaction, begin
from holotron.server.wire import ChatRequest, CompletionRequest

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

    def __init__(self, service: Service, request: Body, owner: str, prompts: int = 1) -> None:
        self.service = service
        self.request: Body = request
        self.owner = owner
        self.loaded: Loaded = service.serving(request.model)
        limits = service.settings.reply
        self.n = choices_of(request, limits.max_choices, prompts)
        self.sampling: SamplingParams = sampling_of(request, limits, self.loaded.engine.context_limit)
        self.id = new_id(self.id_prefix)
        self.created = int(time.time())
        self.turn: TurnTransaction | None = None
        self.prepared: list[Prepared] = []
        self.choices: list[Choice] = []
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

    # ----------------------------------------------------------------------------------------------------- beginning

    async def start(self) -> Running:
        """Have the engine begin. Whatever is wrong with the request shows here, while the status can still say so."""
        await self.fetch()
        running = await (self._in_session() if self.request.in_session else self._stateless())
        replies = [prepared for prepared in self.prepared for _ in range(self.n)]
        self.choices = [self.choice(index, prepared) for index, prepared in enumerate(replies)]
        return running

    async def _stateless(self) -> Running:
        self.prepared = await self.service.on_worker(lambda: self.prepare(None))
        complete, generations = self.loaded.engine.aio.complete, list[Generation]()
        try:
            for one in self.prepared:
                assert one.prompt is not None
                generations += await complete(
                    one.prompt, self.sampling, grammar=one.grammar, n=self.n, timeout=self._timeout
                )
        except BaseException:
            for generation in generations:
                generation.cancel()
            raise
        return Running(generations)

    async def _in_session(self) -> Running:
        turn = await begin(self.loaded.sessions, self.request, self.owner)
        session = turn.session
        try:
            session.of_kind(self.kind)
            self.prepared = await self.service.on_worker(lambda: self.prepare(session))
            (one,) = self.prepared
            # Before the prompt is appended: taking that back may cost a computation.
            matcher = await self.loaded.engine.aio.compile(one.grammar)
            if one.prompt is not None:
                await session.add_prompt(one.prompt, self.kind, thinking=one.thinking, mark=self.request.mark)
                session.tools = one.tools
            generation = await session.engine_session.generate(self.sampling, grammar=matcher, timeout=self._timeout)
        except BaseException:
            await turn.undo()
            raise
        self.turn = turn
        return Running([generation], turn)

    @property
    def _timeout(self) -> float | None:
        return self.service.settings.server.request_seconds

    # -------------------------------------------------------------------------------------------------- the answer

    async def whole(self, running: Running, http: Request) -> Response:
        results = await running.results(http)
        usage, choices = Usage(), list[Json]()
        for index, result in enumerate(results):
            choices.append(self.choices[index].whole(result))
            self._count(usage, index, result)
        note(http, usage=usage.body(), session=self._session_id)
        return JSONResponse(self._frame(self.object_name) | {"choices": choices, "usage": usage.body()} | self.end())

    async def chunks(self, running: Running, http: Request) -> AsyncIterator[Json]:
        frame, usage = self._frame(self.chunk_name), Usage()
        for choice in self.choices:
            if (first := choice.first()) is not None:
                yield frame | {"choices": [first]}
        async for index, item in running.events():
            choice = self.choices[index]
            if isinstance(item, Result):
                for last in choice.finish(item):
                    yield frame | {"choices": [last]} | (self.end() if last["finish_reason"] else {})
                self._count(usage, index, item)
            elif (chunk := choice.push(item)) is not None:
                yield frame | {"choices": [chunk]}
        note(http, usage=usage.body(), session=self._session_id)
        if self.request.stream_options is not None and self.request.stream_options.include_usage:
            yield frame | {"choices": [], "usage": usage.body()}

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

    @property
    def _session_id(self) -> str | None:
        return self.turn.session.id if self.turn is not None else None


async def answer(job: GenerationJob[ChatRequest] | GenerationJob[CompletionRequest], http: Request) -> Response:
    running = await job.start()
    if job.request.stream:
        return EventStream(job.chunks(running, http), running)
    return await job.whole(running, http)
