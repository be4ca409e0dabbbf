"""POST /v1/chat/completions: a conversation, whole or continued in a session, to a reply."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from holotron import __version__
from holotron.engine.api import Result, SamplingParams
from holotron.engine.grammar import Matcher
from holotron.engine.log import Log
from holotron.server.asks import (
    Rendering,
    choices_of,
    plain_messages,
    plain_tools,
    rendering_of,
    sampling_of,
)
from holotron.server.constraints import grammar_for
from holotron.server.errors import ApiError
from holotron.server.logs import note
from holotron.server.replies import ChatChoice, Json, Usage, new_id
from holotron.server.running import EventStream, Running
from holotron.server.service import Loaded, Service
from holotron.server.turns import SessionTurn, begin, check_new_messages
from holotron.server.wire import ChatRequest, Tool


@dataclass(frozen=True)
class Prepared:
    content: Log | None  # None: the session's prompt is there already
    opens_reasoning: bool
    matchers: list[Matcher | None]


class Chat:
    """One request on its way."""

    def __init__(self, service: Service, request: ChatRequest, owner: str) -> None:
        self.service = service
        self.request = request
        self.owner = owner
        self.loaded: Loaded = service.serving(request.model)
        limits = service.settings.reply
        self.n = choices_of(request, limits.max_choices)
        self.sampling: SamplingParams = sampling_of(request, limits, self.loaded.engine.context_limit)
        self.rendering: Rendering = rendering_of(
            request.chat_template_kwargs, request.reasoning_effort, thinking=limits.thinking
        )
        offered = None if request.tool_choice == "none" else request.tools
        self.tools: Sequence[Tool] = offered or []
        self.id = new_id("chatcmpl")
        self.created = int(time.time())
        self.turn: SessionTurn | None = None
        self.choices: list[ChatChoice] = []
        self.prompt_ids: list[int] = []
        if request.in_session and self.n > 1:
            raise ApiError(400, "a session has one future: fork it to get several replies", param="n")

    async def start(self) -> Running:
        """Have the engine begin. Whatever is wrong with the request shows here, while the status can still say so."""
        messages = await self.service.with_images(plain_messages(self.request.messages))
        if self.request.in_session:
            return await self._in_session(messages)
        tools = plain_tools(self.tools)
        prepared = await self.service.on_worker(lambda: self._prepare(messages, tools))
        assert prepared.content is not None
        later = self.loaded.engine.complete_later(prepared.content, self.sampling, prepared.matchers, self._timeout)
        generations = await asyncio.wrap_future(later)
        self._began(prepared, tools)
        return Running(generations)

    async def _in_session(self, messages: list[Json]) -> Running:
        sessions = self.service.settings.sessions
        turn = await begin(self.loaded.conversations, self.request, self.owner, sessions.max_marks)
        try:
            conversation = turn.conversation
            tools = plain_tools(self.tools)
            conversation.of_kind("chat")
            check_new_messages(conversation, messages, tools)
            tools = tools if not conversation.turns else conversation.tools
            prepared = await self.service.on_worker(lambda: self._prepare(messages, tools, turn))
            if prepared.content is not None:
                await turn.add_prompt(
                    prepared.content,
                    "chat",
                    opens_reasoning=prepared.opens_reasoning,
                    thinking=self.rendering.thinking,
                    mark=self.request.mark,
                )
                conversation.tools = tools
            session = conversation.handle.session
            later = session.generate_later(self.sampling, prepared.matchers[0], self._timeout)
            running = Running([await asyncio.wrap_future(later)], turn)
        except BaseException:
            await turn.undo()
            raise
        self.turn = turn
        self._began(prepared, tools)
        return running

    def _prepare(self, messages: list[Json], tools: list[Json] | None, turn: SessionTurn | None = None) -> Prepared:
        """On a worker: template, images, grammar."""
        processor, engine, how = self.loaded.processor, self.loaded.engine, self.rendering
        content, thinking = None, how.thinking
        if turn is not None and turn.conversation.awaits_reply:
            last = turn.conversation.turns[-1]
            opens_reasoning, thinking = last.opens_reasoning, last.thinking
        else:
            if turn is not None and turn.conversation.turns:
                tail = turn.conversation.tail
                prompt = processor.bridge(messages, tail, tools, how.thinking, **how.variables)
            else:
                prompt = processor.render(messages, tools, how.thinking, **how.variables)
            content, opens_reasoning = engine.prepare(prompt), prompt.opens_reasoning
        grammar = grammar_for(
            self.request.response_format,
            self.tools or [Tool.model_validate(tool) for tool in tools or ()],
            self.request.tool_choice,
            parallel=self.request.parallel_tool_calls is not False,
            template=processor.template,
            thinking=thinking,
            opens_reasoning=opens_reasoning,
        )
        return Prepared(content, opens_reasoning, [engine.compile(grammar) for _ in range(self.n)])

    def _began(self, prepared: Prepared, tools: list[Json] | None) -> None:
        self.prompt_ids = prepared.content.ids if prepared.content is not None else []
        self.choices = [
            ChatChoice(
                index,
                self.loaded.processor.tokenizer,
                opens_reasoning=prepared.opens_reasoning,
                tools=tools if self.request.tool_choice != "none" else None,
                logprobs=bool(self.request.logprobs),
                token_ids=self.request.return_token_ids,
            )
            for index in range(self.n)
        ]

    @property
    def _timeout(self) -> float | None:
        return self.service.settings.server.request_seconds

    # -------------------------------------------------------------------------------------------------- the answer

    async def whole(self, running: Running, http: Request) -> Response:
        results = await running.results(http)
        usage = Usage()
        choices = []
        for choice, result in zip(self.choices, results, strict=True):
            choices.append(choice.whole(result))
            self._count(usage, choice, result)
        note(http, usage=usage.body(), session=self._session_id)
        return JSONResponse(self._frame("chat.completion") | {"choices": choices, "usage": usage.body()} | self._end())

    async def chunks(self, running: Running, http: Request) -> AsyncIterator[Json]:
        frame = self._frame("chat.completion.chunk")
        usage = Usage()
        for choice in self.choices:
            yield frame | {"choices": [choice.first()]}
        async for n, item in running.events():
            choice = self.choices[n]
            if isinstance(item, Result):
                for last in choice.finish(item):
                    yield frame | {"choices": [last]} | (self._end() if last["finish_reason"] else {})
                self._count(usage, choice, item)
            elif (chunk := choice.push(item)) is not None:
                yield frame | {"choices": [chunk]}
        note(http, usage=usage.body(), session=self._session_id)
        if self.request.stream_options is not None and self.request.stream_options.include_usage:
            yield frame | {"choices": [], "usage": usage.body()}

    def _count(self, usage: Usage, choice: ChatChoice, result: Result) -> None:
        usage.add(result, choice.reasoning_tokens(result))
        self.service.metrics.generated(result)

    def _frame(self, kind: str) -> Json:
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.loaded.name,
            "system_fingerprint": f"holotron-{__version__}",
        }

    def _end(self) -> Json:
        """The extensions: the session as it is now, the ids that were appended."""
        end: Json = {}
        if self.turn is not None:
            end["session"] = self.turn.conversation.describe()
        if self.request.return_token_ids:
            end["prompt_token_ids"] = self.prompt_ids
        return end

    @property
    def _session_id(self) -> str | None:
        return self.turn.conversation.id if self.turn is not None else None


async def chat_completions(service: Service, request: ChatRequest, http: Request, owner: str) -> Response:
    chat = Chat(service, request, owner)
    running = await chat.start()
    if request.stream:
        return EventStream(chat.chunks(running, http), running)
    return await chat.whole(running, http)
