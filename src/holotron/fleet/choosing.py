"""Which replica a request goes to that no conversation binds to one.

A stateless request goes where most of it is known: the longest beginning that was sent there before, or pictures of it.
Not at any price: a replica that has much more to do than the others is not asked (bounded load), and a beginning that
everybody shares, a system prompt, is not worth going anywhere for.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

from holotron.fleet.asking import PICTURE_TOKENS, Asks
from holotron.fleet.replicas import Replica, least_loaded

MOST_KNOWN = 200_000  # digests that are remembered
WORTH = 0.25  # of a request's tokens, known there: less is not worth going there for
BOUND, SLACK = 1.25, 2  # a replica may have so many times the mean of what all have in flight, and a few more


class Prefixes:
    def __init__(self, most: int = MOST_KNOWN) -> None:
        self._most = most
        self._known: OrderedDict[bytes, tuple[str, ...]] = OrderedDict()  # names, the last first

    def sent(self, asks: Asks, replica: Replica) -> None:
        for digest in (*(link.digest for link in asks.chain), *asks.pictures):
            others = tuple(name for name in self._known.pop(digest, ()) if name != replica.name)
            self._known[digest] = (replica.name, *others[:3])
        while len(self._known) > self._most:
            self._known.popitem(last=False)

    def forget(self, replica: Replica) -> None:
        """What it knew is gone."""
        for digest, names in list(self._known.items()):
            if replica.name in names:
                left = tuple(name for name in names if name != replica.name)
                if left:
                    self._known[digest] = left
                else:
                    del self._known[digest]

    def known(self, asks: Asks, replica: Replica) -> int:
        """About how many tokens of it."""
        tokens = 0
        for link in asks.chain:
            if replica.name not in self._known.get(link.digest, ()):
                break
            tokens = link.tokens
        pictures = sum(replica.name in self._known.get(digest, ()) for digest in asks.pictures)
        return max(tokens, pictures * PICTURE_TOKENS)

    def best(self, asks: Asks, replicas: Sequence[Replica], sessions: Callable[[Replica], int]) -> Replica:
        idle = least_loaded(replicas, sessions)
        if len(replicas) == 1 or not asks.chain:
            return idle
        mean = (sum(replica.in_flight for replica in replicas) + 1) / len(replicas)
        free = [replica for replica in replicas if replica.in_flight < BOUND * mean + SLACK] or [idle]
        best = max(free, key=lambda replica: (self.known(asks, replica), -replica.in_flight))
        return best if self.known(asks, best) >= WORTH * asks.tokens else idle
