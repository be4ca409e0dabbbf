"""Computes what the scheduler decided: pieces of several logs through the network in one call, without waiting for it.

On a GPU iterations are filled up to one of a few sizes and replayed from captured graphs, hundreds of kernels in one
launch: decodes alone (`graphs`), and prompts beside them (`prompt_graphs`). What fits no size, or is seen for the first
time, is launched kernel by kernel.

Legend: S pieces, T tokens, D hidden, V vocabulary.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from holotron.engine.api import EngineConfig
from holotron.engine.batch import Batch, Tables, advance, decode_batch, fed_back, mixed_batch, read_rows
from holotron.engine.graphs import Graphs, bucket_sizes, capturable
from holotron.engine.log import Tile, TileSpan
from holotron.engine.pieces import Piece
from holotron.engine.pools import Pools
from holotron.engine.prompt_graphs import PromptGraphs, Shape, Shapes
from holotron.engine.sequence import Sequence
from holotron.engine.vision import VisionCache
from holotron.kernels.layout import Layout, upload
from holotron.model.layers import MoE
from holotron.model.model import Holotron

NARROWEST = 256  # pages: whenever a context outgrows the tables, everything is captured anew


class Runner:
    def __init__(
        self, model: Holotron, pools: Pools, vision: VisionCache, config: EngineConfig, context_limit: int
    ) -> None:
        self._model = model
        self._pools = pools
        self._vision = vision
        self._sampled = torch.zeros(config.max_running, dtype=torch.int64, device=model.device)
        self._sizes = bucket_sizes(config.max_running) if pools.padding is not None else []
        self._most_pages = pools.pages_for(context_limit + 1)
        self._width = min(NARROWEST, self._most_pages)  # of the page tables of decodes; grows with the contexts
        self._tables: Tables | None = None
        self._last: tuple[Batch, int] | None = None  # decodes, and how many of them are real
        self._graphs = Graphs(model, pools, self._sampled) if self._sizes and capturable(model, pools) else None
        self._shapes: Shapes | None = None
        self._prompts: PromptGraphs | None = None
        if self._graphs is not None and capturable_prompts(model):
            self._shapes = Shapes(config)
            self._prompts = PromptGraphs(model, pools, self._sampled, config, self._most_pages, self._shapes)
        if self._graphs is not None:
            experts = [module for module in model.modules() if isinstance(module, MoE)]
            for layer in experts[:1]:  # all have the same shape
                layer.rehearse(config.token_budget)

    def run(self, pieces: list[Piece]) -> Tensor:
        """Write the pieces into their memories; the final vectors of each piece's last token, and of those that a draft
        was guessed from (`read_rows`), [S, D], which are valid until the next call."""
        self._pools.copies.computed()
        if self._sizes and pieces[-1].count == 1 and all(map(_is_decode, pieces)):
            return self._decode([piece.request.sequence for piece in pieces])[: len(pieces)]
        self._last = None
        batch = mixed_batch(pieces, self._pools, axes=self._model.config.axes)
        rows = read_rows(pieces)
        if self._prompts is not None and (hidden_SD := self._prompts.run(batch, self._lay, rows)) is not None:
            return hidden_SD
        hidden_TD = self._forward(batch)
        wanted = np.cumsum(batch.length_S, dtype=np.int64) - 1 if rows is None else np.array(rows, np.int64)
        if len(wanted) == len(batch.id_T):
            return hidden_TD
        return hidden_TD[upload([wanted], self._model.device)[0]]

    def again(self) -> Tensor:
        """The last call, which was for decodes alone, with each sequence one token further."""
        self._pools.copies.computed()
        assert self._last is not None
        batch, count = self._last
        if self._graphs is not None:
            return self._graphs.again(batch.decodes)[:count]
        advance(batch, self._pools.page_size)
        return self._forward(batch)[:count]

    @property
    def repeats(self) -> bool:
        """Whether iterations of decodes are of a kind that can be repeated."""
        return bool(self._sizes)

    def feed_back(self, tokens_B: Tensor) -> None:
        """What was sampled (as numbers of any type), for the next call to read."""
        self._sampled[: len(tokens_B)] = tokens_B

    def logits(self, hidden_SD: Tensor) -> Tensor:
        return self._model.language_model.logits(hidden_SD)

    @property
    def captured(self) -> list[int]:
        """Batch sizes there are graphs for."""
        return self._graphs.captured if self._graphs is not None else []

    @property
    def captured_prompts(self) -> list[Shape]:
        """Shapes of iterations with prompts that there are graphs for."""
        return self._prompts.captured if self._prompts is not None else []

    def filler(self, decodes: int) -> int:
        """Tokens that so many decodes are filled up with beside prompts."""
        return self._shapes.decodes(decodes) - decodes if self._shapes is not None else 0

    def _decode(self, sequences: list[Sequence]) -> Tensor:
        assert self._pools.padding is not None
        size = next(size for size in self._sizes if size >= len(sequences))
        if self._pools.has_attention:
            self._widen(max([len(sequence.memory.pages) for sequence in sequences]))
        batch = decode_batch(
            sequences, self._pools, size, self._tables, self._pools.padding, axes=self._model.config.axes
        )
        self._last = (batch, len(sequences))
        return self._graphs.run(batch) if self._graphs is not None else self._forward(batch)

    def _widen(self, pages: int) -> None:
        """Make the tables of decodes wide enough. Graphs have their width built in."""
        if self._tables is not None and pages <= self._width:
            return
        while pages > self._width:
            self._width = min(2 * self._width, self._most_pages)
        assert self._pools.padding is not None
        self._tables = Tables(self._sizes[-1], self._width, self._pools.padding[1])
        if self._graphs is not None:
            self._graphs.clear()

    def _forward(self, batch: Batch) -> Tensor:
        layout, ids_T, source_D = self._put(batch)
        if (batch.source_D >= 0).any():
            ids_T = fed_back(ids_T, source_D, self._sampled)
        x_TD, deep = self._model.language_model.embed(ids_T), None
        if batch.shown:
            x_TD, deep = self._model.show(x_TD, *self._seen(x_TD.device, batch.shown, batch.ahead))
        return self._model.language_model(x_TD, layout, self._pools.cache, deep)

    def _lay(self, x_TD: Tensor, shown: list[tuple[int, TileSpan]], ahead: list[Tile]) -> None:
        """Image rows in the place of placeholders, where these lie."""
        places, rows = self._seen(x_TD.device, shown, ahead)
        x_TD.index_copy_(0, places, rows.to(x_TD.dtype))

    def _seen(
        self, device: torch.device, shown: list[tuple[int, TileSpan]], ahead: list[Tile]
    ) -> tuple[Tensor, Tensor]:
        """Where pictures stand in a batch, and their rows."""
        rows = self._vision.rows([span for _, span in shown], ahead)
        images = torch.cat([rows[span.tile.key][span.offset : span.offset + span.count] for _, span in shown])
        places = np.concatenate([np.arange(at, at + span.count) for at, span in shown])
        return upload([places], device)[0], images

    def _put(self, batch: Batch) -> tuple[Layout, Tensor, Tensor]:
        start_S1 = np.concatenate([[0], np.cumsum(batch.length_S)]).astype(np.int32)
        arrays = [start_S1, batch.context_S, batch.row_S, batch.table_SM, batch.slot_T, batch.position_T, batch.id_T]
        shifts = [batch.shift_3T] if batch.shift_3T is not None else []
        uploaded = upload([*arrays, batch.source_D, *shifts], self._model.device)
        starts, context, row, table, slot, position, ids, source = uploaded[:8]
        layout = Layout(
            lengths=tuple(batch.length_S.tolist()),
            contexts=tuple(batch.context_S.tolist()),
            rows=tuple(batch.row_S.tolist()),
            num_decodes=batch.decodes,
            page_size=self._pools.page_size,
            starts_S1=starts,
            context_S=context,
            rows_S=row,
            pages_SM=table,
            slots_T=slot,
            positions_T=position,
            shift_3T=uploaded[8] if shifts else None,
        )
        return layout, ids, source


def _is_decode(piece: Piece) -> bool:
    """A single token of text after a context; most are tokens that were generated."""
    if piece.count != 1 or piece.start == 0:
        return False
    return piece.start >= piece.request.prompt or not piece.request.sequence.log.shown(piece.start, piece.end)


def capturable_prompts(model: Holotron) -> bool:
    """Beyond what `capturable` asks for: in single precision, the delta rule of prompts is the reference's. What
    deepstack adds to the first layers comes with every batch, and is not among a graph's inputs yet."""
    if model.config.levels > 1:
        return False
    return model.config.decoder.delta is None or model.dtype.itemsize == 2
