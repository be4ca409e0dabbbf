"""Iterations with prompts, filled up so that a captured graph can serve them. On a GPU: `test_gpu.py`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holotron.engine.api import EngineConfig
from holotron.engine.batch import Batch, fill_up
from holotron.engine.prompt_graphs import Shape, Shapes
from holotron.engine.runner import capturable_prompts
from holotron.kernels.layout import span_table, tile_table
from holotron.model.loading import load_model

ROOT = Path(__file__).parent.parent.parent


@given(
    decodes=st.integers(0, 5),
    lengths=st.lists(st.integers(1, 70), min_size=1, max_size=5),
    size=st.sampled_from([8, 32, 64]),
    more=st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 90)),
)
def test_filled_up_tables_are_the_others_with_nothing_behind(
    decodes: int, lengths: list[int], size: int, more: tuple[int, int, int]
) -> None:
    """However batches of one shape look, their tables have one size; kernels see the same tiles and spans in them."""
    gap, empty, tail = more
    plain = [1] * decodes + lengths
    filled = [1] * (decodes + gap) + lengths + [0] * empty
    tokens = sum(filled) + tail
    for make, firsts in ((tile_table, (0, 2)), (span_table, (0,))):
        wanted = make(plain, decodes, size)
        for row in firsts:
            wanted[row] += gap  # sequences and tokens have moved by what fills up the decodes
        found = make(filled, decodes + gap, size, tokens)
        assert found.shape[1] == (tokens - decodes - gap) // size + len(lengths) + empty
        assert np.array_equal(found[:, : wanted.shape[1]], wanted)
        assert not found[:, wanted.shape[1] :].any()


def test_a_batch_is_spread_over_its_shape() -> None:
    batch = Batch(
        decodes=2,
        length_S=np.array([1, 1, 3, 2], np.int32),
        context_S=np.array([5, 9, 4, 0], np.int32),
        row_S=np.array([7, 3, 1, 2], np.int32),
        table_SM=np.array([[10, 11, 12], [20, 21, 22], [30, 31, 0], [40, 0, 0]], np.int32),
        slot_T=np.array([45, 89, 124, 125, 126, 160, 161]),
        position_T=np.array([5, 9, 4, 5, 6, 0, 1]),
        id_T=np.array([0, 50, 51, 52, 53, 54, 55]),
        source_D=np.array([1, -1]),
        shown=[(3, "tile")],  # type: ignore[list-item]
        shift_3T=np.arange(21).reshape(3, 7),
    )
    filled = fill_up(batch, 3, 4, 16, width=5, padding=(99, 88), page_size=4)
    starts, context, row, table, slot, position, ids, source, last, shift = filled.arrays
    assert shift[:, :8].tolist() == [[n, n + 1, 0, *range(n + 2, n + 7)] for n in (0, 7, 14)]
    assert filled.lengths == (1, 1, 1, 3, 2, 0, 0)
    assert starts.tolist() == [0, 1, 2, 3, 6, 8, 8, 8]
    assert context.tolist() == [5, 9, 0, 4, 0, 0, 0]
    assert row.tolist() == [7, 3, 99, 1, 2, 99, 99]
    assert table[:5, :3].tolist() == [[10, 11, 12], [20, 21, 22], [88, 0, 0], [30, 31, 0], [40, 0, 0]]
    assert slot.tolist() == [45, 89, 352, 124, 125, 126, 160, 161] + 8 * [352]
    assert position.tolist()[:8] == [5, 9, 0, 4, 5, 6, 0, 1]
    assert ids.tolist()[:8] == [0, 50, 0, 51, 52, 53, 54, 55]
    assert source.tolist() == [1, -1, -1]
    assert last.tolist()[:4] == [0, 1, 5, 7]  # of the real pieces, in their order
    assert filled.shown == [(4, "tile")]


@given(st.integers(0, 100), st.integers(1, 80), st.integers(1, 2048))
def test_few_shapes_hold_every_iteration_within_the_budget(decodes: int, prompts: int, tokens: int) -> None:
    shapes = Shapes(EngineConfig(max_running=100, token_budget=2048))
    tokens = min(max(tokens, prompts), 2048 - shapes.decodes(decodes))
    if tokens < prompts:
        return
    shape = shapes.of(decodes, prompts, tokens)
    if prompts > 64:
        assert shape is None
        return
    assert shape is not None
    assert shape.decodes >= decodes
    assert shape.prompts >= prompts
    assert shape.decodes + tokens <= shape.tokens <= 2048
    assert shape.decodes - decodes < 16
    assert shapes.of(0, 1, 2048) == Shape(0, 4, 2048)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["hybrid", "axes"])
def test_through_the_interpreter(kind: str) -> None:
    """Experts, replay and 8 bits are run on a GPU (`test_gpu.py`): the interpreter takes minutes for them."""
    pytest.importorskip("triton")
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "tests.engine.interpreted", kind],
        env=environment,
        capture_output=True,
        text=True,
        timeout=550,
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize(("name", "captured"), [("tiny", True), ("tiny-transformer", True), ("tiny-qwen3-vl", False)])
def test_which_models_have_their_prompts_captured(name: str, captured: bool) -> None:
    model, _ = load_model(name, device="cpu")
    assert capturable_prompts(model) is captured
