"""Guessing a few tokens of a reply, so that the network reads them in one pass instead of one after the other.

A guess is looked up in the session's own log: what followed when the last few tokens were said before. Agents repeat
themselves, and quote what they were told. Under a grammar a guess goes only where the grammar goes, what the grammar
forces behind a guessed token comes with it, and where it leaves two tokens to choose from, one of them is guessed.

Nothing depends on guesses but time. After the pass, tokens are chosen from what the network says at every place, by the
same rules and the same random numbers as one by one; guesses are kept as far as they are what was chosen.
The state of a recurrent layer has then read too much: it is put back to where it was, and reads the right tokens with
the next pass. That is why a guess costs a row.
"""

from __future__ import annotations

from collections.abc import Sequence as Tokens
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from holotron.engine.grammar import Matcher
from holotron.engine.log import Log
from holotron.engine.memory import Memory
from holotron.engine.pools import Demand, Pools
from holotron.engine.sequence import Request, Sequence
from holotron.errors import InputError

LENGTHS = (4, 3, 2)  # of what is looked up, the longest first
FEW = 2  # tokens that a grammar allows, of which one is guessed


@dataclass(slots=True)
class Draft:
    tokens: list[int]
    # What the grammar allows behind each of them, the token before the first included; None: anything, or nobody asks.
    masks: list[Tensor | None] = field(default_factory=list)
    start: int = 0  # tokens that were remembered before
    undo: Memory | None = None  # and what that was, where a state cannot be cut back

    def begin_again(self, sequence: Sequence) -> Memory:
        """Let a sequence remember what it did before them; what it remembers with them."""
        read = sequence.memory
        if self.undo is None:
            read.length = self.start
        else:
            sequence.memory = self.undo
        return read

    def settle(self, sequence: Sequence, read: Memory, right: int) -> None:
        """The log was extended as far as they were right, to so many tokens that the network has read rightly."""
        sequence.draft = None
        if self.undo is None:
            read.length = max(read.length, right)
            return
        sequence.memory, other = (read, self.undo) if right == read.length else (self.undo, read)
        other.unpin()
        other.release()


class Lookup:
    """Where in a log some tokens stood last, and what followed."""

    def __init__(self) -> None:
        self._last: dict[tuple[int, ...], int] = {}  # the place behind them
        self._upto = 0

    def find(self, log: Log, count: int) -> list[int]:
        """What followed the end of this log when it occurred before; at most so many tokens."""
        ids = log.ids
        if self._upto > len(ids):  # it was cut back
            self._last.clear()
            self._upto = 0
        for place in range(self._upto, len(ids)):
            for length in LENGTHS:
                if place >= length:
                    self._last[tuple(ids[place - length : place])] = place
        self._upto = len(ids)
        for length in LENGTHS:
            end = tuple(ids[-length:])
            place = self._last.get(end, 0)
            if place and tuple(ids[place - length : place]) == end:
                return self._text(log, place, min(place + count, len(ids)))
        return []

    def _text(self, log: Log, start: int, end: int) -> list[int]:
        """Tokens up to the next picture: nobody says one."""
        shown = log.shown(start, end)
        return log.ids[start : shown[0].start if shown else end]


class Drafter:
    def __init__(self, most: int, context_limit: int) -> None:
        self._most = most
        self._context_limit = context_limit

    def guess(self, request: Request) -> Draft | None:
        """For a request whose last token is known to the host."""
        sequence, params = request.sequence, request.params
        if request.penalties is not None or request.background:
            return None
        room = min(
            self._most,
            params.max_tokens - len(request.events) - 1,
            self._context_limit - len(sequence.log) - 1,
        )
        if room < 1:
            return None
        if sequence.lookup is None:
            sequence.lookup = Lookup()
        assert isinstance(sequence.lookup, Lookup)
        guessed = sequence.lookup.find(sequence.log, room)
        if request.matcher is not None:
            return _within(request.matcher, guessed, room)
        return Draft(guessed, [None] * (len(guessed) + 1)) if guessed else None

    def begin(self, request: Request, pools: Pools, pending: int, budget: int) -> int:
        """Have guessed what follows the tokens that it has to read, if there is room to spare for it: how many."""
        memory, draft = request.sequence.memory, self.guess(request)
        if draft is None or pending + len(draft.tokens) > budget:
            return 0
        end = memory.length + pending + len(draft.tokens)
        pages = pools.pages_for(end) + 1 - len(memory.pages)
        if end > self._context_limit or pools.short(Demand(int(pools.has_state), pages)):
            return 0
        draft.start = memory.length
        if pools.has_state:
            draft.undo = memory.share()
            draft.undo.pin()
        memory.grow(end)
        request.sequence.draft = draft
        return len(draft.tokens)


def _within(matcher: Matcher, guessed: Tokens[int], room: int) -> Draft | None:
    """As far as the grammar goes along, with what it forces."""
    trial = matcher.copy()
    tokens: list[int] = []
    masks: list[Tensor | None] = []
    guesses = list(guessed)
    try:
        while True:
            mask = trial.allowed() if not trial.finished else None
            masks.append(mask)
            token = _next(mask, guesses) if mask is not None and len(tokens) < room else None
            if token is None:
                break
            trial.accept(token)
            added = [token, *trial.forced()]
            tokens += added
            masks += [None] * (len(added) - 1)
            guesses = guesses[len(added) :] if guesses[: len(added)] == added else []
    except InputError:  # a guess it cannot follow; the real tokens are checked by themselves
        return None
    return Draft(tokens, masks) if tokens else None


def _next(mask: Tensor, guesses: list[int]) -> int | None:
    """The guess, if it is allowed; else one of those that are, if there are few."""
    words = mask.numpy().view(np.uint32)
    if guesses and words[guesses[0] // 32] >> np.uint32(guesses[0] % 32) & 1:
        return guesses[0]
    places = np.flatnonzero(words)
    if len(places) > FEW:
        return None
    allowed = [int(32 * place + bit) for place in places for bit in range(32) if words[place] >> np.uint32(bit) & 1]
    return allowed[0] if len(allowed) <= FEW else None


def common(one: Tokens[int], other: Tokens[int]) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
