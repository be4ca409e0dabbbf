"""Scopes: what one client sent is no news to another, and no help either."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from holotron.engine import Engine, EngineConfig, SamplingParams
from holotron.model.loading import load_model

ONE = SamplingParams(max_tokens=1, temperature=0.0)
TEXT = "A long beginning that several prompts have in common. " * 8


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    model, processor = load_model("tiny", device="cpu")
    with Engine(model, processor, EngineConfig(kv_tokens=8192, state_rows=16)) as engine:
        yield engine


def cached(engine: Engine, text: str, scope: bytes) -> int:
    (generation,) = engine.complete(text, ONE, scope=scope)
    return generation.result().cached_tokens


def test_prefixes_are_found_within_a_scope_only(engine: Engine) -> None:
    assert cached(engine, TEXT + "first", b"a") == 0
    assert cached(engine, TEXT + "first", b"b") == 0
    assert cached(engine, TEXT + "first", b"") == 0
    assert cached(engine, TEXT + "first", b"a") > 300
    assert cached(engine, TEXT + "first", b"b") > 300


def test_common_beginnings_are_kept_within_a_scope_only(engine: Engine) -> None:
    """The snapshot at a junction belongs to the scope whose logs part there."""
    for end in ("x", "y", "z"):
        cached(engine, TEXT * 2 + end, b"c")
    assert cached(engine, TEXT * 2 + "w", b"c") > 300
    assert cached(engine, TEXT * 2 + "w", b"d") == 0


def test_sessions_and_their_forks(engine: Engine) -> None:
    with engine.open(scope=b"e") as session:
        session.append(TEXT + "session")
        session.generate(ONE).result()
        (fork,) = session.fork(1)
        assert fork.scope == b"e"
        assert cached(engine, TEXT + "session" + " and more", b"f") == 0
        assert cached(engine, TEXT + "session" + " and more", b"e") > 300
        fork.close()


def test_what_the_tower_made_of_a_picture(engine: Engine) -> None:
    picture = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)

    def encoded(scope: bytes) -> int:
        before = engine.stats().tiles_encoded
        engine.complete([picture, "What is this?"], ONE, scope=scope)[0].result()
        engine.clear_prefix_cache()
        return engine.stats().tiles_encoded - before

    assert encoded(b"g") > 0
    assert encoded(b"g") == 0  # the same pixels are encoded once
    assert encoded(b"h") > 0  # but again for somebody else
    engine.check_integrity()
