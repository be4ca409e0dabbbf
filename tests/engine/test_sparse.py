"""Sparse pictures in sessions: the tower reads what is told and nothing else, and the screen follows from the log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from holotron.engine import ExportedSession
from holotron.engine.api import EngineConfig, SamplingParams
from holotron.engine.engine import Engine
from holotron.engine.log import Log
from holotron.kernels.layout import Layout
from holotron.model.loading import load_model
from holotron.model.looks import looks_of
from holotron.model.processor import Deltas, normalise
from holotron.model.weights import save_checkpoint

GREEDY = SamplingParams(temperature=0.0, max_tokens=4, ignore_eos=True)
SIDE = 128  # four tiles of 64 pixels, 16 groups each


def sparse_model():
    model, processor = load_model("tiny", device="cpu")
    image = replace(model.config.image, use_thumbnail=False, sparse=True)
    model.config = replace(model.config, image=image, raw=None)
    processor.images = image
    return model, processor


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine(*sparse_model(), EngineConfig()) as running:
        yield running


def page(*boxes: tuple[int, int, int, int]) -> np.ndarray:
    result = np.full((SIDE, SIDE, 3), 255, np.uint8)
    for n, (left, top, right, bottom) in enumerate(boxes):
        result[top:bottom, left:right] = 40 * n
    return result


def log_of(engine: Engine, session) -> Log:
    return engine.on_loop(lambda core: core.sessions.get(session.id).log.copy()).result()


def shown(session) -> np.ndarray:
    sheet = session.screen().tiles.view(2, 2, 3, 64, 64).permute(0, 3, 1, 4, 2).reshape(SIDE, SIDE, 3)
    return sheet.numpy()


@torch.no_grad()
def expected_tokens(engine: Engine, log: Log, count: int) -> list[int]:
    """Greedy continuation of the log's beginning, computed at once: each look by itself through the tower."""
    model = engine.model
    x_TD = model.language_model.embed(torch.tensor(log.ids))
    step = model.config.image.patch_size * model.config.image.downsample
    for span in log.tiles:
        groups = [
            span.tile.pixels[:, row * step : (row + 1) * step, column * step : (column + 1) * step]
            for row, column in (divmod(int(group), span.tile.grid[1]) for group in span.tile.groups)
        ]
        looks = looks_of(model.config, [len(groups)], span.tile.groups, model.device)
        rows = model.encode_groups(normalise(torch.stack(groups), model.config.image, model.dtype), looks)
        x_TD[span.start : span.end] = rows[span.offset : span.offset + span.count]
    hidden = model.language_model(x_TD, Layout.build([len(log)], device=model.device))
    return model.language_model.logits(hidden[len(log) - count - 1 : -1]).argmax(-1).tolist()


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
        assert expected_tokens(engine, log, 4) == list(result.tokens)


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
            assert expected_tokens(engine, log_of(engine, one), 4) == list(result.tokens)
        twin.close()


def test_a_prompt_in_pieces_is_a_prompt_in_one(engine: Engine) -> None:
    """Looks are cut by the end of an iteration."""
    with (
        Engine(*sparse_model(), EngineConfig(token_budget=16, max_running=4)) as slow,
        slow.open() as pieces,
        engine.open() as whole,
    ):
        for session in (pieces, whole):
            session.append(FIRST, "go", SECOND, "on", deltas=Deltas())
        assert pieces.generate(GREEDY).result().tokens == whole.generate(GREEDY).result().tokens


def test_a_session_travels_with_what_was_read_of_its_pictures(engine: Engine, tmp_path) -> None:
    with engine.open() as session, Engine(*sparse_model(), EngineConfig()) as other:
        session.append(FIRST, "go", deltas=Deltas())
        session.generate(GREEDY).result()
        session.append(SECOND, "on", deltas=Deltas())
        session.export().write(tmp_path / "session")
        with other.restore(ExportedSession.read(tmp_path / "session")) as arrived:
            assert np.array_equal(shown(arrived), SECOND)
            assert arrived.generate(GREEDY).result().tokens == session.generate(GREEDY).result().tokens


def test_a_checkpoint_stays_sparse(tmp_path) -> None:
    model, processor = sparse_model()
    save_checkpoint(model, tmp_path)
    processor.save(tmp_path)
    loaded, reader = load_model(tmp_path, device="cpu")
    assert loaded.config.image == model.config.image == reader.images
