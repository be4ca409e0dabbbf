"""Tokenising that lets others work meanwhile, and stops before it has done too much.

`tokenizers.Tokenizer.encode` keeps Python's lock for as long as it takes: 1 MB of text would stop everything, health
checks included, for seconds. Its `encode_batch` lets go of the lock, also for a batch of one. `unlock` makes a
tokenizer use that for every text that is not short.

How many tokens a text has is known only after tokenising it, but that it has *too many* is known sooner. A token has at
most as many bytes as the longest one of the vocabulary, and spans at most so many changes from one byte to another:
that bounds the number from below at the speed of memory. A text that passes is then counted piece by piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from holotron.errors import CapacityError
from holotron.model.processor import Tokenizer
from holotron.server.workers import check

SHORT = 2048  # characters: less than a millisecond
PIECE = 32 * 1024  # characters
_BLOCK = 2**20  # characters: a few milliseconds of looking at them
_SEAM = 8  # tokens that cutting a text once may add, generously


class _Unlocked:
    """A `tokenizers.Tokenizer` whose `encode` lets other threads run."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def encode(self, text: str, **options: Any) -> Any:
        if len(text) <= SHORT:
            return self._backend.encode(text, **options)
        return self._backend.encode_batch([text], **options)[0]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


def unlock(tokenizer: Tokenizer) -> None:
    if not isinstance(tokenizer.backend, _Unlocked):
        tokenizer.backend = _Unlocked(tokenizer.backend)  # type: ignore[assignment]


class TextGauge:
    """Refuses texts that cannot fit, as early as that can be known."""

    def __init__(self, tokenizer: Tokenizer, context: int) -> None:
        """`context`: tokens that a prompt may have."""
        self._tokenizer = tokenizer
        self._context = context
        self._longest = tokenizer.longest
        self._busiest = max(map(changes, filter(None, tokenizer.token_bytes)), default=1)

    def at_least(self, texts: Sequence[str]) -> int:
        """Fewer tokens than this they cannot have."""
        size = sum(map(len, texts))  # characters, of at least one byte each
        least = -(-size // self._longest)
        if size <= self._context or least > self._context:
            return least
        number = changed = 0
        for text in texts:
            for start in range(0, len(text), _BLOCK):
                data = text[start : start + _BLOCK].encode(errors="replace")
                number += len(data)
                changed += changes(data) - 1
                least = max(-(-number // self._longest), -(-(1 + changed) // self._busiest))
                if least > self._context:
                    return least
        return least

    def check(self, texts: Sequence[str]) -> None:
        """On a worker, if they are long: `CapacityError` if they are too long, whatever else the prompt will hold."""
        if sum(len(text) for text in texts) * 4 <= self._context:  # a character has at most four bytes, a token one
            return
        if (least := self.at_least(texts)) > self._context:
            raise too_long(least, self._context)
        if sum(map(len, texts)) > PIECE:
            self._count(texts)

    def _count(self, texts: Sequence[str]) -> None:
        tokens = 0
        for text in texts:
            for start in range(0, len(text), PIECE):
                check()
                piece = text[start : start + PIECE].encode(errors="replace").decode()  # lone surrogates: refused later
                (encoded,) = self._tokenizer.backend.encode_batch_fast([piece], add_special_tokens=False)
                tokens += max(0, len(encoded) - _SEAM)
                if tokens > self._context:
                    raise too_long(tokens, self._context)


def changes(data: bytes) -> int:
    """One more than how often a byte differs from the one before."""
    array = np.frombuffer(data, np.uint8)
    return 1 + int(np.count_nonzero(array[1:] != array[:-1]))


def too_long(tokens: int, context: int) -> CapacityError:
    return CapacityError(f"the text has at least {tokens:,} tokens; the context has room for {context:,}")
