"""POST /v1/completions: text or token ids, continued. In a session the prompt is appended to the log as it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from holotron import __version__
from holotron.engine.api import Result
from holotron.engine.generation import Generation
from holotron.engine.grammar import Matcher
from holotron.engine.log import Log
from holotron.server.asks import choices_of, sampling_of
from holotron.server.constraints import grammar_for
from holotron.server.errors import ApiError
from holotron.server.logs import note
from holotron.server.replies import Json, TextChoice, Usage, new_id
from holotron.server.running import EventStream, Running
from holotron.server.service import Loaded, Service
from holotron.server.turns import SessionTurn, begin
from holotron.server.wire import CompletionRequest


class Completion:
    def __init__(self, service: Service, request: CompletionRequest, owner: str) -> None:
        self.service = service
        self.request = request
        self.owner = owner
        self.loaded: Loaded = service.serving(request.model)
        self.prompts = _prompts(request)
        limits = service.settings.reply
        self.n = choices_of(request, limits.max_choices, len(self.prompts))
        self.sampling = sampling_of(request, limits, self.loaded.engine.context_limit)
        self.turn: SessionTurn | None = None
        self.id = new_id("cmpl")
        self.created = int(time.time())
        self.choices = [
            TextChoice(
                index,
                self.loaded.processor.tokenizer,
                logprobs=request.logprobs is not None,
                token_ids=request.return_token_ids,
            )
            for index in range(self.n * len(self.prompts))
        ]
        if request.in_session and len(self.choices) > 1:
            raise ApiError(400, "a session has one future: fork it to get several replies", param="n")

    async def start(self) -> Running:
        logs, matchers = await self.service.on_worker(self._prepare)
        if self.request.in_session:
            return await self._in_session(logs[0], matchers[0][0])
        engine, timeout = self.loaded.engine, self.service.settings.server.request_seconds
        generations: list[Generation] = []
        try:
            for log, own in zip(logs, matchers, strict=True):
                started = await asyncio.wrap_future(engine.complete_later(log, self.sampling, own, timeout))
                generations.extend(started)
        except BaseException:
            for generation in generations:
                generation.cancel()
            raise
        return Running(generations)

    async def _in_session(self, content: Log, matcher: Matcher | None) -> Running:
        max_marks = self.service.settings.sessions.max_marks
        turn = await begin(self.loaded.conversations, self.request, self.owner, max_marks)
        try:
            turn.conversation.of_kind("text")
            if len(content):
                if turn.conversation.awaits_reply:
                    raise ApiError(400, "the session has a prompt without a reply: send an empty one to get it")
                await turn.add_prompt(content, "text", opens_reasoning=False, thinking=False, mark=self.request.mark)
            elif not turn.conversation.awaits_reply:
                raise ApiError(400, "the prompt is empty: there is nothing to continue", param="prompt")
            timeout = self.service.settings.server.request_seconds
            later = turn.conversation.handle.session.generate_later(self.sampling, matcher, timeout)
            running = Running([await asyncio.wrap_future(later)], turn)
        except BaseException:
            await turn.undo()
            raise
        self.turn = turn
        return running

    def _prepare(self) -> tuple[list[Log], list[list[Matcher | None]]]:
        """On a worker. Control tokens written in a text count as such: whoever comes here writes the frame himself."""
        engine, processor = self.loaded.engine, self.loaded.processor
        logs = []
        for prompt in self.prompts:
            ids = processor.encode_text(prompt, control_tokens=True) if isinstance(prompt, str) else prompt
            logs.append(engine.prepare([ids]) if ids else Log())
        grammar = grammar_for(
            self.request.response_format,
            [],
            None,
            parallel=False,
            template=processor.template,
            thinking=False,
            opens_reasoning=False,
        )
        return logs, [[engine.compile(grammar) for _ in range(self.n)] for _ in logs]

    async def whole(self, running: Running, http: Request) -> Response:
        results = await running.results(http)
        usage = Usage()
        choices = []
        for n, (choice, result) in enumerate(zip(self.choices, results, strict=True)):
            choices.append(choice.whole(result))
            self._count(usage, n, result)
        note(http, usage=usage.body(), session=self._session.get("session", {}).get("id"))
        return JSONResponse(self._frame() | {"choices": choices, "usage": usage.body()} | self._session)

    async def chunks(self, running: Running, http: Request) -> AsyncIterator[Json]:
        usage = Usage()
        async for n, item in running.events():
            choice = self.choices[n]
            if isinstance(item, Result):
                for last in choice.finish(item):
                    yield self._frame() | {"choices": [last]} | self._session
                self._count(usage, n, item)
            elif (chunk := choice.push(item)) is not None:
                yield self._frame() | {"choices": [chunk]}
        note(http, usage=usage.body(), session=self._session.get("session", {}).get("id"))
        if self.request.stream_options is not None and self.request.stream_options.include_usage:
            yield self._frame() | {"choices": [], "usage": usage.body()}

    def _count(self, usage: Usage, index: int, result: Result) -> None:
        usage.add(result, new_prompt=index % self.n == 0)
        self.service.metrics.generated(result)

    def _frame(self) -> Json:
        return {
            "id": self.id,
            "object": "text_completion",
            "created": self.created,
            "model": self.loaded.name,
            "system_fingerprint": f"holotron-{__version__}",
        }

    @property
    def _session(self) -> Json:
        return {"session": self.turn.conversation.describe()} if self.turn is not None else {}


def _prompts(request: CompletionRequest) -> list[str | list[int]]:
    prompt = request.prompt
    if isinstance(prompt, str) or not prompt or isinstance(prompt[0], int):
        return [prompt]  # type: ignore[list-item]
    return list(prompt)


async def completions(service: Service, request: CompletionRequest, http: Request, owner: str) -> Response:
    completion = Completion(service, request, owner)
    running = await completion.start()
    if request.stream:
        return EventStream(completion.chunks(running, http), running)
    return await completion.whole(running, http)
