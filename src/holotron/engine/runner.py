"""Computes what the scheduler decided: pieces of several logs through the network in one call.

This is the only place that touches the model's inputs, so it is also the place where a captured graph for decode-only
batches would be replayed instead: everything a forward pass depends on is in the `Layout` and the embedded tokens.

Legend: S pieces, T tokens, D hidden, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from holotron.engine.blocks import Pools
from holotron.engine.log import TileSpan
from holotron.engine.scheduler import Piece
from holotron.engine.vision import VisionCache
from holotron.kernels.layout import Layout
from holotron.model.model import Holotron


class Runner:
    def __init__(self, model: Holotron, pools: Pools, vision: VisionCache) -> None:
        self._model = model
        self._pools = pools
        self._vision = vision

    def run(self, pieces: Sequence[Piece]) -> Tensor:
        """Write the pieces into their memories; the final vector of each piece's last token, [S, D]."""
        layout = self._layout(pieces)
        hidden_TD = self._model.language_model(self._embed(pieces), layout, self._pools.cache)
        return hidden_TD[layout.starts_S1[1:].long() - 1]

    def logits(self, hidden_SD: Tensor) -> Tensor:
        return self._model.language_model.logits(hidden_SD)

    def _embed(self, pieces: Sequence[Piece]) -> Tensor:
        ids: list[int] = []
        shown: list[tuple[int, TileSpan]] = []  # where in the batch each stretch of a tile goes
        for piece in pieces:
            log = piece.request.sequence.log
            for span in log.shown(piece.start, piece.end):
                shown.append((len(ids) + span.start - piece.start, span))
            ids.extend(log.ids[piece.start : piece.end])
        places = np.concatenate([np.arange(at, at + span.count) for at, span in shown]) if shown else np.zeros(0, int)
        tokens = np.array(ids)
        tokens[places] = 0  # a placeholder need not have a row in the table of embeddings
        x_TD = self._model.language_model.embed(self._put(tokens))
        if shown:
            rows = self._vision.rows([span for _, span in shown])
            images = torch.cat([rows[span.tile.key][span.offset : span.offset + span.count] for _, span in shown])
            x_TD = x_TD.index_copy(0, self._put(places), images.to(x_TD.dtype))
        return x_TD

    def _layout(self, pieces: Sequence[Piece]) -> Layout:
        """`Layout.build` without a Python loop over tokens or pages."""
        size = self._pools.page_size
        memories = [piece.request.sequence.memory for piece in pieces]
        lengths = np.array([piece.count for piece in pieces])
        contexts = np.array([piece.start for piece in pieces])
        rows = np.array([memory.row for memory in memories])
        starts = np.concatenate([[0], lengths.cumsum()])
        owner = np.repeat(np.arange(len(pieces)), lengths)  # which piece a token belongs to
        positions = np.arange(starts[-1]) - starts[owner] + contexts[owner]
        tables = np.zeros((len(pieces), max(len(memory.pages) for memory in memories)), np.int32)
        for row, memory in zip(tables, memories, strict=True):
            table = memory.table
            row[: len(table)] = table
        if self._pools.has_attention:
            slots = tables[owner, positions // size].astype(np.int64) * size + positions % size
        else:
            tables, slots = np.zeros((0, 0), np.int32), np.zeros(0, np.int64)
        decodes = int(((lengths == 1) & (contexts > 0)).cumprod().sum())
        return Layout(
            lengths=tuple(lengths.tolist()),
            contexts=tuple(contexts.tolist()),
            rows=tuple(rows.tolist()),
            num_decodes=decodes,
            page_size=size,
            starts_S1=self._put(starts, torch.int32),
            context_S=self._put(contexts, torch.int32),
            rows_S=self._put(rows, torch.int32),
            pages_SM=self._put(tables),
            slots_T=self._put(slots),
            positions_T=self._put(positions),
        )

    def _put(self, values: np.ndarray, dtype: torch.dtype | None = None) -> Tensor:
        return torch.from_numpy(values).to(self._model.device, dtype, non_blocking=True)
