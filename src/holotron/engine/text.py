"""Tokens to text as they come, and the stop strings that may end it.

Text is given out only when it is certain: not while a character is incomplete, and not while its end could be the
beginning of a stop string.
"""

from __future__ import annotations

from collections.abc import Sequence

from holotron.model.processor.tokenizer import StreamDecoder, Tokenizer


class TextStream:
    def __init__(self, tokenizer: Tokenizer | None, stops: Sequence[str] = ()) -> None:
        self._decoder = StreamDecoder(tokenizer) if tokenizer is not None else None
        self._stops = tuple(stops)
        self._held = ""

    def push(self, token: int) -> tuple[str, str | None]:
        """The text that became certain, and the stop string if one is complete now."""
        if self._decoder is None:
            return "", None
        text = self._decoder.push(token)
        if not self._stops:
            return text, None
        self._held += text
        found = [(place, stop) for stop in self._stops if (place := self._held.find(stop)) >= 0]
        if found:
            place, stop = min(found)
            text, self._held = self._held[:place], ""
            return text, stop
        keep = max(_overlap(self._held, stop) for stop in self._stops)
        text, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        return text, None

    def finish(self) -> str:
        """Whatever was held back, when the generation ends for another reason."""
        text = self._held + (self._decoder.finish() if self._decoder is not None else "")
        self._held = ""
        return text


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that begins `stop`."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:n])), 0)
