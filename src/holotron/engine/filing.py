"""Files behind the host's memory: for blocks that nobody needs soon, where a folder for them is given.

Each pool has one file, which has no name: nobody else can open it, and it is gone with the process, however that ends.
Reading and writing is done by threads, from and into the places that blocks have on the host (`swap`); what they have
finished is noted when the loop next asks (`collect`). A block that is wanted while it is being written is simply taken
from where it still is, and what was written is forgotten.
"""

from __future__ import annotations

import logging
import os
import queue
import tempfile
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from holotron.engine.api import IntegrityError
from holotron.engine.copies import Copies, Moment
from holotron.engine.swap import Place, SwapSpace
from holotron.errors import ConfigError

if TYPE_CHECKING:
    from holotron.engine.blocks import Block, HostTier

THREADS = 2
log = logging.getLogger(__name__)


class DiskTier:
    """The bytes that all files together may have, and the threads that read and write them."""

    def __init__(self, folder: str, limit: int | None) -> None:
        self.folder = Path(folder)
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.folder):
                pass
            space = os.statvfs(self.folder)
        except OSError as error:
            raise ConfigError(f"engine: disk_folder {folder} cannot be used: {error.strerror or error}") from None
        self.limit = limit if limit is not None else space.f_bavail * space.f_frsize // 2
        self.used = 0
        self.under_way = 0  # blocks being read or written
        self.broken = False  # it could not be written to
        self._threads = ThreadPoolExecutor(THREADS, "holotron-disk")
        self._done: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    @property
    def free(self) -> int:
        return self.limit - self.used

    def start(self, work: Callable[[], None], then: Callable[[BaseException | None], None]) -> None:
        """Have a thread do something; `then` is called by `collect`, with what went wrong."""
        self.under_way += 1

        def run() -> None:
            failure: BaseException | None = None
            try:
                work()
            except BaseException as error:
                failure = error
            self._done.put(lambda: then(failure))

        self._threads.submit(run)

    def collect(self, wait: float = 0.0) -> None:
        """Note what the threads have finished; wait so long for the first of it."""
        while self.under_way:
            try:
                note = self._done.get(timeout=wait) if wait else self._done.get_nowait()
            except queue.Empty:
                return
            wait = 0.0
            self.under_way -= 1
            note()

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)


