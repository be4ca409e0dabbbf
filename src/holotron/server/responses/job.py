"""A response on its way: what it continues, what the model is asked, what is answered and kept.

A chat request in a session, where the session is found by a response: continuing one forks the session that ends where
it ends, so only what is new is computed. Where there is no such session any more, or where instructions or tools have
changed, the conversation is written anew from its items, and the engine resumes where it first differs from what it
knows.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from holotron.engine import Result, SessionBusy, UnknownSession
from holotron.errors import CapacityError, HolotronError
from holotron.model.processor import ReplyParser, ReplyPart
from holotron.server.chat import ChatJob
from holotron.server.generating import Prepared
from holotron.server.logs import note
from holotron.server.parameters import plain_messages
from holotron.server.replies import Usage, chat_logprobs, finish_reason, reasoning_tokens
from holotron.server.responses.asking import Plan
from holotron.server.responses.items import Json
from holotron.server.responses.output import ResponseEvents, Writer
from holotron.server.responses.store import Stored
from holotron.server.routed import RESPONSE, SPENT, Spent, Told
from holotron.server.running import LongAnswer, Running, while_connected
from holotron.server.served import ServedSession
from holotron.server.service import Caller, Service
from holotron.server.turns import TurnTransaction


class StartOver(Exception):
    """It cannot be done this way: the session is gone, or what it holds leaves no room."""

    def __init__(self, excess: float = 0.0) -> None:
        """`excess`: how much of the prompt is too much, as a part of it."""
        super().__init__()
        self.excess = excess


@dataclass
class ResponseTurn(TurnTransaction):
    """A fork, or a new session, for one response. It stays if the response is kept."""

    finished: Callable[[Result, ServedSession], bool] = field(kw_only=True)
    save: Callable[[], Awaitable[None]] = field(kw_only=True)
    kept: bool = False

    async def saved(self) -> None:
        await self.save()

    def commit(self, result: Result) -> None:
        super().commit(result)
        self.kept = self.finished(result, self.session)

    async def undo(self) -> None:
        if not self.kept:
            self.over = True
            with contextlib.suppress(HolotronError):  # closed in the meantime, or with everything else
                await self.sessions.close(self.owner, self.session)


class Unremembered(Running):
    """A response that nobody will continue needs no session."""

    def __init__(self, running: Running, finished: Callable[[Result, None], bool]) -> None:
        super().__init__(running.generations)
        self._finished = finished

    def _commit(self, result: Result) -> None:
        self._finished(result, None)


class ResponseJob(ChatJob):
    id_prefix = "resp"
    object_name = chunk_name = "response"
    events = ResponseEvents

    def __init__(self, service: Service, plan: Plan, caller: Caller) -> None:
        self.plan = plan
        super().__init__(service, plan.chat_request(), caller)
        self.id = f"resp_{self.id.partition('-')[2]}{self.created:08x}"
        self.store = self.loaded.responses
        self.writer = Writer()
        self.heard = ReplyPart()  # by the computer's user, who has to hear all of it
        self.body: Json = {}
        self.stored: Stored | None = None
        self.last: list[Json] = []  # events of the end
        self._parser: ReplyParser | None = None
        self._pushed = False
        self._logprobs: list[Json] = []

    # ------------------------------------------------------------------------------------------------------- beginning

    async def start(self) -> Running:
        while True:
            try:
                return await super().start()
            except StartOver as problem:
                self.plan.start_over(problem.excess)
            except CapacityError:
                if not self.plan.shorten(0.25):
                    raise
            self.request = self.plan.chat_request()

    async def fetch(self) -> None:
        if self.plan.computer is not None:
            await self.plan.look(self.service, self.caller)
            self.request = self.plan.chat_request()
            self.tools = self.request.tools or []
        self.messages = plain_messages(self.request.messages)
        self.pictures = await self.service.cut_pictures(self.messages, self.caller)

    async def begin_turn(self) -> TurnTransaction:
        store, owner = self.store, self.caller.owner
        await store.make_room(owner)
        if self.plan.continues is not None:
            try:
                (session,) = await store.sessions.fork(owner, self.plan.continues, [None])
            except (UnknownSession, SessionBusy):
                raise StartOver from None
        else:
            session = await store.sessions.open(owner, None, self.caller.scope)
        session.hold()
        return ResponseTurn(
            store.sessions, owner, session, True, len(session.turns), finished=self._finished, save=self.saved
        )

    async def _stateless(self) -> Running:
        return Unremembered(await super()._stateless(), self._finished)

    def prepare(self, session: ServedSession | None) -> list[Prepared]:
        prepared = super().prepare(session)
        context, before = self.loaded.engine.context_limit, session.length if session is not None else 0
        room = context - min(self.sampling.max_tokens, context // 4) - before
        if self.plan.truncates and (length := len(prepared[0].ids)) > room and self.plan.can_shorten:
            raise StartOver((length - room) / (length + before))
        return prepared

    # -------------------------------------------------------------------------------------------------------- answering

    def _pushing(self, text: str, tokens: Sequence[int], logprobs: list[Json]) -> list[Json]:
        if self._parser is None:
            (one,) = self.prepared
            tools = one.tools if self.request.tool_choice != "none" else None
            self._parser = ReplyParser(
                opens_reasoning=one.opens_reasoning,
                tools=tools,
                tokenizer=self.loaded.processor.tokenizer,
                bound=one.grammar is not None,
            )
        return self._write(self._parser.push(text, tokens), logprobs)

    def _write(self, part: ReplyPart, logprobs: list[Json]) -> list[Json]:
        if self.plan.computer is None:
            held = [*self._logprobs, *logprobs]  # of tokens that show nothing yet
            self._logprobs = [] if part.content or part.reasoning else held
            return self.writer.push(part, held)
        self.heard += ReplyPart("", part.content, part.tool_calls)
        return self.writer.push(ReplyPart(part.reasoning))

    def _finished(self, result: Result, session: ServedSession | None) -> bool:
        """The reply is there: write its end and keep it, in one go. Whether the session is still needed."""
        if not self._pushed:
            self._pushing(result.text, result.tokens, [])
        assert self._parser is not None
        cut, end = finish_reason(result) == "length", self._parser.finish()
        if cut:  # a call that was not finished is none
            end = ReplyPart(end.reasoning, end.content)
        events = self._write(end, [])
        events += self.writer.close("incomplete" if cut else "completed")
        seat = None
        if self.plan.computer is not None and not cut:
            seat, items = self.plan.replied(self.heard)
            events += [event for item in items for event in self.writer.add(item)]
        elif not cut and not any(item["type"] != "reasoning" for item in self.writer.items):
            events += [*self.writer.begin("message"), *self.writer.close()]
        usage = Usage()
        reasoned = any(item["type"] == "reasoning" and item.get("content") for item in self.writer.items)
        spent = reasoning_tokens(self.loaded.processor.tokenizer, result.tokens) if reasoned else 0
        usage.add(result, spent)
        self.service.metrics.generated(result)
        self.body = self.response("incomplete" if cut else "completed", self.writer.items, usage)
        self.last = [*events, {"type": f"response.{self.body['status']}", "response": self.body}]
        useful = self.plan.computer is None or seat is not None
        return self._keep(session if useful else None, seat) and useful

    async def saved(self) -> None:
        await self.store.saved(self.stored)

    def _keep(self, session: ServedSession | None, seat: Any = None, *, by_model: bool = True) -> bool:
        if not self.plan.stores:
            return False
        more = self.writer.logprob_bytes + (seat.episode.picture_bytes if seat is not None else 0)
        stored = Stored(
            self.id,
            self.caller.owner,
            self.body,
            tuple(self.plan.new),
            tuple(self.plan.prints),
            self.plan.previous,
            head=self.plan.head,
            state=seat,
            session=session,
            more_bytes=more,
            resent=self.plan.resent,
            by_model=by_model,
        )
        self.stored = stored
        self.store.keep(stored)
        return stored.session is not None

    def without_model(self) -> bool:
        """Where the model need not be asked: the response is made, and kept."""
        actions = self.plan.due()
        if actions is None:
            return False
        events = self.writer.add(self.plan.call(actions))
        self.body = self.response("completed", self.writer.items, Usage())
        self.last = [*events, {"type": "response.completed", "response": self.body}]
        self._keep(None, by_model=False)
        return True

    def begun(self) -> list[Json]:
        response = self.response("in_progress", [], None)
        return [{"type": f"response.{name}", "response": response} for name in ("created", "in_progress")]

    async def whole(self, running: Running, http: Request) -> Response:
        if self.request.logprobs:  # made while they come, not all at once
            await while_connected(http, self._heard_out(running, http))
            return LongAnswer(self.body, self.service.cut)
        await running.results(http)
        note(http, usage=self.body["usage"])
        return JSONResponse(self.body)

    async def _heard_out(self, running: Running, http: Request) -> None:
        try:
            async for _ in self.chunks(running, http):
                pass
        finally:
            await running.close()

    async def chunks(self, running: Running, http: Request) -> AsyncIterator[Json | Told | Spent]:
        for event in self.begun():
            yield event
        yield Told()
        self._pushed = True
        self._pushing("", (), [])
        tokenizer = self.loaded.processor.tokenizer
        async for _, item in running.events():
            if isinstance(item, Result):
                continue
            logprobs = list(chat_logprobs(tokenizer, [item])) if self.request.logprobs else []
            for event in self._pushing(item.text, (item.token,), logprobs):
                yield event
            yield Told(0, item.token)
        note(http, usage=self.body["usage"])
        for event in self.last:
            yield event
        yield Spent(self.spent)

    def for_router(self) -> dict[str, str]:
        named = {RESPONSE: self.id} if self.plan.stores else {}
        return named | {SPENT: str(self.spent)}

    # --------------------------------------------------------------------------------------------------- the response

    def response(self, status: str, output: list[Json], usage: Usage | None) -> Json:
        """OpenAI's response object."""
        cut = {"reason": "max_output_tokens"} if status == "incomplete" else None
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "completed_at": int(time.time()) if status == "completed" else None,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": cut,
            "model": self.loaded.name,
            "output": output,
            "usage": None if usage is None else usage_body(usage),
            "temperature": self.sampling.temperature,
            "top_p": self.sampling.top_p,
            **self.plan.echo(),
        }


def usage_body(usage: Usage) -> Json:
    return {
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": usage.prompt - usage.cached},
        "output_tokens": usage.generated,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.prompt + usage.generated,
        **usage.remarks(),
    }
