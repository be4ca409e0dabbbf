"""Every reference to every block, counted and compared with the pools. The tests and the idle engine do this."""

from __future__ import annotations

from holotron.engine.api import IntegrityError
from holotron.engine.memory import Memory
from holotron.engine.pools import Pools
from holotron.engine.sequence import Sequence
from holotron.engine.sessions import Sessions


def check_integrity(pools: Pools, sessions: Sessions, alive: set[Sequence], running: set[Memory]) -> None:
    """`alive` are all sequences there are, `running` the memories that must be on the device now."""
    memories = [memory for sequence in alive for memory in sequence.memories()]
    pinned = [memory for memory in memories if memory.pinned]
    if set(pinned) != running:
        raise IntegrityError(f"{len(pinned)} memories are pinned while {len(running)} sequences run")
    states, kept_states = ([m.state for m in some if m.state is not None] for some in (memories, pinned))
    pages, kept_pages = ([page for m in some for page in m.pages] for some in (memories, pinned))
    host = pools.rows.check(states, kept_states) + pools.pages.check(pages, kept_pages)
    if host != pools.host.used:
        raise IntegrityError(f"{host} bytes lie on the host, {pools.host.used} are accounted for")
    sessions.index.check(set(memories), alive)