class Files:
    """The blocks of one pool that lie in its file, or are on their way there or back."""

    def __init__(self, disk: DiskTier, block_bytes: int, swap: SwapSpace, host: HostTier, copies: Copies) -> None:
        self._disk = disk
        self._size = block_bytes
        self._swap = swap
        self._host = host
        self._copies = copies
        self._file = tempfile.TemporaryFile(dir=disk.folder)  # noqa: SIM115  (closed with the last reference)
        self._free: list[int] = []
        self._end = 0
        self._writing: dict[object, Block] = {}  # by job; the block may have been wanted back meanwhile
        self._reading: set[Block] = set()
        self.written = self.read = 0

    def away(self, blocks: Iterable[Block], most: int) -> int:
        """Begin to write blocks that lie on the host; at most so many bytes. How many it will be."""
        begun = 0
        for block in blocks:
            if begun + self._size > most or self._disk.free < self._size or self._disk.broken:
                break
            if block.stored is None or block.job is not None or block.pins:
                continue
            slot, job = self._slot(), object()
            block.job = job
            self._writing[job] = block
            parts, moment = self._swap.at(block.stored), block.on_its_way
            self._disk.start(
                lambda slot=slot, parts=parts, moment=moment: self._write(slot, parts, moment),  # type: ignore[misc]
                lambda failure, block=block, job=job, slot=slot: self._wrote(block, job, slot, failure),  # type: ignore[misc]
            )
            begun += self._size
        return begun

    def back(self, blocks: Iterable[Block]) -> None:
        """Begin to read blocks into places on the host."""
        for block in blocks:
            if block.filed < 0 or block.job is not None:
                continue
            [(place, moment)] = self._swap.take(1)
            self._host.used += self._size
            block.job = object()
            self._reading.add(block)
            parts, slot = self._swap.at(place), block.filed
            self._disk.start(
                lambda slot=slot, parts=parts, moment=moment: self._read(slot, parts, moment),  # type: ignore[misc]
                lambda failure, block=block, place=place: self._have_read(block, place, failure),  # type: ignore[misc]
            )

    def drop(self, block: Block) -> None:
        """Nobody holds it any more; if it is on its way, it is dropped when that is over."""
        if block.job is None and block.filed >= 0:
            self._give(block.filed)
            block.filed = -1

    def contents(self, block: Block) -> tuple[Tensor, ...]:
        """Read at once."""
        parts = self._swap.blank()
        self._read(block.filed, parts, None)
        return parts

    def close(self) -> None:
        self._file.close()

    def check(self, held: Collection[Block]) -> int:
        """Compare with the blocks that somebody holds; returns the bytes on the host that are taken beside theirs:
        places being read into, and blocks that nobody holds any more but a thread still writes."""
        slots = sum(block.filed >= 0 for block in held) + sum(not block.refs for block in self._reading)
        slots += len(self._writing)
        places = len(self._reading) + sum(block.job is job and not block.refs for job, block in self._writing.items())
        if self._end - len(self._free) != slots:
            raise IntegrityError(f"{self._end - len(self._free)} places of a file are taken, {slots} are needed")
        return places * self._size

    # -------------------------------------------------------------------------------------------------- on a thread

    def _write(self, slot: int, parts: tuple[Tensor, ...], moment: Moment | None) -> None:
        if moment is not None:
            self._copies.wait(moment)
        at = slot * self._size
        for part in parts:
            for piece in _pieces(part):
                at += _whole(os.pwrite(self._file.fileno(), piece, at), piece, "full")
        os.fdatasync(self._file.fileno())  # and out of the system's own memory, which is what is scarce
        os.posix_fadvise(self._file.fileno(), slot * self._size, self._size, os.POSIX_FADV_DONTNEED)

    def _read(self, slot: int, parts: tuple[Tensor, ...], moment: Moment | None) -> None:
        if moment is not None:
            self._copies.wait(moment)
        at = slot * self._size
        for part in parts:
            for piece in _pieces(part):
                at += _whole(os.preadv(self._file.fileno(), [piece], at), piece, "cut off")

    # ------------------------------------------------------------------------------------------- on the loop's thread

    def _wrote(self, block: Block, job: object, slot: int, failure: BaseException | None) -> None:
        del self._writing[job]
        if block.job is not job:  # it was wanted meanwhile
            self._give(slot)
            return
        block.job = None
        if failure is not None:
            self._give(slot)
            if not self._disk.broken:
                log.error("%s cannot be written to any more: sessions are computed again instead", self._disk.folder,
                          exc_info=failure)  # fmt: skip
            self._disk.broken = True
            if not block.refs:
                self._leave_host(block)
            return
        self._leave_host(block)
        block.filed = slot
        self.written += 1
        if not block.refs:
            self.drop(block)

    def _have_read(self, block: Block, place: Place, failure: BaseException | None) -> None:
        self._reading.remove(block)
        block.job, block.stored = None, place
        self._give(block.filed)
        block.filed = -1
        self.read += 1
        if failure is not None:
            block.lost = True
            log.error("a block could not be read back from disk, its session is computed again", exc_info=failure)
        if not block.refs:
            self._leave_host(block)

    def _leave_host(self, block: Block) -> None:
        assert block.stored is not None
        self._swap.give(block.stored, block.moment)
        block.stored = None
        self._host.used -= self._size

    def _slot(self) -> int:
        self._disk.used += self._size
        if self._free:
            return self._free.pop()
        self._end += 1
        return self._end - 1

    def _give(self, slot: int) -> None:
        self._disk.used -= self._size
        self._free.append(slot)


PIECE = 64 << 20


def _pieces(part: Tensor) -> Iterable[memoryview]:
    """A tensor's bytes, a part at a time: one call may not take all of them."""
    whole = memoryview(part.reshape(-1).view(torch.uint8).numpy().data) if part.numel() else memoryview(b"")
    return [whole[start : start + PIECE] for start in range(0, len(whole), PIECE)]


def _whole(count: int, piece: memoryview, otherwise: str) -> int:
    if count != len(piece):
        raise OSError(f"the disk is {otherwise}: {count} of {len(piece)} bytes")
    return count
