"""Reads tensors from files in pieces, straight to where they are used: no file is mapped, no tensor is held whole.

    with Reader(device) as reader:
        for first, last, piece in reader.rows(header, header.shape[0]):       # rows first ... last - 1, on the device
            target[first:last].copy_(piece)

On a GPU the pieces go through two pinned buffers: while one travels to the device, the next is read into the other.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from types import TracebackType

import torch
from torch import Tensor

from holotron.errors import CheckpointError
from holotron.model.weights.headers import Header

AHEAD = 64 << 20  # bytes that the system is asked to read before they are wanted
PIECE = 4 << 20  # bytes: what is computed with a piece on its way takes several times as much


class Reader:
    def __init__(self, device: torch.device | str) -> None:
        self._device = torch.device(device)
        self._file: tuple[Path, FileIO] | None = None  # the one that is open
        self._ring: list[tuple[Tensor, torch.cuda.Event]] = []
        self._turn = 0

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self._file is not None:
            self._file[1].close()
            self._file = None
        if self._ring:
            torch.cuda.synchronize(self._device)
            self._ring = []

    def whole(self, header: Header) -> Tensor:
        """A small tensor, at once."""
        count = header.stop - header.start
        return self._bytes(header, 0, count).view(header.dtype).view(header.shape)

    def turned(self, header: Header) -> Tensor:
        """A matrix that lies turned over, at once and the right way round."""
        assert header.turned is not None
        (first, wide), (rows, columns) = header.turned, header.shape
        around = self._bytes(header, 0, header.stop - header.start).view(header.dtype).view(columns, wide)
        return around[:, first : first + rows].t().contiguous()

    def rows(self, header: Header, count: int, multiple: int = 1) -> Iterator[tuple[int, int, Tensor]]:
        """The tensor as `count` rows [count, -1], some of them at a time: as many as make up a piece, in multiples of
        `multiple` but for the last ones."""
        width = (header.stop - header.start) // max(count, 1)
        at_once = max(PIECE // max(width, 1) // multiple, 1) * multiple
        for first in range(0, count, at_once):
            last = min(first + at_once, count)
            piece = self._bytes(header, first * width, (last - first) * width)
            yield first, last, piece.view(header.dtype).view(last - first, -1)

    def _bytes(self, header: Header, start: int, count: int) -> Tensor:
        if self._device.type != "cuda":
            buffer = torch.empty(count, dtype=torch.uint8)
            self._read(header, start, buffer)
            return buffer.to(self._device)
        buffer, copied = self._pinned(count)
        copied.synchronize()
        self._read(header, start, buffer[:count])
        arrived = buffer[:count].to(self._device, non_blocking=True)
        copied.record(torch.cuda.current_stream(self._device))
        return arrived

    def _pinned(self, count: int) -> tuple[Tensor, torch.cuda.Event]:
        """A buffer whose last content has left or will be waited for."""
        self._turn = (self._turn + 1) % 2
        if len(self._ring) < 2:
            size = max(count, PIECE)
            self._ring.append((torch.empty(size, dtype=torch.uint8, pin_memory=True), torch.cuda.Event()))
            return self._ring[-1]
        buffer, copied = self._ring[self._turn]
        if len(buffer) < count:
            copied.synchronize()
            buffer = torch.empty(count, dtype=torch.uint8, pin_memory=True)
            self._ring[self._turn] = (buffer, copied)
        return buffer, copied

    def _read(self, header: Header, start: int, buffer: Tensor) -> None:
        view = memoryview(buffer.numpy().data)
        done = 0
        try:
            opened = self._open(header.file)
            opened.seek(header.start + start)
            # Files are read from their beginning to their end: the disk may as well go on with what comes next.
            if hasattr(os, "posix_fadvise"):  # not everywhere
                os.posix_fadvise(opened.fileno(), header.start + start + len(view), AHEAD, os.POSIX_FADV_WILLNEED)
            while done < len(view):
                count = opened.readinto(view[done:])
                if not count:
                    raise CheckpointError(f"{header.file} was cut off while it was read, at byte {opened.tell():,}")
                done += count
        except OSError as error:
            raise CheckpointError(f"cannot read {header.file}: {error.strerror or error}") from error

    def _open(self, file: Path) -> FileIO:
        if self._file is None or self._file[0] != file:
            if self._file is not None:
                self._file[1].close()
                self._file = None
            self._file = (file, FileIO(file))
        return self._file[1]
