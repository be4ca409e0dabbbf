"""A token was chosen: what becomes of it. It joins the log and the text, may end the reply, and a grammar may force
others to follow it."""

from __future__ import annotations

import time
from typing import Protocol

from holotron.engine.api import EngineStats, FinishReason, TokenEvent
from holotron.engine.grammar import Matcher
from holotron.engine.sequence import Request
from holotron.errors import HolotronError, InputError

TopLogprobs = tuple[tuple[int, float], ...]


class Finish(Protocol):
    def __call__(
        self,
        request: Request,
        reason: FinishReason,
        stop: str | int | None = None,
        error: HolotronError | None = None,
    ) -> None: ...


class Replies:
    def __init__(self, eos: tuple[int, ...], context_limit: int, totals: EngineStats, finish: Finish) -> None:
        """`eos`: what ends a reply; the first of them ends one whose grammar has come to its end."""
        self._eos = eos
        self._context_limit = context_limit
        self._totals = totals
        self._finish = finish

    def accept(self, request: Request, token: int, logprob: float, top: TopLogprobs, version: int) -> None:
        """A token was chosen; with a grammar, more may follow from it without a choice. The reader gets them."""
        if logprob != logprob:  # not a number
            request.sequence.break_promise()
            request.sequence.memory.release()  # whatever it remembers is not a number either
            self._finish(request, "error", error=HolotronError("the network computed NaN for this session"))
            return
        if request.first_token_at is None:
            request.first_token_at = time.monotonic()
        self._append(request, token, logprob, top, version)
        if request.done:
            return
        if request.matcher is not None:
            try:
                request.matcher.accept(token)
                self.follow(request, request.matcher, version)
            except InputError as error:
                self._finish(request, "error", error=error)
        if fresh := request.fresh:
            request.fresh = []
            request.deliver(fresh, None)

    def follow(self, request: Request, matcher: Matcher, version: int) -> None:
        """Append what the grammar forces, and end where it ends."""
        forced = matcher.forced()
        if matcher.finished and not request.params.ignore_eos:
            forced = [*forced, *self._eos[:1]]  # the one that the chat template writes
        for token in forced:
            if not request.done:
                self._append(request, token, 0.0, (), version, forced=True)
        if matcher.finished and not request.done:
            self._finish(request, "stop")

    def repeat(self, request: Request, version: int) -> None:
        """A reply that was begun elsewhere says again what it has said, and goes on from there. What a grammar forces
        comes by itself."""
        while not request.done and (told := len(request.events)) < len(request.said):
            token = request.said[told]
            self._append(request, token, 0.0, (), version)
            if request.matcher is not None and not request.done:
                request.matcher.accept(token)
                self.follow(request, request.matcher, version)

    def _append(
        self, request: Request, token: int, logprob: float, top: TopLogprobs, version: int, *, forced: bool = False
    ) -> None:
        """One more token for the log and for the reader; perhaps the last."""
        params, ids, events = request.params, request.sequence.log.ids, request.events
        ids.append(token)
        if request.penalties is not None:
            request.penalties.note(token, forced=forced)
        self._totals.generated_tokens += 1
        if forced:
            self._totals.forced_tokens += 1
        ends = token in params.stop_token_ids or (not params.ignore_eos and token in self._eos)
        text, stop = (request.text.finish(), None) if ends else request.text.push(token)
        last = len(events) + 1 >= params.max_tokens or len(ids) >= self._context_limit
        if last and not ends and stop is None:
            text += request.text.finish()
        # As `TokenEvent(...)` does, at a third of the cost: this is done for every token.
        event = tuple.__new__(TokenEvent, (token, text, logprob, version, forced, top))
        events.append(event)
        request.fresh.append(event)
        if ends or stop is not None:
            self._finish(request, "stop", stop if stop is not None else token)
        elif last:
            self._finish(request, "length")
