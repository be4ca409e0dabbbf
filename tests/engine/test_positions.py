"""Positions in three axes belong to the log: whatever is done to a session, they are those of its log read from the
beginning; and with deepstack, what a picture says at every level reaches its own tokens only."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from holotron.engine import Engine, SamplingParams
from holotron.engine.core import Core
from holotron.engine.log import Log, Tile, TileSpan
from tests.engine.support import Asked, assert_greedy, byte_model, micro_model, positions, settings


def picture(rows: int, columns: int, seed: int = 0) -> Log:
    """Between its tags."""
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.randint(0, 256, (3, 8 * rows, 8 * columns), dtype=torch.uint8, generator=generator)
    tile = Tile(b"%dx%d-%d" % (rows, columns, seed), pixels, (rows, columns))
    return Log([41, *[40] * (rows * columns), 42], [TileSpan(1, rows * columns, tile)])


def words(count: int, seed: int = 0) -> Log:
    return Log([(7 * n + 3 * seed) % 40 for n in range(count)])


def made(*parts: Log) -> Log:
    log = Log()
    for part in parts:
        log.extend(part)
    return log


def test_a_picture_takes_as_many_steps_as_its_longer_side() -> None:
    log = made(words(1), picture(2, 3), words(1))
    assert (log.shifts(0, 10) + np.arange(10)).tolist() == [  # as drawn in `model.positions`
        [0, 1, 2, 2, 2, 2, 2, 2, 5, 6],
        [0, 1, 2, 2, 2, 3, 3, 3, 5, 6],
        [0, 1, 2, 3, 4, 2, 3, 4, 5, 6],
    ]
    assert log.shift == -3


@pytest.mark.parametrize("seed", range(20))
def test_any_stretch_of_any_log(seed: int) -> None:
    """Appended to, cut off, put together from pieces of itself."""
    draw = random.Random(seed)
    log = Log()
    for n in range(30):
        kind = draw.choice(["words", "words", "picture", "picture", "truncate", "pieces"])
        if kind == "words":
            log.extend(words(draw.randrange(5), n))
        elif kind == "picture":
            log.extend(picture(draw.randint(1, 3), draw.randint(1, 4), draw.randrange(3)))
        elif kind == "truncate":
            log.truncate(draw.randint(len(log) * 2 // 3, len(log)))
        else:  # nothing is lost, so nothing may change
            before, at = positions(log), draw.randint(0, len(log))
            log = made(log.cut(0, at), log.cut(at, len(log)))
            assert np.array_equal(positions(log), before)
        expected = positions(log)
        start = draw.randint(0, len(log))
        end = draw.randint(start, len(log))
        assert np.array_equal(log.shifts(start, end) + np.arange(start, end), expected[:, start:end])
        behind = log.shifts(len(log), len(log) + 2)
        assert (behind == log.shift).all()
        assert log.copy().shift == log.shift


@pytest.mark.parametrize("kind", ["qwen3-vl", "qwen3.5", "omni"])
def test_sessions_with_pictures_of_several_shapes(kind: str) -> None:
    """Chunks that cut pictures, forks, rewinds into pictures, swaps: every token is what the network alone says."""
    core = Core(micro_model(kind), settings(token_budget=11, kv_tokens=200, state_rows=3))
    session = core.sessions.open("a")
    core.sessions.append(session, made(words(3), picture(2, 3), picture(1, 4, 1), words(2)))
    Asked(core, session).finished(core)
    assert_greedy(core.model, session.log, 4)
    here = len(session.log)
    [twin] = core.sessions.fork(session, ["b"])
    core.sessions.append(twin, made(picture(3, 1), words(2, 5)))
    core.sessions.append(session, made(picture(2, 2), words(2, 5)))
    asked = [Asked(core, session), Asked(core, twin)]
    for one in asked:
        one.finished(core)
        assert_greedy(core.model, one.request.sequence.log, 4)
    core.sessions.rewind(session, here)
    core.sessions.append(session, words(3, 9))
    core.sessions.rewind(twin, 7)  # in the middle of the first picture
    core.sessions.append(twin, made(words(2, 1), picture(2, 3)))
    others = [core.sessions.open(f"o{n}") for n in range(4)]  # more than there is room for
    for n, other in enumerate(others):
        core.sessions.append(other, made(words(20, n), picture(2, 4, n), words(9)))
    for one in [Asked(core, sequence) for sequence in (session, twin, *others)]:
        one.finished(core)
        assert_greedy(core.model, one.request.sequence.log, 4)
    core.check_integrity()


def test_a_picture_shifts_what_follows_it() -> None:
    """The rule matters: with indices for positions the same log gives other logits."""
    from tests.engine.support import logits_alone

    model, log = micro_model("qwen3-vl"), made(words(3), picture(3, 3), words(4))
    right = logits_alone(model, log)
    log.tiles[0] = TileSpan(log.tiles[0].start, 9, Tile(b"other", log.tiles[0].tile.pixels, (1, 9)))
    assert not torch.allclose(right[-1], logits_alone(model, log)[-1], atol=1e-3)


def test_a_prefix_is_shared_with_its_pictures_positions() -> None:
    """A stateless request resumes what another computed; the reply is the one of a fresh engine."""
    model, processor = byte_model("qwen3-vl")
    shot = np.random.default_rng(0).integers(0, 256, (24, 40, 3), np.uint8)
    greedy = SamplingParams(max_tokens=4, temperature=0, ignore_eos=True)
    first = processor.render([{"role": "user", "content": [{"type": "image", "image": shot}, "what is this?" * 12]}])
    with Engine(model, processor, settings(kv_tokens=2000)) as engine:
        [reply] = engine.complete(first, greedy)
        said = reply.result().tokens
        longer = [*first.ids, *said, *b" and then?"]
        again = type(first)(longer, first.images)
        [reply] = engine.complete(again, greedy)
        resumed = reply.result()
        assert resumed.cached_tokens >= len(first.ids)
    with Engine(model, processor, settings(kv_tokens=2000)) as engine:
        [reply] = engine.complete(again, greedy)
        assert reply.result().tokens == resumed.tokens
        assert reply.result().cached_tokens == 0
