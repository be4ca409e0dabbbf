"""A session that moves to another engine goes on as if it had stayed, to the bit, and nothing is computed twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from holotron.engine import Engine, EngineConfig, ExportedSession, SamplingParams, Session, SessionBusy
from holotron.engine.shipping import write_mapped
from holotron.errors import CapacityError, InputError
from holotron.model.processor import Deltas
from tests.engine.support import PATTERNS, byte_model

GREEDY = SamplingParams(max_tokens=6, temperature=0, ignore_eos=True)
CONFIG = EngineConfig(page_size=8, kv_tokens=1024, state_rows=24, token_budget=64)


@contextmanager
def engines(kind: str = "hybrid", *configs: EngineConfig) -> Iterator[list[Engine]]:
    model, processor = byte_model(kind)
    with ExitStack() as stack:
        made = [stack.enter_context(Engine(model, processor, config)) for config in configs or (CONFIG, CONFIG)]
        yield made
        for engine in made:
            engine.check_integrity()


def picture(seed: int) -> np.ndarray:
    """No two of one size: whole tiles for some families, another grid of tokens for others. Its left side is blank."""
    height, width = [(16, 16), (24, 40), (40, 16)][seed % 3]
    screen = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    screen[:, :8] = 255
    return screen


def say(session: Session, text: str) -> tuple[int, ...]:
    session.append(text)
    return session.generate(GREEDY).result().tokens


def lived(engine: Engine) -> Session:
    """A session with a past: text, pictures, replies, a mark, and something appended that nobody has computed yet."""
    session = engine.open("traveller")
    session.append("look", picture(1))
    session.generate(GREEDY).result()
    session.mark()
    session.append(picture(2), "and now?")
    session.generate(GREEDY).result()
    session.append("more")
    return session


@pytest.mark.parametrize("through", ["memory", "bytes", "file"])
@pytest.mark.parametrize("kind", list(PATTERNS))
def test_it_goes_on_as_if_it_had_stayed(kind: str, through: str, tmp_path: Path) -> None:
    with engines(kind) as (here, there):
        stayed = lived(here)
        exported = stayed.export()
        if through == "bytes":
            exported = ExportedSession.from_bytes(exported.to_bytes())
        elif through == "file":
            exported.write(tmp_path / "session.safetensors")
            exported = ExportedSession.read(tmp_path / "session.safetensors")
        moved = there.restore(exported)
        assert (moved.id, moved.tokens()) == ("traveller", stayed.tokens())
        assert moved.info().marks == stayed.info().marks
        for n in range(3):
            if n == 1:
                mark = stayed.info().marks[0]
                stayed.rewind(mark)
                moved.rewind(mark)
            if n == 2:
                stayed.append(picture(3))
                moved.append(picture(3))
            assert say(moved, f"turn {n}") == say(stayed, f"turn {n}")
        assert moved.tokens() == stayed.tokens()
        assert there.stats().recomputed_tokens == here.stats().recomputed_tokens <= 1  # by the rewind, if at all


@pytest.mark.parametrize("dtype", [None, "float8_e4m3fn"])
def test_what_is_remembered_is_the_same_to_the_bit(dtype: str | None) -> None:
    config = EngineConfig(page_size=8, kv_tokens=1024, state_rows=24, token_budget=64, kv_dtype=dtype, replay=True)
    with engines("hybrid", config, config) as (here, there):
        first = lived(here).export()
        again = there.restore(first).export()
        assert first.about == again.about
        assert first.tensors.keys() == again.tensors.keys()
        for name, tensor in first.tensors.items():
            assert torch.equal(tensor.view(torch.uint8), again.tensors[name].view(torch.uint8)), name


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"page_size": 16}, "pages of another size"),
        ({"kv_tokens": 48, "host_bytes": 0}, "no room"),
        ({"state_dtype": "bfloat16"}, "another kind of state"),
    ],
)
def test_what_cannot_be_used_is_computed_again(changes: dict, why: str) -> None:
    with engines("hybrid", CONFIG, EngineConfig(**{**vars_of(CONFIG), **changes})) as (here, there):
        stayed = here.open()
        stayed.append("x" * 28)
        stayed.generate(SamplingParams(max_tokens=4, temperature=0, ignore_eos=True)).result()
        busy = there.open()
        busy.append("y" * 20)
        busy.generate(SamplingParams(max_tokens=4, temperature=0, ignore_eos=True)).result()
        moved = there.restore(stayed.export())
        assert there.stats().recomputed_tokens == len(moved.tokens()), why
        busy.close()
        assert moved.tokens() == stayed.tokens()
        params = SamplingParams(max_tokens=2, temperature=0, ignore_eos=True)
        assert moved.generate(params).result().cached_tokens == 0
        if changes.get("state_dtype") is None:
            assert moved.tokens()[-2:] == list(stayed.generate(params).result().tokens)


def vars_of(config: EngineConfig) -> dict:
    return {name: getattr(config, name) for name in ("page_size", "kv_tokens", "state_rows", "token_budget")}


def test_a_full_device_takes_it_on_the_host() -> None:
    small = EngineConfig(page_size=8, kv_tokens=64, state_rows=3, token_budget=64, host_bytes=10**7)
    with engines("hybrid", CONFIG, small) as (here, there):
        stayed = here.open()
        stayed.append("x" * 28)
        stayed.generate(GREEDY).result()
        others = [there.open() for _ in range(2)]
        for other in others:
            say(other, "y" * 20)
        moved = there.restore(stayed.export())
        assert there.stats().recomputed_tokens == 0
        assert there.stats().host_bytes_used > 0
        assert say(moved, "go on") == say(stayed, "go on")


def test_newer_weights_read_the_log_again() -> None:
    with engines() as (here, there):
        stayed = lived(here)
        there.update_weights({})
        moved = there.restore(stayed.export())
        assert moved.info().computed == 0
        assert len(moved.tokens()) == len(stayed.tokens())


def test_other_weights_read_the_log_again() -> None:
    """Of the same network, after no update: a replica that was started with another checkpoint by mistake."""
    model, processor = byte_model()
    with Engine(model, processor, CONFIG) as here:
        exported = lived(here).export()
    with torch.no_grad():
        model.language_model.lm_head.weight.mul_(-1.0)
    with Engine(model, processor, CONFIG) as there:
        moved = there.restore(exported)
        assert moved.info().computed == 0
        assert there.stats().version == 0
        moved.append("x")
        moved.generate(GREEDY).result()
        there.check_integrity()


@pytest.mark.parametrize("kind", ["hybrid", "sparse"])
def test_deltas_find_their_screen_again(kind: str) -> None:
    with engines(kind) as (here, there):
        stayed = here.open()
        stayed.append(picture(1), "look", deltas=Deltas())
        stayed.generate(GREEDY).result()
        moved = there.restore(stayed.export())
        screen = picture(1)
        screen[:8, :8] = 0
        for session in (stayed, moved):
            session.append(screen, "what changed?", deltas=Deltas())
        assert moved.tokens() == stayed.tokens()
        assert moved.generate(GREEDY).result().tokens == stayed.generate(GREEDY).result().tokens


def test_new_marks_do_not_replace_those_that_came_along() -> None:
    with engines() as (here, there):
        moved = there.restore(lived(here).export())
        old = moved.info().marks
        new = [moved.mark() for _ in range(4)]
        assert len({mark.id for mark in (*old, *new)}) == len(old) + len(new)


def test_one_that_has_said_nothing_yet_moves_too() -> None:
    with engines() as (here, there):
        session = here.open("new")
        assert there.restore(session.export()).tokens() == []
        session.append("hello")
        moved = there.restore(session.export(), "again")
        assert moved.generate(GREEDY).result().tokens == session.generate(GREEDY).result().tokens


def test_what_is_refused() -> None:
    model, processor = byte_model("attention")
    with engines("hybrid", CONFIG, EngineConfig(page_size=8, kv_tokens=32, state_rows=4)) as (here, there):
        session = lived(here)
        exported = session.export()
        with pytest.raises(InputError, match="already a session"):
            here.restore(exported)
        with pytest.raises(CapacityError):
            there.restore(exported)
        with Engine(model, processor, CONFIG) as other, pytest.raises(InputError, match="another model"):
            other.restore(exported)
        for nonsense in (b"", b"x" * 100, exported.to_bytes()[:300]):
            with pytest.raises(InputError, match="not an exported session"):
                ExportedSession.from_bytes(nonsense)
        generation = session.generate(SamplingParams(max_tokens=300, temperature=0, ignore_eos=True))
        with pytest.raises(SessionBusy):
            session.export()
        generation.cancel()


@pytest.mark.parametrize("read", [[], [[0]], [1, 0], [0, 0], [-1], [0, 4], [0.0]])
def test_parts_that_no_tile_has_are_refused(read: list) -> None:
    with engines("sparse") as (here, there):
        exported = lived(here).export()
        wrong = torch.tensor(read, dtype=torch.float32 if read == [0.0] else torch.int32)
        with pytest.raises(InputError, match="parts of a tile"):
            there.restore(replace(exported, tensors={**exported.tensors, "groups.0": wrong}))


def test_the_file_of_a_gpus_session_is_the_same_file(tmp_path: Path) -> None:
    """What a GPU holds is written through the file's memory, piece by piece; here without a GPU."""
    with engines() as (here, there):
        stayed = lived(here)
        exported = stayed.export()
        path = tmp_path / "session.safetensors"
        write_mapped(path, exported.tensors, exported._metadata())
        read = ExportedSession.read(path)
        assert read.about == ExportedSession.from_bytes(exported.to_bytes()).about
        for name, tensor in exported.tensors.items():
            assert torch.equal(tensor, read.tensors[name]), name
        assert say(there.restore(read), "go on") == say(stayed, "go on")
