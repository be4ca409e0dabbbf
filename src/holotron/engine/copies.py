"""Blocks on their way between device and host, beside the computation.

On a GPU copies have streams of their own, one for each direction: the device computes meanwhile. What must not happen
at the same time is said by *moments*: a copy begins when all that was launched before it, and the moments it is given,
have passed; and whoever computes with a block that is still on its way waits for its moment first (`settle`). All this
waiting is the device's: the host only says what waits for what.

On a CPU everything is done at once, and there are no moments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import torch
from torch import Tensor

Pair = tuple[Tensor, Tensor]  # to, from


class Moment(Protocol):
    """The end of a copy."""

    def passed(self) -> bool:
        """Whether it is over; asks, and does not wait."""


class Copies(Protocol):
    def out(self, pairs: Sequence[Pair], after: Iterable[Moment]) -> Moment | None:
        """Begin to copy blocks to the host. None: it is done."""

    def back(self, pairs: Sequence[Pair], after: Iterable[Moment]) -> Moment | None:
        """Begin to copy blocks to the device."""

    def settle(self, moment: Moment) -> None:
        """What is computed from here on comes after it."""

    def wait(self, moment: Moment) -> None:
        """Let the host wait for it."""

    def computed(self) -> None:
        """Something was launched: copies that begin from here on come after it."""


class AtOnce:
    """Of a CPU."""

    def out(self, pairs: Sequence[Pair], after: Iterable[Moment]) -> None:
        for to, source in pairs:
            to.copy_(source)

    back = out

    def settle(self, moment: Moment) -> None:
        raise AssertionError("nothing is ever on its way")

    wait = settle

    def computed(self) -> None:
        pass


class _Event:
    def __init__(self, stream: torch.cuda.Stream) -> None:
        self.event = torch.cuda.Event()
        self.event.record(stream)

    def passed(self) -> bool:
        return self.event.query()


class OnStreams:
    """Of a GPU. Whatever computes runs in the stream that is current when it is launched."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._out, self._back = torch.cuda.Stream(device), torch.cuda.Stream(device)
        self._mark: _Event | None = None  # the end of all that was launched

    def out(self, pairs: Sequence[Pair], after: Iterable[Moment]) -> _Event:
        return self._copy(self._out, pairs, after)

    def back(self, pairs: Sequence[Pair], after: Iterable[Moment]) -> _Event:
        return self._copy(self._back, pairs, after)

    def settle(self, moment: Moment) -> None:
        assert isinstance(moment, _Event)
        if not moment.passed():
            torch.cuda.current_stream(self._device).wait_event(moment.event)

    def wait(self, moment: Moment) -> None:
        assert isinstance(moment, _Event)
        moment.event.synchronize()

    def computed(self) -> None:
        self._mark = None

    def _copy(self, stream: torch.cuda.Stream, pairs: Sequence[Pair], after: Iterable[Moment]) -> _Event:
        if self._mark is None:
            self._mark = _Event(torch.cuda.current_stream(self._device))
        for moment in {self._mark, *after}:
            assert isinstance(moment, _Event)
            if not moment.passed():
                stream.wait_event(moment.event)
        with torch.cuda.stream(stream):
            for to, source in pairs:
                to.copy_(source, non_blocking=True)
        return _Event(stream)


def copies_for(device: torch.device) -> Copies:
    return OnStreams(device) if device.type == "cuda" else AtOnce()
