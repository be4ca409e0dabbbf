"""Servers of a fleet that see no folder of each other's: what one has, the other fetches, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from holotron.errors import ConfigError
from holotron.fleet.weights import write_changes
from holotron.server.moving import Harbour
from tests.server.inside import Inside, inside

FLAGS = ("--fleet.key", "secret", "--server.api_keys", "alice", "--fleet.folder")


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Inside, Inside]]:
    folders = [str(tmp_path_factory.mktemp(name)) for name in ("here", "there")]
    with inside(*FLAGS, folders[0]) as here, inside(*FLAGS, folders[1]) as there:
        yield here, there


def test_weights_that_were_fetched_are_removed_when_they_are_in_place(far: tuple[Inside, Inside]) -> None:
    here, there = far
    assert there.service.loaded is not None
    parameters = dict(there.service.loaded.engine.model.named_parameters())
    name, changes = f"{secrets.token_hex(16)}.weights", {key: part.detach() * 2 for key, part in parameters.items()}
    kept = here.service.settings.fleet.folder / name
    write_changes(kept, changes)
    told = {"version": 1, "file": name, "at": here.url}
    for _ in range(2):
        answer = httpx.post(f"{there.url}/fleet/weights", json=told, headers={"authorization": "Bearer secret"})
        assert (answer.status_code, answer.json()) == (200, {"version": 1})
    assert kept.exists(), "others may want it"
    assert not list(there.service.settings.fleet.folder.iterdir())


def test_what_does_not_arrive_whole_does_not_arrive(tmp_path: Path, far: tuple[Inside, Inside]) -> None:
    """The disk is full; the next try begins anew."""
    here, _ = far
    name = f"{secrets.token_hex(16)}.weights"
    (here.service.settings.fleet.folder / name).write_bytes(b"x" * 3_000_000)
    harbour = Harbour(tmp_path, "secret")

    async def fetch() -> None:
        real, opened = os.open, 0

        def full(path: object, *rest: int) -> int:
            nonlocal opened
            opened += 1
            return real("/dev/full", os.O_WRONLY)

        os.open = full  # type: ignore[assignment]
        try:
            with pytest.raises(Exception, match="does not take a file: No space left on device"):
                await harbour.fetched(name, here.url)
        finally:
            os.open = real
        assert opened == 1 and not list(tmp_path.iterdir())
        assert (await harbour.fetched(name, here.url)).stat().st_size == 3_000_000

    asyncio.run(fetch())


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    old, new, weights = (tmp_path / name for name in ("a.session", "b.session", "c.weights"))
    for path in (old, new, weights):
        path.touch()
    for path in (old, weights):
        os.utime(path, (time.time() - 7200,) * 2)
    Harbour(tmp_path, "secret")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.session", "c.weights"], "an entrance keeps weights"


def test_a_folder_that_cannot_be_is_a_wrong_setting(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"fleet\.folder: .* cannot be used"):
        Harbour(tmp_path / "file" / "folder", "secret")
