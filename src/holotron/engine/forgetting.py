"""The third tier: the log. When device and host are full, a session that is not at work forgets what it remembers, and
computes it again when it is next needed. So a request fails for lack of memory only if its session cannot run alone.

Whose memory goes is decided by who will be needed last. Agents take turns: the one that was served longest ago comes
back first, so dropping the least recently used would drop exactly the one that is wanted next, again and again. Each
session's pauses are known from its past (and from everybody's, at first). One that is long overdue has been left.
"""

from __future__ import annotations

from collections.abc import Iterable

from holotron.engine.sequence import Sequence

LEFT = 8.0  # times its usual pause after which nobody is expected to come back
SOON = 1.0  # seconds: no pause is taken to be shorter


class Pauses:
    """How long sessions rest between a reply and the next request."""

    def __init__(self) -> None:
        self._usual = 0.0  # everybody's, smoothed; 0: nothing known yet

    def woke(self, sequence: Sequence, now: float) -> None:
        pause = max(0.0, now - sequence.used_at)
        sequence.pause = pause if sequence.pause is None else 0.5 * (sequence.pause + pause)
        self._usual = pause if self._usual == 0.0 else 0.9 * self._usual + 0.1 * pause

    def last_needed(self, sequences: Iterable[Sequence], now: float) -> list[Sequence]:
        """Sessions at rest, from the one that will be needed last: those that were left, then by when they are due."""

        def due(sequence: Sequence) -> tuple[bool, float]:
            pause = max(SOON, sequence.pause if sequence.pause is not None else self._usual)
            left = now - sequence.used_at > LEFT * pause
            return left, -sequence.used_at if left else sequence.used_at + pause

        return sorted(sequences, key=due, reverse=True)
