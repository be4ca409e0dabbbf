"""Screenshot deltas in sessions: the network reads exactly the groups that changed, and what it has been shown of the
screen follows from the log: after forks, rewinds and compactions too."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from holotron.engine.api import EngineConfig, SamplingParams, Span
from holotron.engine.engine import Engine
from holotron.engine.log import Log, compose_screen
from holotron.engine.session import Session
from holotron.errors import InputError
from holotron.model.loading import load_model
from holotron.model.processor import Deltas
from holotron.model.processor.deltas import ShownScreen
from tests.engine.support import assert_greedy

GREEDY = SamplingParams(temperature=0.0, max_tokens=4, ignore_eos=True)
SIDE = 128  # four tiles of 64 pixels and a thumbnail, 16 groups each: 80 tokens


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    model, processor = load_model("tiny", device="cpu")
    with Engine(model, processor, EngineConfig()) as running:
        yield running


def screenshot(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)


def touched(image: np.ndarray, x: int, y: int, shade: int = 0) -> np.ndarray:
    result = image.copy()
    result[y : y + 8, x : x + 8] = shade
    return result


def log_of(engine: Engine, session: Session) -> Log:
    return engine.on_loop(lambda core: core.sessions.get(session.id).log.copy()).result()


def shown(session) -> np.ndarray | None:
    """The screen so far, put together again from its tiles."""
    screen = session.screen()
    if screen is None:
        return None
    sheet = screen.tiles[:4].view(2, 2, 3, 64, 64).permute(0, 3, 1, 4, 2).reshape(SIDE, SIDE, 3)
    return sheet.numpy()


def test_the_network_reads_the_changed_groups_and_nothing_else(engine: Engine) -> None:
    first = screenshot(1)
    second = touched(first, 80, 20)
    with engine.open() as session:
        assert session.append(first, "go", deltas=Deltas()) == 2 + 80 + 2
        session.generate(GREEDY).result()
        before = engine.stats()
        added = session.append(second, "on", deltas=Deltas())
        result = session.generate(GREEDY).result()
        after = engine.stats()
        # One group of its tile and up to four of the thumbnail, each with an address; tags, the mark, two letters.
        assert 2 + 1 + (3 + 1) + (3 + 1) + 2 <= added <= 30
        assert result.computed_tokens == added + 1
        assert after.tiles_encoded - before.tiles_encoded == 2  # the changed tile and the thumbnail, whole
        log = log_of(engine, session)
        assert_greedy(engine.model, log, len(result.tokens))
        assert [span.offset for span in log.tiles[5:6]] == [5]  # group 5 of the second tile: row 1, column 1
        assert session.append(second, deltas=Deltas()) == 3
        session.prefill()
        assert engine.stats().tiles_encoded == after.tiles_encoded


def test_what_has_been_shown_follows_from_the_log(engine: Engine) -> None:
    first = screenshot(2)
    second, third = touched(first, 10, 10), touched(touched(first, 10, 10), 100, 90, 255)
    with engine.open() as session:
        assert session.screen() is None
        for picture in (first, second, third):
            session.append(picture, deltas=Deltas())
            session.generate(GREEDY).result()
            assert np.array_equal(shown(session), picture)  # type: ignore[arg-type]
        screen = session.screen()
        assert screen is not None
        whole = engine.processor.encode_image(third, Deltas()).images[0].screen  # type: ignore[union-attr]
        assert torch.equal(screen.tiles, whole.tiles)  # type: ignore[union-attr]
        assert screen.key == whole.key  # type: ignore[union-attr]


def test_rewinding_and_forking_keep_the_screen_right(engine: Engine) -> None:
    first = screenshot(3)
    second, other = touched(first, 40, 40), touched(first, 90, 100)
    with engine.open() as session:
        session.append(first, deltas=Deltas())
        session.generate(GREEDY).result()
        mark = session.mark()
        session.append(second, deltas=Deltas())
        session.generate(GREEDY).result()
        (twin,) = session.fork()
        session.rewind(mark)
        assert np.array_equal(shown(session), first)  # type: ignore[arg-type]
        assert np.array_equal(shown(twin), second)  # type: ignore[arg-type]
        session.append(other, deltas=Deltas())
        twin.append(other, deltas=Deltas())
        for one in (session, twin):
            result = one.generate(GREEDY).result()
            assert np.array_equal(shown(one), other)  # type: ignore[arg-type]
            assert_greedy(engine.model, log_of(engine, one), len(result.tokens))
        assert len(log_of(engine, session).tiles) < len(log_of(engine, twin).tiles)
        # Into the middle of a picture: what is left of it is no screen, so the next one is shown whole.
        session.rewind(20)
        assert session.screen() is None
        assert session.append(second, deltas=Deltas()) == 2 + 80
        session.generate(GREEDY).result()
        assert np.array_equal(shown(session), second)  # type: ignore[arg-type]
        twin.close()


def test_a_picture_without_deltas_is_a_screen_too(engine: Engine) -> None:
    first = screenshot(4)
    with engine.open() as session:
        session.append(first, deltas=Deltas())
        session.append(screenshot(5))  # not told as changes, but the last one all the same
        session.append(touched(screenshot(5), 0, 0), deltas=Deltas())
        session.prefill()
        assert np.array_equal(shown(session), touched(screenshot(5), 0, 0))  # type: ignore[arg-type]


def test_changes_to_another_screen_are_refused_and_the_session_lives_on(engine: Engine) -> None:
    first = screenshot(6)
    processor = engine.processor
    assert processor is not None
    stale = Deltas().after(processor.encode_image(screenshot(7), Deltas()))
    change = processor.encode_image(touched(screenshot(7), 5, 5), stale)
    assert change.images[0].runs
    with engine.open() as session:
        session.append(first, deltas=Deltas())
        session.prefill()
        session.append(change)
        with pytest.raises(InputError, match="another screen"):
            session.generate(GREEDY)
        session.append(touched(first, 5, 5), deltas=Deltas())
        session.generate(GREEDY).result()
        assert np.array_equal(shown(session), touched(first, 5, 5))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="another screen"):
        engine.complete(change, GREEDY)


def test_compaction_that_drops_the_base_starts_over_with_a_whole_screen(engine: Engine) -> None:
    first = screenshot(8)
    second = touched(first, 30, 30)
    with engine.open() as session:
        start = session.append(first, deltas=Deltas())
        end = start + session.append(second, deltas=Deltas())
        session.prefill()
        session.compact([Span(0, start), "gone"])
        assert np.array_equal(shown(session), first)  # type: ignore[arg-type]
        session.append(second, deltas=Deltas())
        session.compact([Span(start + len("gone"), end + len("gone"))])
        assert session.screen() is None
        assert session.append(second, deltas=Deltas()) == 82
        session.prefill()


def test_the_same_for_asyncio(engine: Engine) -> None:
    async def main() -> tuple[int, ShownScreen | None]:
        session = await engine.aio.open()
        await session.append(screenshot(9), deltas=Deltas())
        added = await session.append(screenshot(9), deltas=Deltas())
        screen = await session.screen()
        await session.close()
        return added, screen

    added, screen = asyncio.run(main())
    assert added == 3
    assert screen is not None


def test_no_screen_without_pictures() -> None:
    assert Log([1, 2, 3]).screen_parts() == []
    model_image = load_model("tiny", device="cpu").model.config.image
    assert compose_screen([], model_image) is None
