"""Iterations on their way through the device: launched, sampled from, read.

With overlap, the next iteration is launched before the tokens of the last one are read, so that host and device work at
the same time. What the device samples it reads itself; the host learns of it one iteration late:

    device   | network n | sample n | network n+1       | sample n+1 | ...
    host       ... launch network n+1 | read n | launch sample n+1 | plan n+2 | launch network n+2 ...

Read `step` first: it is the whole of it.
"""

from __future__ import annotations

import logging
import time
from itertools import islice

from torch import Tensor

from holotron.engine.api import EngineStats
from holotron.engine.drafts import Draft, common
from holotron.engine.iteration import Iteration
from holotron.engine.pieces import Plan, Repeat
from holotron.engine.replies import Finish, Replies, TopLogprobs
from holotron.engine.runner import Runner
from holotron.engine.sampler import Choice, draw, never_mask
from holotron.engine.scheduler import Scheduler
from holotron.engine.sequence import Request
from holotron.engine.sessions import Sessions
from holotron.errors import HolotronError, InputError
from holotron.model.model import Holotron

log = logging.getLogger(__name__)

Chosen = tuple[int, float, TopLogprobs]


class Pipeline:
    def __init__(
        self,
        model: Holotron,
        sessions: Sessions,
        scheduler: Scheduler,
        runner: Runner,
        replies: Replies,
        totals: EngineStats,
        finish: Finish,
        *,
        overlap: bool,
    ) -> None:
        self._sessions = sessions
        self._scheduler = scheduler
        self._runner = runner
        self._replies = replies
        self._totals = totals
        self._finish = finish
        self._overlap = overlap
        self._never = never_mask(model)
        self._in_flight: Iteration | None = None  # what the device is computing
        self.waited = 0.0  # seconds, for the device

    def step(self) -> Plan | None:
        """One iteration for everybody: what it was, or nothing if there was nothing to do."""
        before = self._in_flight
        if repeat := self._scheduler.plan_again():
            plan = Plan(decodes=repeat.pieces)
            self._in_flight = self._launch_again(repeat)
        else:
            plan = self._scheduler.plan()
            for request, error in plan.failed:
                self._finish(request, "error", error=error)
            self._in_flight = self._launch(plan) if plan.all else None
        if before is None and self._in_flight is None:
            return plan if plan.failed else None
        if before is not None:
            self._read(before)
        if self._in_flight is not None:
            self._choose(self._in_flight)
            if not self._overlap:
                self.drain()
        return plan

    def drain(self) -> None:
        """Read whatever is in flight."""
        if self._in_flight is not None:
            iteration, self._in_flight = self._in_flight, None
            self._read(iteration)

    def discard(self) -> None:
        """Whatever is in flight is of no use to anybody."""
        self._in_flight = None

    def vector_of(self, request: Request) -> Tensor | None:
        """What the token on its way to this request is chosen from."""
        return self._in_flight.vector_of(request) if self._in_flight is not None else None

    # ------------------------------------------------------------------------------------------------- launching

    def _launch(self, plan: Plan) -> Iteration | None:
        """Start the network, note what it writes, take the snapshots due here."""
        iteration, version = Iteration(plan.all, self._sessions.version), self._sessions.version
        pieces, due = plan.pieces, iteration.due
        try:
            if pieces:
                iteration.hidden_SD = self._runner.run(pieces)
        except Exception as error:
            self._give_up([piece.request for piece in plan.all], error)
            return None
        row = -1  # of the vectors
        for n, (request, start, count) in enumerate(pieces):
            sequence = request.sequence
            end, guessed = start + count, len(sequence.draft.tokens) if sequence.draft is not None else 0
            row += 1 + guessed
            sequence.memory.wrote(end, version)
            sequence.service += count
            if start < request.prompt:
                self._read_prompt(iteration, n, row)
            if end == len(sequence.log.ids) + sequence.promised + guessed:
                sequence.promised += 1
                due.append((request, row - guessed))
                self._totals.drafted_tokens += guessed
        for piece in plan.waiting_to_sample:
            piece.request.sequence.promised += 1
            iteration.due.append((piece.request, -1))
        return iteration

    def _launch_again(self, repeat: Repeat) -> Iteration | None:
        iteration = Iteration(repeat.pieces, self._sessions.version, repeat)
        try:
            iteration.hidden_SD = self._runner.again()
        except Exception as error:
            self._give_up(repeat.requests, error)
            return None
        iteration.due = repeat.due
        for request in repeat.requests:
            sequence = request.sequence
            sequence.memory.length += 1
            sequence.service += 1
            sequence.promised += 1
        return iteration

    def _read_prompt(self, iteration: Iteration, n: int, row: int) -> None:
        """Count the prompt tokens of a piece, and keep its memory where somebody wants it; nobody does further on."""
        request, start, count = iteration.pieces[n]
        sequence, end = request.sequence, start + count
        computed = min(end, request.prompt) - start
        request.computed += computed
        self._totals.computed_tokens += computed
        if end <= request.prompt:
            for place in sequence.wanted():
                if place.position == end:
                    sequence.memory.hidden = iteration.vector(row)
                    self._sessions.keep(sequence, place)

    def _choose(self, iteration: Iteration) -> None:
        """Sample for everybody whose log is computed to its end."""
        try:
            if iteration.repeat is not None and iteration.repeat is self._scheduler.repeat:
                self._sample_again(iteration, iteration.repeat)
            elif wanted := self._wanted(iteration):
                self._sample(iteration, wanted)
            iteration.launched()
        except Exception as error:
            self._in_flight = None
            self._give_up([piece.request for piece in iteration.pieces], error)

    def _wanted(self, iteration: Iteration) -> list[tuple[Request, int]]:
        """Who gets a token, and from which vector."""
        wanted: list[tuple[Request, int]] = []
        for request, n in iteration.due:
            sequence = request.sequence
            if request.done:
                continue
            if len(request.events) >= request.params.max_tokens:
                self._finish(request, "length")  # nothing was asked for but to compute the prompt
            elif len(sequence.log.ids) > sequence.memory.length:
                sequence.break_promise()  # a grammar has forced tokens meanwhile: the next choice comes after those
            else:
                wanted.append((request, n))
        return wanted

    def _sample(self, iteration: Iteration, wanted: list[tuple[Request, int]]) -> None:
        places = [(request, row + n, n) for request, row in wanted for n in range(_drawn(request))]
        logits_BV = self._runner.logits(iteration.vectors([(request, row) for request, row, _ in places]))
        allowed: dict[int, Tensor] = {}
        for n, (request, _, guess) in enumerate(places):  # while a GPU still computes the logits
            draft = request.sequence.draft
            if draft is not None:
                if (mask := draft.masks[guess]) is not None:
                    allowed[n] = mask
            elif request.matcher is not None:
                try:
                    allowed[n] = request.matcher.allowed()
                except InputError as error:
                    self._finish(request, "error", error=error)
        choices = [_choice(request, guess) for request, _, guess in places]
        iteration.draw = draw(logits_BV, choices, never=self._never, allowed=allowed)
        iteration.sampled = [request for request, _ in wanted]
        if self._overlap:
            self._runner.feed_back(iteration.draw.tokens_B)
            for n, request in enumerate(iteration.sampled):
                if not request.done:
                    request.sequence.source = n

    def _sample_again(self, iteration: Iteration, repeat: Repeat) -> None:
        """For the same requests in the same places, none of which has a grammar."""
        assert iteration.hidden_SD is not None
        requests = repeat.requests
        choices = [_choice(request) for request in requests] if not repeat.greedy else []
        iteration.draw = draw(self._runner.logits(iteration.hidden_SD), choices, never=self._never)
        iteration.sampled = requests
        self._runner.feed_back(iteration.draw.tokens_B)

    # --------------------------------------------------------------------------------------------------- reading

    def _read(self, iteration: Iteration) -> None:
        """Read what was sampled, and append."""
        started = time.perf_counter()
        try:
            sampled = iteration.read()
            self.waited += time.perf_counter() - started
        except Exception as error:
            later = self._in_flight.pieces if self._in_flight is not None else []
            self._in_flight = None
            self._give_up([piece.request for piece in [*iteration.pieces, *later]], error)
            return
        if sampled is None:
            return
        version, accept = iteration.version, self._replies.accept
        drawn = zip(sampled.tokens, sampled.logprobs, sampled.top, strict=True)
        for request in iteration.sampled:
            choices = list(islice(drawn, _drawn(request)))
            if request.done:
                continue
            sequence = request.sequence
            sequence.promised -= 1
            if not sequence.promised:
                sequence.source = -1
            if sequence.draft is None:
                accept(request, *choices[0], version)
            else:
                self._verify(request, sequence.draft, choices, version)
        assert next(drawn, None) is None

    def _verify(self, request: Request, draft: Draft, choices: list[Chosen], version: int) -> None:
        """Take what was chosen at every place, as long as that is what was guessed for the next. Until it is clear how
        far the guesses were right, the sequence remembers what it did before them."""
        sequence, known = request.sequence, len(request.sequence.log.ids)
        read = draft.begin_again(sequence)
        said: list[int] = []
        while not request.done and said == draft.tokens[: len(said)] and len(said) <= len(draft.tokens):
            self._replies.accept(request, *choices[len(said)], version)
            said = sequence.log.ids[known:]
        right = common(said, draft.tokens)
        draft.settle(sequence, read, known + right if not request.done else 0)
        self._totals.drafts_kept += right

    def _give_up(self, requests: list[Request], error: Exception) -> None:
        """Something broke in the middle. What these sequences remember is in doubt, so it is dropped; their logs are
        sound, and everybody else goes on."""
        log.error("iteration failed; %d requests are given up", len(requests), exc_info=error)
        for request in requests:
            if not request.done:
                request.sequence.break_promise()
                if (draft := request.sequence.draft) is not None:
                    draft.settle(request.sequence, request.sequence.memory, request.sequence.memory.length)
                request.sequence.memory.release()
                self._finish(request, "error", error=HolotronError(f"the iteration failed: {error}"))


def _choice(request: Request, guess: int = 0) -> Choice:
    """`guess`: so many tokens further on."""
    return Choice(request.params, request.seed, len(request.events) + guess, request.penalties)


def _drawn(request: Request) -> int:
    """How many tokens are drawn for it at once."""
    draft = request.sequence.draft
    return 1 if draft is None else 1 + len(draft.tokens)
