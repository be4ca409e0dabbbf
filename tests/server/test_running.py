"""What runs on behalf of a request, or beside all of them, comes to its end."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from holotron.server import run
from holotron.server.running import unbroken


def test_what_must_not_be_broken_off_is_not_however_often_somebody_tries() -> None:
    """A client that leaves, and then the end of the time that its request had."""

    async def main() -> None:
        may_end = asyncio.Event()

        async def work() -> None:
            await may_end.wait()
            done.append("to its end")

        task = asyncio.ensure_future(unbroken(work()))
        for _ in range(2):
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            task.cancel()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    done: list[str] = []
    asyncio.run(main())
    assert done == ["to its end"]


def test_a_disk_that_fails_once_does_not_end_the_sweeping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "SWEEP_SECONDS", 0)

    async def tidy(service: Any) -> None:
        swept.append(service)
        if len(swept) == 1:
            raise OSError("the disk is away")
        raise asyncio.CancelledError  # the end of the server

    swept: list[Any] = []
    monkeypatch.setattr(run, "tidy", tidy)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run._sweep(cast(Any, "service")))
    assert swept == ["service"] * 2
