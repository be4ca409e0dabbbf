"""Which known log does a prompt continue?

Sessions resume by name. A stateless request brings its whole history instead; this index finds the longest part of it
that some memory already holds. Logs are hashed in a chain of blocks (`Log.chain`), so that one dictionary lookup
compares a whole prefix, images included by content; the last partial block is compared token by token.

A recurrent state cannot be cut back, so a memory is useful only at its exact length: the end of a finished request, a
mark, or the end of a prompt. Where prompts part in the middle of a known log (a shared system prompt), the index says
so (`junction`), and a snapshot is taken the next time the computation comes through there.

What one client sent must not make another one's request faster, or it could be guessed. So sequences have a scope, and
only those of the same scope share anything: it is part of every key here, and of the tiles' (`log.TileStore`).
"""

from __future__ import annotations

from dataclasses import dataclass

from holotron.engine.api import IntegrityError
from holotron.engine.log import BLOCK, Log
from holotron.engine.memory import Memory
from holotron.engine.sequence import Sequence


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    sequence: Sequence  # the owner
    memory: Memory
    keys: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Found:
    entry: Entry
    length: int  # how much of the memory can be used


class PrefixIndex:
    def __init__(self, *, exact: bool) -> None:
        """`exact`: memories have a recurrent state and can only be used whole."""
        self._exact = exact
        self._entries: dict[Memory, Entry] = {}
        self._by_key: dict[bytes, dict[Memory, Entry]] = {}
        self._logs: dict[bytes, dict[Sequence, None]] = {}  # who has this prefix in its log
        self._noted: dict[Sequence, list[bytes]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    # --------------------------------------------------------------------------------------------------- upkeep

    def add(self, sequence: Sequence, memory: Memory) -> None:
        """This memory will not change until it is removed here."""
        if memory.length == 0 or memory in self._entries:
            return
        chain = _keys(sequence.scope, sequence.log.chain(memory.length))
        entry = Entry(sequence, memory, tuple(chain[-1:] if self._exact else chain))
        self._entries[memory] = entry
        for key in entry.keys:
            self._by_key.setdefault(key, {})[memory] = entry

    def remove(self, memory: Memory) -> None:
        entry = self._entries.pop(memory, None)
        for key in entry.keys if entry is not None else ():
            del self._by_key[key][memory]
            if not self._by_key[key]:
                del self._by_key[key]

    def note(self, sequence: Sequence) -> None:
        """Remember what this log says, whether or not it has been computed yet."""
        noted = self._noted.setdefault(sequence, [])
        for key in _keys(sequence.scope, sequence.log.chain()[1 + len(noted) :]):
            self._logs.setdefault(key, {})[sequence] = None
            noted.append(key)

    def forget(self, sequence: Sequence) -> None:
        """The log is gone, or was changed."""
        for key in self._noted.pop(sequence, ()):
            del self._logs[key][sequence]
            if not self._logs[key]:
                del self._logs[key]

    def check(self, memories: set[Memory], sequences: set[Sequence]) -> None:
        if not set(self._entries) <= memories:
            raise IntegrityError("the prefix index points to a memory that is gone")
        if not set(self._noted) <= sequences:
            raise IntegrityError("the prefix index knows the log of a sequence that is gone")
        if len(self._entries) < len({memory for found in self._by_key.values() for memory in found}):
            raise IntegrityError("the prefix index holds keys of a removed memory")

    # -------------------------------------------------------------------------------------------------- lookup

    def find(self, log: Log, version: int, scope: bytes = b"") -> Found | None:
        """The memory that holds the most of this log, if any of this scope does, computed by this version of the
        weights alone.

        The last token of the log is never taken from a memory unless that memory kept what is needed to sample after
        it: somebody wants to continue from there.
        """
        chain = _keys(scope, log.chain())
        for blocks in range(len(chain) - 1, -1, -1):
            best: Found | None = None
            for entry in self._by_key.get(chain[blocks], {}).values():
                if entry.memory.oldest != version:
                    continue
                length = self._usable(entry, log, blocks * BLOCK)
                if length > (best.length if best is not None else 0):
                    best = Found(entry, length)
            if best is not None:
                return best
        return None

    def _usable(self, entry: Entry, log: Log, known: int) -> int:
        memory = entry.memory
        if self._exact and memory.length > len(log):
            return 0
        same = min(entry.sequence.log.common(log, known), memory.length)
        if same == len(log) and (memory.hidden is None or same != memory.length):
            same -= 1
        return same if not self._exact or same == memory.length else 0

    def junction(self, sequence: Sequence) -> tuple[int, list[Sequence]]:
        """The deepest block boundary inside this log that other logs share, and whose they are."""
        chain = _keys(sequence.scope, sequence.log.chain(len(sequence.log) - 1))
        for blocks in range(len(chain) - 1, 0, -1):
            others = [other for other in self._logs.get(chain[blocks], {}) if other is not sequence]
            if others:
                return blocks * BLOCK, others
        return 0, []


def _keys(scope: bytes, chain: list[bytes]) -> list[bytes]:
    return [scope + key for key in chain] if scope else chain
