"""One writer at a time where there are no file locks: a lease that has to be renewed.

    folder/.lock/000001           who writes, and a number that grows every few seconds
    folder/.lock/000002           who took over

A lease is taken by creating the next number, which only one can do. Its holder renews it by counting on; whoever wants
it watches, and if it does not count for `LEASE_SECONDS` by the watcher's own clock, its holder is taken for dead. No
two clocks are compared. A holder that could not renew in time, or sees a later number, stops writing. Where the holder
was a process of this machine, and is gone, nobody has to wait.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from pathlib import Path
from typing import Any

from holotron.errors import ConfigError, HolotronError, StorageError
from holotron.storage.liveness import surely_gone, this_process
from holotron.storage.objects import Objects, shown

LEASE_SECONDS = 30.0
log = logging.getLogger(__name__)


class Lease:
    def __init__(self, folder: Path, place: Path) -> None:
        """On `folder`, kept in the folder `place`."""
        self._folder, self._place = folder, place
        self._count = 0
        self._lost = False
        self.closed = False
        self._renewed = time.monotonic()
        self._number = self._take()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="holotron-lease", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Before anything is written: is it still ours?"""
        if self._lost or time.monotonic() - self._renewed > LEASE_SECONDS * 2 / 3:
            raise StorageError(
                f"{shown(self._folder)} could not be kept: another process has taken it over, or the store did not "
                "answer in time. What was recorded is there; start the same command again."
            )

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._end.set()
        self._thread.join()
        if not self._lost:
            self._at(self._number).write(self._state(released=True))

    # ------------------------------------------------------------------------------------------------------- taking it

    def _take(self) -> int:
        numbers = self._numbers()
        if numbers and not self._free(numbers[-1]):
            raise self._taken()
        number = numbers[-1] + 1 if numbers else 1
        self._renewed = time.monotonic()
        if not self._at(number).create(self._state()):
            raise self._taken()  # by somebody who came at the same moment
        for old in numbers:
            self._at(old).remove()
        return number

    def _free(self, number: int) -> bool:
        """Whether whoever has it has given it up, or is dead."""
        first = self._read(number)
        if first is None or first.get("released") or surely_gone(first):
            return True
        log.warning("%s: waiting %g s to see whether its last writer is alive", shown(self._folder), LEASE_SECONDS)
        end = time.monotonic() + LEASE_SECONDS
        while time.monotonic() < end:
            time.sleep(min(1.0, LEASE_SECONDS / 10))
            now = self._read(number)
            if now is None or now.get("released"):
                return True
            if now.get("count") != first.get("count") or self._numbers()[-1:] != [number]:
                return False
        return True

    def _taken(self) -> HolotronError:
        return ConfigError(f"another process is writing to {shown(self._folder)}; wait for it or choose another folder")

    # ------------------------------------------------------------------------------------------------------ keeping it

    def _renew(self) -> None:
        while not self._end.wait(LEASE_SECONDS / 6):
            began = time.monotonic()
            try:
                if self._numbers()[-1:] != [self._number]:
                    self._lost = True
                    return
                self._count += 1
                self._at(self._number).write(self._state())
                self._renewed = began
            except HolotronError as error:  # the next try may work; `check` says when it is too late
                log.warning("%s", error)

    def _state(self, released: bool = False) -> bytes:
        return json.dumps({**this_process(), "count": self._count, "released": released}).encode()

    def _read(self, number: int) -> dict[str, Any] | None:
        try:
            return dict(json.loads(self._at(number).read()))
        except (FileNotFoundError, ValueError):
            return None

    def _numbers(self) -> list[int]:
        return sorted(int(name) for name in Objects(self._place).entries() if name.isdigit())

    def _at(self, number: int) -> Objects:
        return Objects(self._place / f"{number:06d}")
