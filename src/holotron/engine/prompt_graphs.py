"""Iterations that hold prompts as captured graphs too, so that no iteration costs the host a thousand launches.

Decodes alone come in a few sizes. Beside prompts, what changes from one iteration to the next is how many tokens there
are, how many of the sequences decode, how many read, and where each of them begins. Kernels find the last in tables on
the device; so the other three are filled up to a `Shape`, and a graph of a shape serves every batch that fits it:

    tokens     | a b c . | d d d d d d | e e e | . . . . |      one row of a fixed length
    decodes      3 of 4     prompts 2 of 4       filler         empty prompts have no tokens

What fills up decodes works on a row and a page that belong to nobody. What fills up the end belongs to no sequence:
no kernel that looks at sequences looks there, all others treat every token by itself. The scheduler knows what decodes
are filled up to (`filler`), so an iteration is not longer than its budget.

The table sizes that kernels ask for are learned the first time a shape is seen, when it runs kernel by kernel; the
third time it is captured. Pictures are laid over the embeddings before the graph begins.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from holotron.engine.api import EngineConfig
from holotron.engine.batch import Batch, Filled, fed_back, fill_up
from holotron.engine.capture import Captured, Recorder
from holotron.engine.log import Tile, TileSpan
from holotron.engine.pools import Pools
from holotron.kernels.layout import Layout, Marks, mark_tables, pack, span_table, tile_table, unpack, upload
from holotron.model.model import Holotron

DECODES = 16  # decodes are filled up to multiples of this
TOKENS = 128  # and tokens of this, which is what matrix products work in; to powers of two below twice as many
PROMPTS = (4, 16, 64)  # sequences that read
WIDTH = 256  # pages in a table, to begin with
MOST = 48  # graphs kept
SEEN = 2  # times a shape runs kernel by kernel before it is captured

# Lays pictures over embeddings, in the places given; and encodes tiles that will be shown next.
Show = Callable[[Tensor, list[tuple[int, TileSpan]], list[Tile]], None]


class Shape(NamedTuple):
    decodes: int
    prompts: int
    tokens: int


class Shapes:
    """Which shapes there are."""

    def __init__(self, config: EngineConfig) -> None:
        self._most_decodes = config.max_running
        # What the scheduler does not foresee: single tokens of prompts that are computed as decodes.
        self.most_tokens = _up(config.token_budget, TOKENS) + TOKENS

    def decodes(self, count: int) -> int:
        """What so many decodes are filled up to."""
        return min(_up(count, DECODES), max(count, self._most_decodes))

    def of(self, decodes: int, prompts: int, prompt_tokens: int) -> Shape | None:
        """The smallest that holds them, if any does."""
        sequences = next((most for most in PROMPTS if most >= prompts), None)
        filled = self.decodes(decodes)
        tokens = filled + prompt_tokens
        tokens = _up(tokens, TOKENS) if tokens > 2 * TOKENS else max(16, 1 << (tokens - 1).bit_length())
        if sequences is None or tokens > self.most_tokens:
            return None
        return Shape(filled, sequences, tokens)


class Fixed(NamedTuple):
    """A shape that is captured: its inputs, and what is computed from them."""

    inputs: Tensor
    words: Captured  # embeddings of its tokens
    network: Captured


class PromptGraphs:
    def __init__(
        self, model: Holotron, pools: Pools, sampled: Tensor, config: EngineConfig, most_pages: int, shapes: Shapes
    ) -> None:
        self._model = model
        self._pools = pools
        self._sampled = sampled
        self._shapes = shapes
        self._most_pages = most_pages
        self._width = min(WIDTH, most_pages)
        self._recorder = Recorder(model.device)
        self._seen: Counter[Shape] = Counter()
        self._wanted: dict[Shape, tuple[tuple[str, int], ...]] = {}  # the tables that kernels asked for
        # Least recently used first. Of some shapes there are two: all vectors are wanted where something was guessed.
        self._fixed: OrderedDict[tuple[Shape, bool], Fixed] = OrderedDict()
        hidden, decoder = model.config.decoder.hidden, model.language_model
        self._x = torch.zeros(shapes.most_tokens, hidden, dtype=decoder.dtype, device=model.device)

    def run(self, batch: Batch, show: Show, rows: list[int] | None = None) -> Tensor | None:
        """The final vector of each piece's last token, or of the tokens in `rows`; None: the batch fits no shape."""
        pieces = len(batch.length_S)
        shape = self._shapes.of(batch.decodes, pieces - batch.decodes, len(batch.id_T) - batch.decodes)
        if shape is None:
            return None
        self._widen(batch.table_SM.shape[1])
        assert self._pools.padding is not None
        filled = fill_up(batch, *shape, self._width, self._pools.padding, self._pools.page_size)
        if rows is None:
            return self._run(shape, filled, show, False)[:pieces]
        moved = [row + filled.moved if row >= batch.decodes else row for row in rows]
        hidden_TD = self._run(shape, filled, show, True)
        return hidden_TD[upload([np.array(moved, np.int64)], hidden_TD.device)[0]]

    def clear(self) -> None:
        self._recorder.clear()
        self._fixed.clear()
        self._seen.clear()

    @property
    def captured(self) -> list[Shape]:
        return [shape for (shape, _), fixed in self._fixed.items() if fixed.network.capture is not None]

    def _widen(self, pages: int) -> None:
        """Make page tables wide enough. Graphs have their width built in."""
        if pages <= self._width:
            return
        while pages > self._width:
            self._width = min(2 * self._width, self._most_pages)
        self.clear()

    def _run(self, shape: Shape, filled: Filled, show: Show, every: bool) -> Tensor:
        self._seen[shape] += 1
        wanted = self._wanted.get(shape) if self._seen[shape] > SEEN else None
        tables = _tables(wanted, filled, shape) if wanted is not None else []
        arrays = [*filled.arrays, *tables]
        host, places = pack(arrays, pinned=self._model.device.type == "cuda")
        fixed = self._fixed.get((shape, every))
        if fixed is not None:
            self._fixed.move_to_end((shape, every))
            fixed.inputs.copy_(host, non_blocking=True)
        else:
            inputs = host.to(self._model.device, non_blocking=True)
            layout, fixed = self._made(shape, filled, inputs, unpack(inputs, arrays, places), wanted, every)
            if wanted is not None:
                self._keep(shape, every, fixed)
        fixed.words()
        if filled.shown:
            show(self._x[: shape.tokens], filled.shown, filled.ahead)
        out = fixed.network()
        if wanted is None:
            self._wanted[shape] = layout.tables
        return out

    def _keep(self, shape: Shape, every: bool, fixed: Fixed) -> None:
        if len(self._fixed) >= MOST:
            torch.cuda.synchronize(self._model.device)  # it may be running
            self._fixed.popitem(last=False)
        self._fixed[shape, every] = fixed

    def _made(
        self, shape: Shape, filled: Filled, inputs: Tensor, tensors: list[Tensor], wanted: tuple | None, every: bool
    ) -> tuple[Layout, Fixed]:
        starts, context, row, table, slot, position, ids, source, last, *tables = tensors
        shift_3T = tables.pop(0) if self._model.config.axes else None
        layout = Layout(
            lengths=filled.lengths,  # of this batch; kernels look at the device's tables
            contexts=(0,) * len(filled.lengths),
            rows=(0,) * len(filled.lengths),
            num_decodes=shape.decodes,
            page_size=self._pools.page_size,
            starts_S1=starts,
            context_S=context,
            rows_S=row,
            pages_SM=table,
            slots_T=slot,
            positions_T=position,
            shift_3T=shift_3T,
            tokens=shape.tokens,
            _tables=_named(wanted, tables) if wanted is not None else {},
        )
        decoder, x_TD = self._model.language_model, self._x[: shape.tokens]

        def words() -> Tensor:
            return x_TD.copy_(decoder.embed(fed_back(ids, source, self._sampled)))

        def network() -> Tensor:
            hidden_TD = decoder(x_TD, layout, self._pools.cache)
            return hidden_TD if every else hidden_TD.index_select(0, last)

        seen = wanted is not None
        return layout, Fixed(
            inputs, Captured(words, self._recorder, seen=seen), Captured(network, self._recorder, seen=seen)
        )


def _tables(wanted: tuple[tuple[str, int], ...], filled: Filled, shape: Shape) -> list[np.ndarray]:
    """The contents of the tables that kernels want, in this order."""
    found: list[np.ndarray] = []
    for name, size in wanted:
        if name == "tiles":
            found.append(tile_table(filled.lengths, shape.decodes, size, shape.tokens))
        elif name == "spans":
            found.append(span_table(filled.lengths, shape.decodes, size, shape.tokens))
        else:
            assert name == "marks", f"a kernel wants {name}, which only references do"
            found += mark_tables((), len(filled.lengths))
    return found


def _named(wanted: tuple[tuple[str, int], ...], tables: list[Tensor]) -> dict[tuple[str, int], Tensor | Marks]:
    left = iter(tables)
    return {
        (name, size): Marks(next(left), next(left), next(left)) if name == "marks" else next(left)
        for name, size in wanted
    }


def _up(count: int, step: int) -> int:
    return -(-count // step) * step
