"""Files behind device and host: what sessions remember comes back from them bit for bit, and nothing is left behind."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path

import pytest

from holotron.engine import Engine, SamplingParams
from holotron.engine.api import EngineConfig
from holotron.engine.blocks import Block, Pool
from holotron.engine.core import Core
from holotron.engine.filing import Files
from holotron.engine.memory import Memory
from holotron.engine.sequence import Sequence
from holotron.errors import ConfigError
from tests.engine.schedules import NAMES, Operation, World
from tests.engine.support import byte_model, micro_model, settings
from tests.engine.test_sessions import play_in_turns


def tight(kind: str, folder: Path, **changes: object) -> Core:
    """Room for one or two sessions on the device, for another on the host, and for the rest on disk."""
    given = {"kv_tokens": 128, "state_rows": 3, "host_bytes": 20_000, "expected_tokens": 2, "prefix_cache_bytes": None}
    return Core(micro_model(kind), settings(**(given | {"disk_folder": str(folder)} | changes)))


@pytest.mark.parametrize("kind", ["hybrid", "attention", "delta"])
@pytest.mark.parametrize("overlap", [False, True])
def test_sessions_in_turns_are_never_computed_again(kind: str, overlap: bool, tmp_path: Path) -> None:
    core = tight(kind, tmp_path, overlap=overlap)
    sequences = [core.sessions.open(f"s{n}") for n in range(9)]
    play_in_turns(core, sequences, turns=3)
    stats = core.stats()
    assert stats.blocks_to_disk > 0 and stats.blocks_from_disk > 0
    assert stats.forgotten_sessions == stats.recomputed_tokens == 0
    assert list(tmp_path.iterdir()) == []  # files have no names
    for sequence in sequences:
        core.close(sequence)
    while core.pools.filing:
        core.pools.collect()
    assert core.pools.host.used == core.pools.disk.used == 0  # type: ignore[union-attr]
    core.check_integrity()
    core.shut_down()


@pytest.mark.parametrize("disk_bytes", [None, 9000])
@pytest.mark.parametrize("kind", ["hybrid", "attention"])
def test_random_schedules_say_what_the_network_alone_says(kind: str, disk_bytes: int | None, tmp_path: Path) -> None:
    written = 0
    for seed, hurried in product(range(4, 8), (False, True)):  # schedules that fill the host
        dice = random.Random(f"{kind}/{disk_bytes}/{seed}")
        core = tight(kind, tmp_path, disk_bytes=disk_bytes, host_bytes=8000, overlap=seed % 2 > 0, max_running=4)
        world = World(core, 0.0)
        operations: list[Operation] = [
            (dice.choice(NAMES), *(dice.randrange(1000) for _ in range(3)))  # type: ignore[misc]
            for _ in range(30)
        ]
        world.run(operations if hurried else unhurried(core, operations))
        written += 0 if hurried else core.stats().blocks_to_disk
        for twin in world.twins:
            core.close(twin.sequence)
        while core.sessions.evict() or core.pools.filing:
            core.pools.collect()
        core.check_integrity()
        assert core.pools.rows.used == core.pools.pages.used == core.pools.host.used == 0
        assert core.pools.disk is not None and core.pools.disk.used == 0
    assert written > 0


def unhurried(core: Core, operations: Iterable[Operation]) -> Iterator[Operation]:
    """Let the disk finish after each: what is wanted again before it is written never counts as written."""
    for operation in operations:
        yield operation
        while core.pools.filing:
            core.pools.collect(wait=0.1)


def test_the_books_are_right_while_the_disk_is_slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions that are closed while their blocks are being written, or read back, are no leak."""
    ready = threading.Event()
    for name in ("_read", "_write"):
        core = tight("hybrid", tmp_path)
        sequences = [core.sessions.open(f"s{n}") for n in range(9)]
        ready.set()
        play_in_turns(core, sequences, turns=1)
        ready.clear()
        work = getattr(Files, name)
        with monkeypatch.context() as patch:
            patch.setattr(Files, name, lambda *given, work=work: (ready.wait(), work(*given))[1])
            for pool in (core.pools.rows, core.pools.pages):
                blocks = [block for memory in _memories(sequences) for block in _blocks(memory, pool)]
                assert pool.files is not None
                pool.files.away(blocks, most=1 << 20)
                pool.files.back(blocks)
            assert core.pools.filing
            core.check_integrity()
            for sequence in sequences:
                core.close(sequence)
                core.check_integrity()
            ready.set()
            while core.sessions.evict() or core.pools.filing:
                core.pools.collect(wait=0.1)
        core.check_integrity()
        assert core.pools.host.used == core.pools.disk.used == 0  # type: ignore[union-attr]


def _memories(sequences: list[Sequence]) -> list[Memory]:
    return [memory for sequence in sequences for memory in sequence.memories()]


def _blocks(memory: Memory, pool: Pool) -> list[Block]:
    if pool.name == "page":
        return list(memory.pages)
    return [memory.state] if memory.state is not None else []


def test_a_disk_that_fails_costs_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be read is computed again; what cannot be written stays where it is."""

    def broken(self: Files, *_: object) -> None:
        raise OSError(5, "the disk is gone")

    for name in ("_read", "_write"):
        core = tight("hybrid", tmp_path, host_bytes=9000)
        with monkeypatch.context() as patch:
            patch.setattr(Files, name, broken)
            sequences = [core.sessions.open(f"s{n}") for n in range(5)]
            play_in_turns(core, sequences, turns=2)
        assert core.stats().forgotten_sessions > 0


def test_exported_from_a_file_and_gone_with_the_engine(tmp_path: Path) -> None:
    model, processor = byte_model()
    config = settings(kv_tokens=400, state_rows=3, host_bytes=40_000, page_size=16, disk_folder=str(tmp_path / "swap"))
    greedy = SamplingParams(max_tokens=4, temperature=0, ignore_eos=True)
    with Engine(model, processor, config) as engine:
        sessions = [engine.open() for _ in range(8)]
        for n, session in enumerate(sessions):
            session.append(f"{n} " * 40)
            session.generate(greedy).result()
        assert engine.stats().disk_bytes_used > 0
        exported = [session.export() for session in sessions]
        assert (tmp_path / "swap").stat().st_mode & 0o077 == 0
        with Engine(model, processor, settings(kv_tokens=4000, state_rows=40, page_size=16)) as other:
            twins = [other.restore(one, f"twin-{n}") for n, one in enumerate(exported)]
            for session, twin in zip(sessions, twins, strict=True):
                assert twin.generate(greedy).result().tokens == session.generate(greedy).result().tokens
            assert other.stats().recomputed_tokens == 0
    assert not [link for link in Path("/proc/self/fd").iterdir() if str(tmp_path) in _target(link)]


def _target(link: Path) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""


def test_a_folder_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"disk_folder .* cannot be used"):
        Core(micro_model(), settings(disk_folder=str(tmp_path / "file" / "folder")))
    with pytest.raises(ConfigError, match="disk_bytes"):
        EngineConfig(disk_bytes=-1)
