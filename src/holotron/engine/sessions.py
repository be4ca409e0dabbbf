"""All sequences, open sessions and the prefix cache of finished requests, and what happens to them at rest.

Nothing here computes. Forking, marking, rewinding and compacting only move references between memories; what is then
missing from a memory is computed when somebody generates.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain

from holotron.engine.api import (
    EngineConfig,
    Mark,
    Overloaded,
    Resumed,
    SessionInfo,
    Span,
    UnknownSession,
)
from holotron.engine.beginnings import Beginnings
from holotron.engine.exported import ExportedSession, remember
from holotron.engine.forgetting import Pauses
from holotron.engine.log import Log
from holotron.engine.memory import Memory
from holotron.engine.pools import Demand, Pools
from holotron.engine.prefix import PrefixIndex
from holotron.engine.sequence import Junction, Request, Sequence, Snapshot
from holotron.errors import CapacityError, InputError


class Sessions:
    def __init__(self, config: EngineConfig, pools: Pools, context_limit: int, picture_tag: int | None = None) -> None:
        """`picture_tag`: the token that opens a picture, if the model has one."""
        self._beginnings = Beginnings(self, picture_tag)
        self.pools = pools
        self.index = PrefixIndex(exact=pools.has_state)
        self.open_ones: dict[str, Sequence] = {}
        self.cached: dict[Sequence, None] = {}  # finished stateless requests, least recently used first
        self.stale: dict[Sequence, None] = {}  # of these, those whose client has moved on: the first to be dropped
        self.weights = ""  # which they were at first; see `fingerprint_in_memory`
        self.version = 0  # how often they were updated since
        self.recomputed = 0
        self.evicted = 0
        self.forgotten = 0
        self.resumptions: Counter[Resumed] = Counter()
        self._pauses = Pauses()
        self._config = config
        self._context_limit = context_limit
        self._numbers = itertools.count(1)
        self._look_again = 0.0

    @property
    def weights_version(self) -> tuple[str, int]:
        """By which a session's memory was computed, or was not."""
        return self.weights, self.version

    # ------------------------------------------------------------------------------------------------ open and close

    def open(self, id: str, scope: bytes = b"") -> Sequence:
        if id in self.open_ones:
            raise InputError(f"there is already a session {id!r}")
        self._room_for_sessions(1)
        sequence = self.open_ones[id] = Sequence(id, self.pools, scope=scope)
        return sequence

    def adopt(self, exported: ExportedSession, id: str, log: Log, scope: bytes = b"") -> Sequence:
        """A session that comes from another engine, with what it remembers if that is of use here."""
        self._check_length(len(log))
        sequence = self.open(id, scope)
        sequence.log = log
        if not remember(exported, sequence, self.pools, self.weights_version):
            self.recomputed += len(log)
        self.rest(sequence)
        for snapshot in sequence.snapshots():
            if snapshot.memory is not None:
                self.index.add(sequence, snapshot.memory)
        return sequence

    def stateless(self, prompt: Log, scope: bytes = b"") -> Sequence:
        """A sequence for one request, which nobody will name again."""
        sequence = Sequence(f"request-{next(self._numbers)}", self.pools, cached=True, scope=scope)
        self.append(sequence, prompt)
        return sequence

    def get(self, id: str) -> Sequence:
        if id not in self.open_ones:
            raise UnknownSession(f"there is no session {id!r}; it was never opened, was closed, or expired")
        return self.open_ones[id]

    def close(self, sequence: Sequence) -> None:
        self.index.forget(sequence)
        for memory in sequence.memories():
            self.index.remove(memory)
            memory.release()
        self.open_ones.pop(sequence.id, None)
        self.cached.pop(sequence, None)
        self.stale.pop(sequence, None)
        sequence.closed = True

    def expired(self, now: float) -> list[Sequence]:
        """Sessions nobody has used for the configured time."""
        ttl = self._config.session_ttl
        if ttl is None or now < self._look_again:
            return []
        self._look_again = now + min(1.0, ttl / 4)  # not in every iteration
        return [s for s in self.open_ones.values() if s.request is None and now - s.used_at > ttl]

    def _room_for_sessions(self, count: int) -> None:
        if len(self.open_ones) + count > self._config.max_sessions:
            raise Overloaded(
                f"{len(self.open_ones)} sessions are open and {self._config.max_sessions} allowed; close some first",
                retry_after=10.0,
            )

    # --------------------------------------------------------------------------------------------------- the log

    def append(self, sequence: Sequence, more: Log) -> None:
        self._check_length(len(sequence.log) + len(more))
        if not more.follows(sequence.log):
            raise InputError(f"session {sequence.id!r} ends with another screen than the one these changes start from")
        sequence.log.extend(more)
        sequence.used_at = time.monotonic()

    def mark(self, sequence: Sequence) -> Mark:
        """Remember this position. The memory here is kept too: at once if it is complete but for the last token,
        otherwise when the computation comes through."""
        number = next(number for number in self._numbers if number not in sequence.marks)  # some come from elsewhere
        snapshot = sequence.marks[number] = Snapshot(len(sequence.log))
        if sequence.pending <= 1 and sequence.memory.length > 0:
            self.keep(sequence, snapshot)
        return Mark(number, snapshot.position)

    def unmark(self, sequence: Sequence, mark: Mark) -> None:
        snapshot = sequence.marks.pop(mark.id, None)
        if snapshot is not None:
            self.release(snapshot)

    def rewind(self, sequence: Sequence, position: int) -> None:
        """Back to an earlier position, resuming from the nearest memory at or before it."""
        if not 0 <= position <= len(sequence.log):
            raise InputError(f"cannot rewind to {position}: the session has {len(sequence.log)} tokens")
        before = sequence.memory.length
        self._resume_from(sequence, position, whole=True)
        self.index.forget(sequence)
        sequence.log.truncate(position)
        self.recomputed += max(0, min(position, before) - sequence.memory.length)
        self.rest(sequence)

    def compact(self, sequence: Sequence, keep: Iterable[Span | Log]) -> int:
        """Replace the log by pieces of itself and new content; what follows the unchanged beginning is recomputed. How
        many tokens it then has."""
        old, before = sequence.log, sequence.memory.length
        new, computed = Log(), 0
        for part in keep:
            if isinstance(part, Span):
                if not 0 <= part.start <= part.end <= len(old):
                    raise InputError(f"cannot keep {part.start}:{part.end} of a session of {len(old)} tokens")
                new.extend(old.cut(part.start, part.end))
                computed += max(0, min(part.end, before) - part.start)
            else:
                new.extend(part)
        self._check_length(len(new))
        same = old.common(new)
        self._resume_from(sequence, same, whole=same == len(new))
        self.index.forget(sequence)
        sequence.log = new
        self.recomputed += max(0, computed - sequence.memory.length)
        self.rest(sequence)
        return len(new)

    def fork(self, sequence: Sequence, ids: list[str]) -> list[Sequence]:
        """Sequences that share everything with this one until they differ."""
        if not ids:
            raise InputError("fork into at least one session")
        for n, id in enumerate(ids):
            if id in self.open_ones or id in ids[:n]:
                raise InputError(f"there is already a session {id!r}")
        self._room_for_sessions(len(ids))
        for id in ids:
            self.open_ones[id] = self._twin(sequence, id)
            self.rest(self.open_ones[id])
        return [self.open_ones[id] for id in ids]

    def _twin(self, sequence: Sequence, id: str) -> Sequence:
        twin = Sequence(id, self.pools, scope=sequence.scope)
        twin.log = sequence.log.copy()
        twin.memory = sequence.memory.share()
        twin.service = sequence.service
        for number, snapshot in sequence.marks.items():
            memory = snapshot.memory.share() if snapshot.memory is not None else None
            twin.marks[number] = Snapshot(snapshot.position, memory)
        return twin

    def position(self, sequence: Sequence, to: Mark | int) -> int:
        if isinstance(to, int):
            return to
        if to.id not in sequence.marks:
            raise InputError(f"session {sequence.id!r} has no such mark; it was dropped by a rewind before it")
        return sequence.marks[to.id].position

    def _check_length(self, tokens: int) -> None:
        if tokens > self._context_limit:
            raise CapacityError(
                f"{tokens:,} tokens do not fit: a session may have {self._context_limit:,} "
                "(the model's context, or the engine's device memory for one session)"
            )

    # -------------------------------------------------------------------------------------------------- memories

    def rest(self, sequence: Sequence) -> None:
        """It does not change for now: others may resume from where it stands."""
        sequence.returning = False
        sequence.used_at = time.monotonic()
        self.index.note(sequence)
        self.index.add(sequence, sequence.memory)
        sequence.junctions.clear()
        if sequence.prompt_end is not None and not sequence.prompt_end.taken:
            sequence.prompt_end = None
        if sequence.window is not None and not sequence.window.taken:
            sequence.window = None
        if sequence.cached:
            self.cached[sequence] = None
            limit = self._config.prefix_cache_bytes
            while limit is not None and sum(other.nbytes for other in self.cached) > limit:
                self.evict()

    def wake(self, sequence: Sequence) -> None:
        """It is going to change."""
        if not sequence.cached and sequence.log:
            self._pauses.woke(sequence, time.monotonic())
        self.index.remove(sequence.memory)
        self.index.note(sequence)
        sequence.used_at = time.monotonic()

    def keep(self, sequence: Sequence, place: Snapshot | Junction) -> None:
        """Keep the memory as it is now."""
        if isinstance(place, Snapshot):
            place.memory = sequence.memory.share()
            self.index.add(sequence, place.memory)
        else:
            place.taken = True
            root = self.stateless(sequence.log.cut(0, place.position), sequence.scope)
            root.memory = sequence.memory.share()
            root.root = True
            self.rest(root)

    def evict(self, *, stale: bool = False) -> bool:
        """Drop the least recently used of the sequences nobody holds; `stale`: only one whose client has moved on."""
        oldest = next(iter(self.stale), None)
        if oldest is None and not stale:
            oldest = next(iter(self.cached), None)
        if oldest is None:
            return False
        self.close(oldest)
        self.evicted += 1
        return True

    def forget(self, *, keep: Sequence, waiting: Iterable[Sequence]) -> bool:
        """Let an open session forget what it remembers, to be computed again: the one at rest that is needed last, or
        else the first of those `waiting`. False: nobody but `keep` holds anything any more."""
        resting = (s for s in self.open_ones.values() if s.request is None and s is not keep and _remembers(s))
        victim = next(iter(self._pauses.last_needed(resting, time.monotonic())), None)
        if victim is None:
            victim = next((s for s in waiting if s is not keep and not s.promised and _remembers(s)), None)
        if victim is None:
            return False
        self._give_up([victim])
        return True

    def file_away(self, *, keep: Sequence | None, waiting: Iterable[Sequence]) -> bool:
        """Begin to write what will be needed last to files, an eighth of the host's memory; whether there will be room
        when that is done."""
        pools = self.pools
        if pools.disk is None or pools.filing:
            return pools.filing
        left = max(pools.host.limit // 8, pools.rows.block_bytes, pools.pages.block_bytes)
        resting = (s for s in (*self.open_ones.values(), *self.cached) if s.request is None)
        others = [*self._pauses.last_needed(resting, time.monotonic()), *waiting]
        wanted = {block for s in others if s.returning or s is keep for block in s.memory.blocks()}
        if keep is not None:
            wanted.update(keep.memory.blocks())
        for sequence in others:
            for memory in sequence.memories():
                left -= memory.file_away(left, wanted)
        return pools.filing

    def read_back(self, sequence: Sequence, waiting: Iterable[Sequence], alone: bool) -> bool:
        """Begin to bring what it remembers from files to the host; whether it has to wait for that. `alone`: nobody
        runs, whose end could make room for it."""
        memory = sequence.memory
        if memory.lost:
            self._give_up([sequence])
        if not memory.filed:
            return False
        sequence.returning = True
        if self.pools.filing or memory.read_back() or self.file_away(keep=sequence, waiting=waiting) or not alone:
            return True
        self._give_up([sequence])
        return False

    def _give_up(self, sequences: Iterable[Sequence]) -> None:
        """For want of memory: they compute it again."""
        for sequence in sequences:
            self.forgotten += 1
            self.invalidate([sequence])
            sequence.forgotten, sequence.returning = True, False
            if sequence.request is not None:  # it may find a part of it elsewhere
                sequence.request.resumed, sequence.request.awaits = False, None

    def move_out(self, short: Callable[[], Demand], *, keep: Sequence | None, waiting: Iterable[Sequence]) -> None:
        """Have others move to the host until nothing is missing on the device: at first those at rest, beginning with
        the one that will be needed last, then those `waiting`. What they share with others stays."""
        missing = short()
        if not missing.rows and not missing.pages:
            return
        resting = (s for s in (*self.open_ones.values(), *self.cached) if s.request is None)
        for sequence in chain(self._pauses.last_needed(resting, time.monotonic()), waiting):
            for memory in sequence.memories() if sequence is not keep else ():
                if not memory.move_out(missing.rows, missing.pages):
                    continue  # most have been moved before
                missing = short()
                if not missing.rows and not missing.pages:
                    return

    def drop_snapshots(self, sequence: Sequence) -> bool:
        """Its marks stay, and are kept again when the computation next comes through."""
        held = [snapshot for snapshot in sequence.snapshots() if snapshot.taken]
        for snapshot in held:
            self.release(snapshot)
        if sequence.window in held:
            sequence.window = None
        if sequence.prompt_end in held:
            sequence.prompt_end = None
        return bool(held)

    def invalidate(self, sequences: Iterable[Sequence]) -> None:
        """Logs stay, memories are void. Whoever is needed again is computed again."""
        for sequence in sequences:
            self.recomputed += sequence.memory.length
            self.index.remove(sequence.memory)
            sequence.memory.release()
            for snapshot in sequence.snapshots():
                self.release(snapshot)

    def release(self, snapshot: Snapshot) -> None:
        if snapshot.memory is not None:
            self.index.remove(snapshot.memory)
            snapshot.memory.release()
            snapshot.memory = None

    def _resume_from(self, sequence: Sequence, upto: int, *, whole: bool) -> None:
        """Put the longest memory that is valid for the first `upto` tokens in the place of the live one, and drop the
        snapshots behind that point. `whole`: the log will end there, so its last token has to be sampled from."""
        best, most = Memory(self.pools), 0
        for memory in sequence.memories():
            usable = min(memory.length, upto)
            if whole and usable == upto and (memory.hidden is None or memory.length != upto):
                usable -= 1
            if usable > most and (usable == memory.length or not self.pools.has_state):
                best, most = memory, usable
        fresh = best.share()
        if not self.pools.has_state:
            fresh.truncate(most)
        self.index.remove(sequence.memory)
        sequence.memory.release()
        sequence.memory = fresh
        for number, snapshot in list(sequence.marks.items()):
            if snapshot.position > upto:
                self.release(snapshot)
                del sequence.marks[number]

    def resume(self, request: Request) -> bool:
        """Give a request that would have to begin at the beginning what is known of its log. False: somebody is just
        computing that, wait for it."""
        return self._beginnings.resume(request)


def _remembers(sequence: Sequence) -> bool:
    return any(memory.length for memory in sequence.memories())


def describe(sequence: Sequence) -> SessionInfo:
    memory = sequence.memory
    return SessionInfo(
        id=sequence.id,
        tokens=len(sequence.log),
        computed=memory.length,
        pages=len(memory.pages),
        bytes=sequence.nbytes,
        marks=sequence.mark_list(),
        busy=sequence.request is not None and not sequence.request.background,
        oldest_version=memory.oldest,
        newest_version=memory.newest,
        host_bytes=sum(memory.host_nbytes for memory in sequence.memories()),
    )
