"""Notices an agent that goes in circles: the same action on the same screen, again and again.

Screens are compared by their exact bytes. A page that really changes (a counter, a list scrolled on) never counts as a
circle, at the price that a moving picture can hide one; budgets end those.
"""

from __future__ import annotations

import hashlib
from collections import Counter, deque

from holotron.types import Action, Observation


class CircleDetector:
    """Counts (action, screen) pairs among the last `memory` steps, so A-B-A-B circles count as well."""

    def __init__(self, memory: int = 20) -> None:
        self._recent: deque[tuple[Action, bytes]] = deque(maxlen=memory)

    def repeats(self, action: Action, observation: Observation) -> int:
        """Record a step; how often exactly this one has been made of late, this time included."""
        pair = (action, hashlib.sha256(observation.image).digest())
        self._recent.append(pair)
        return Counter(self._recent)[pair]
