"""The token log against plain lists."""

from __future__ import annotations

import threading
from weakref import WeakValueDictionary

import torch
from hypothesis import given
from hypothesis import strategies as st

from holotron.engine.log import BLOCK, Log, TileSpan, TileStore
from holotron.model.processor import Processor
from tests.engine.support import image_log, make_tile, micro_config

TILES = [make_tile(n) for n in range(3)]
PIECES = st.lists(st.one_of(st.lists(st.integers(0, 3), max_size=90), st.integers(0, 2)), max_size=6)


def build(pieces: list[list[int] | int]) -> Log:
    log = Log()
    for piece in pieces:
        log.extend(Log(piece) if isinstance(piece, list) else image_log(TILES[piece]))
    return log


def content(log: Log) -> list[object]:
    """What each token is: an id, or a row of a tile."""
    plain: list[object] = list(log.ids)
    for span in log.tiles:
        for n in range(span.count):
            plain[span.start + n] = (span.tile.key, span.offset + n)
    return plain


@given(PIECES, st.integers(0, 400), st.integers(0, 400))
def test_cut_and_truncate_are_slices(pieces: list, a: int, b: int) -> None:
    log = build(pieces)
    start, end = sorted((a % (len(log) + 1), b % (len(log) + 1)))
    whole = content(log)
    assert content(log.cut(start, end)) == whole[start:end]
    log.chain()
    log.truncate(end)
    assert content(log) == whole[:end]
    assert log.chain() == build(pieces).chain(end)


@given(PIECES, PIECES, PIECES)
def test_common_prefix_and_digests_go_by_content(first: list, left: list, right: list) -> None:
    a, b = build(first + left), build(first + right)
    same = 0
    for x, y in zip(content(a), content(b), strict=False):
        if x != y:
            break
        same += 1
    assert a.common(b) == b.common(a) == same
    assert a.common(b, start=min(same, len(build(first)))) == same
    for n, (x, y) in enumerate(zip(a.chain(), b.chain(), strict=False)):
        assert (x == y) == (n * BLOCK <= same)


def test_the_same_picture_cut_differently_is_not_the_same() -> None:
    whole, half = Log([40] * 4, [TileSpan(0, 4, TILES[0])]), Log([40] * 4, [TileSpan(0, 4, TILES[0], offset=2)])
    assert whole.common(half) == 0
    other = Log([40] * 4, [TileSpan(0, 2, TILES[0]), TileSpan(2, 2, TILES[1])])
    assert whole.common(other) == 2


def test_equal_tiles_are_stored_once_and_freed_with_their_last_log() -> None:
    processor = Processor.for_bytes(micro_config("hybrid").image)
    store = TileStore()
    import numpy as np

    picture = np.zeros((16, 32, 3), np.uint8)  # two equal tiles and a thumbnail like them
    first = Log.of(processor.encode_image(picture), store)
    assert [span.count for span in first.tiles] == [4, 4, 4]
    assert len(store) == 1
    second = Log.of(processor.encode_image(picture), store)
    assert second.tiles[0].tile is first.tiles[0].tile
    del first, second
    assert len(store) == 0


def test_tiles_are_counted_while_others_come() -> None:
    """Engines are asked for their numbers while workers cut pictures."""
    store, pixels = TileStore(), torch.zeros(3, 16, 16, dtype=torch.uint8)
    kept = [store.keep(bytes([n]), pixels) for n in range(3)]

    class Slow(WeakValueDictionary):
        def values(self):
            for tile in super().values():
                worker = threading.Thread(target=lambda: kept.append(store.keep(b"new", pixels)), daemon=True)
                worker.start()
                worker.join(0.05)  # for ever, if it waits until we are done
                yield tile

    store._tiles = Slow(store._tiles)
    assert store.nbytes == 3 * pixels.nbytes
