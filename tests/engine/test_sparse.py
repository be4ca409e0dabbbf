"""Sparse pictures in sessions: the tower reads what is told and nothing else, and the screen follows from the log."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from holotron.engine import ExportedSession
from holotron.engine.api import EngineConfig, SamplingParams
from holotron.engine.engine import Engine
from holotron.engine.log import Log
from holotron.model.loading import load_model
from holotron.model.processor import Deltas, normalise
from holotron.model.weights import save_checkpoint
from tests.engine.support import PAGE, assert_greedy, make_tile, micro_model, page, rows_alone, sparse_tiny

GREEDY = SamplingParams(temperature=0.0, max_tokens=4, ignore_eos=True)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine(*sparse_tiny(), EngineConfig()) as running:
        yield running


def log_of(engine: Engine, session) -> Log:
    return engine.on_loop(lambda core: core.sessions.get(session.id).log.copy()).result()


def shown(session) -> np.ndarray:
    sheet = session.screen().tiles.view(2, 2, 3, 64, 64).permute(0, 3, 1, 4, 2).reshape(PAGE, PAGE, 3)
    return sheet.numpy()


FIRST = page((10, 10, 50, 20), (70, 30, 120, 60))
SECOND = page((10, 10, 50, 20), (70, 30, 120, 60), (80, 100, 90, 110))
EMPTY = page()


def test_the_network_reads_what_is_told_and_nothing_else(engine: Engine) -> None:
    with engine.open() as session:
        session.append(FIRST, "go", deltas=Deltas())
        session.generate(GREEDY).result()
        before = engine.stats()
        session.append(SECOND, "on", deltas=Deltas())
        result = session.generate(GREEDY).result()
        assert engine.stats().tiles_encoded - before.tiles_encoded == 1
        log = log_of(engine, session)
        assert [span.count for span in log.tiles][-1] == 1  # the box is in one group
        assert_greedy(engine.model, log, len(result.tokens))


def test_the_screen_follows_from_the_log(engine: Engine) -> None:
    with engine.open() as session:
        for picture in (FIRST, SECOND, EMPTY, FIRST):
            session.append(picture, deltas=Deltas())
            session.generate(GREEDY).result()
            assert np.array_equal(shown(session), picture)
        mark = session.mark()
        session.append(EMPTY, deltas=Deltas())
        (twin,) = session.fork()
        session.rewind(mark)
        assert np.array_equal(shown(session), FIRST) and np.array_equal(shown(twin), EMPTY)
        for one in (session, twin):
            one.append(SECOND, deltas=Deltas())
            result = one.generate(GREEDY).result()
            assert_greedy(engine.model, log_of(engine, one), len(result.tokens))
        twin.close()


def test_a_prompt_in_pieces_is_a_prompt_in_one(engine: Engine) -> None:
    """Looks are cut by the end of an iteration."""
    with (
        Engine(*sparse_tiny(), EngineConfig(token_budget=16, max_running=4)) as slow,
        slow.open() as pieces,
        engine.open() as whole,
    ):
        for session in (pieces, whole):
            session.append(FIRST, "go", SECOND, "on", deltas=Deltas())
        assert pieces.generate(GREEDY).result().tokens == whole.generate(GREEDY).result().tokens


def test_a_session_travels_with_what_was_read_of_its_pictures(engine: Engine, tmp_path) -> None:
    with engine.open() as session, Engine(*sparse_tiny(), EngineConfig()) as other:
        session.append(FIRST, "go", deltas=Deltas())
        session.generate(GREEDY).result()
        session.append(SECOND, "on", deltas=Deltas())
        session.export().write(tmp_path / "session")
        with other.restore(ExportedSession.read(tmp_path / "session")) as arrived:
            assert np.array_equal(shown(arrived), SECOND)
            assert arrived.generate(GREEDY).result().tokens == session.generate(GREEDY).result().tokens


@torch.no_grad()
def test_all_groups_of_a_tile_are_the_tile() -> None:
    model = micro_model("sparse")
    for number in range(3):
        tile = make_tile(number)
        whole = model.encode_tiles(normalise(tile.pixels[None], model.config.image, model.dtype))
        assert torch.allclose(rows_alone(model, tile), whole, rtol=1e-12, atol=1e-12)
        part = rows_alone(model, make_tile(number, 1, 2))
        assert not torch.allclose(part, whole[1:3], rtol=1e-3), "groups see what is read beside them"


def test_a_checkpoint_stays_sparse(tmp_path) -> None:
    model, processor = sparse_tiny()
    save_checkpoint(model, tmp_path)
    processor.save(tmp_path)
    loaded, reader = load_model(tmp_path, device="cpu")
    assert loaded.config.image == model.config.image == reader.images
