"""One iteration as arrays: which tokens, from which sequences, into which memory.

Tokens that the last iteration sampled may not be known to the host yet. They are taken on the device, from the tensor
they were sampled into: `source` says from which place of it, or -1 where the id is known.

Legend: S pieces, T tokens, M pages in the widest table.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from holotron.engine.log import Tile, TileSpan
from holotron.engine.memory import Memory
from holotron.engine.pieces import Piece
from holotron.engine.pools import Pools
from holotron.engine.sequence import Sequence


@dataclass(slots=True)
class Batch:
    decodes: int  # leading pieces of one token after a context
    length_S: np.ndarray
    context_S: np.ndarray
    row_S: np.ndarray
    table_SM: np.ndarray
    slot_T: np.ndarray
    position_T: np.ndarray
    id_T: np.ndarray
    source_D: np.ndarray  # of the decodes alone: nobody else can be ahead of the host
    shown: list[tuple[int, TileSpan]]  # where in the batch each stretch of a tile goes
    shift_3T: np.ndarray | None = None  # see `Layout`; None: the model has no use for it
    ahead: list[Tile] = field(default_factory=list)  # of pictures that go on behind a piece


class Tables:
    """The page tables of the last batch of decodes. Most of the next one's are the same: only others are copied."""

    def __init__(self, size: int, width: int, padding: int) -> None:
        """Rows that fill up a batch have one page, `padding`. Entries beyond a sequence's own pages are never read."""
        self._table = np.zeros((size, width), np.int32)
        self._stamps: list[int] = []
        self._padding = padding

    def of(self, memories: list[Memory], size: int) -> np.ndarray:
        stamps = [memory.stamp for memory in memories]
        if stamps != self._stamps:
            for n, memory in enumerate(memories):
                if n >= len(self._stamps) or stamps[n] != self._stamps[n]:
                    self._table[n, : len(memory.pages)] = memory.table
            self._table[len(memories) :, 0] = self._padding
            self._stamps = stamps
        return self._table[:size]


def decode_batch(
    sequences: list[Sequence], pools: Pools, size: int, tables: Tables | None, padding: tuple[int, int], *, axes: bool
) -> Batch:
    """Decodes filled up to `size`; what is filled in reads and writes the row and the page in `padding`. `axes`: the
    model's positions have three."""
    count = len(sequences)
    memories = [sequence.memory for sequence in sequences]
    context = np.zeros(size, np.int32)
    context[:count] = [memory.length for memory in memories]
    row = np.full(size, padding[0], np.int32)
    if pools.has_state:
        row[:count] = [memory.row for memory in memories]
    source = np.full(size, -1, np.int64)
    source[:count] = [sequence.source for sequence in sequences]
    ids = np.zeros(size, np.int64)
    if (source[:count] < 0).any():
        ids[:count] = [0 if s.promised else s.log.ids[s.memory.length] for s in sequences]
    table, slot = np.empty((0, 0), np.int32), np.empty(0, np.int64)
    if tables is not None:
        table = tables.of(memories, size)
        page, within = np.divmod(context, pools.page_size)
        slot = table[np.arange(size), page].astype(np.int64) * pools.page_size + within
    length = np.ones(size, np.int32)
    shift = None
    if axes:
        shift = np.zeros((3, size), np.int64)
        shift[:, :count] = [sequence.log.shift for sequence in sequences]
    return Batch(size, length, context, row, table, slot, context.astype(np.int64), ids, source, [], shift)


def advance(batch: Batch, page_size: int) -> None:
    """The same decodes one token further; what they read is what was sampled for each."""
    there = torch.from_numpy  # the tensors are these arrays
    context, table, slot = there(batch.context_S), there(batch.table_SM), there(batch.slot_T)
    advance_inputs(context, table, slot, there(batch.position_T), there(batch.source_D), page_size)


def advance_inputs(
    context_S: Tensor, table_SM: Tensor, slot_S: Tensor, position_S: Tensor, source_S: Tensor, page_size: int
) -> None:
    """In place, wherever they are. Whatever fills up the batch has no context, and stays as it is."""
    real = context_S > 0
    context_S += real
    position_S += real
    place = torch.arange(len(real), device=real.device)
    source_S.copy_(place.masked_fill(~real, -1))
    if slot_S.numel():
        page = table_SM[place, position_S // page_size]
        slot_S.copy_(page.long() * page_size + position_S % page_size)


def mixed_batch(pieces: list[Piece], pools: Pools, *, axes: bool) -> Batch:
    sequences = [piece.request.sequence for piece in pieces]
    length = np.array([piece.count for piece in pieces], np.int32)
    context = np.array([piece.start for piece in pieces], np.int32)
    row = np.array([sequence.memory.row for sequence in sequences], np.int32)
    decodes = int(((length == 1) & (context > 0)).cumprod().sum())
    source = np.array([sequence.source for sequence in sequences[:decodes]], np.int64)
    ids: list[int] = []
    shown: list[tuple[int, TileSpan]] = []
    ahead: list[Tile] = []
    for piece, sequence in zip(pieces, sequences, strict=True):
        if sequence.log.tiles:
            for span in sequence.log.shown(piece.start, piece.end):
                shown.append((len(ids) + span.start - piece.start, span))
            ahead += sequence.log.tiles_behind(piece.end)
        ids += [0] if sequence.promised else sequence.log.ids[piece.start : piece.end]
        ids += sequence.draft.tokens if sequence.draft is not None else ()
    id_T = np.array(ids, np.int64)
    for at, span in shown:
        id_T[at : at + span.count] = 0  # a placeholder need not have a row in the table of embeddings
    owner = np.repeat(np.arange(len(pieces)), length)  # which piece a token belongs to
    start = np.cumsum(length) - length
    position = np.arange(len(id_T), dtype=np.int64) + (context - start)[owner]
    table, slot = np.empty((0, 0), np.int32), np.empty(0, np.int64)
    if pools.has_attention:
        size = pools.page_size
        widest = max(len(sequence.memory.pages) for sequence in sequences)
        # In steps of 16: kernels are compiled anew for strides that do not divide by it.
        table = np.zeros((len(pieces), -(-widest // 16) * 16), np.int32)
        for n, sequence in enumerate(sequences):
            pages = sequence.memory.table
            table[n, : len(pages)] = pages
        slot = table[owner, position // size].astype(np.int64) * size + position % size
    shift = None
    if axes:
        logs = [piece.request.sequence.log.shifts(piece.start, piece.end) for piece in pieces]
        shift = np.concatenate(logs, axis=1)
    return Batch(decodes, length, context, row, table, slot, position, id_T, source, shown, shift, ahead)


def read_rows(pieces: list[Piece]) -> list[int] | None:
    """Whose vectors are wanted, of the tokens of a batch: the last of each piece, and those a draft was guessed from.
    None: there is no draft, and it is the last of each."""
    if all(piece.request.sequence.draft is None for piece in pieces):
        return None
    rows: list[int] = []
    end = 0
    for request, _, count in pieces:
        draft, end = request.sequence.draft, end + count
        rows += range(end - 1 - (len(draft.tokens) if draft is not None else 0), end)
    return rows


@dataclass(slots=True)
class Filled:
    """A batch filled up to given numbers of decodes, prompts and tokens (see `prompt_graphs`)."""

    lengths: tuple[int, ...]
    # Starts, contexts, rows, page tables, slots, positions, ids, sources, last tokens; shifts, where there are any.
    arrays: list[np.ndarray]
    shown: list[tuple[int, TileSpan]]
    ahead: list[Tile]
    moved: int  # places that all but the decodes have moved by


def fill_up(
    batch: Batch, decodes: int, prompts: int, tokens: int, width: int, padding: tuple[int, int], page_size: int
) -> Filled:
    """What fills up decodes reads and writes the row and the page in `padding`; further prompts are empty."""
    real, sequences = batch.decodes, decodes + prompts

    def spread(values: np.ndarray, size: int, filler: int) -> np.ndarray:
        """Decodes to the left, what follows them after what fills them up. (A decode is one token, so tokens and
        sequences move alike.)"""
        moved = np.full((size, *values.shape[1:]), filler, values.dtype)
        moved[:real] = values[:real]
        moved[decodes : decodes + len(values) - real] = values[real:]
        return moved

    length = spread(batch.length_S, sequences, 0)
    length[:decodes] = 1
    starts = np.concatenate([[0], np.cumsum(length)]).astype(np.int32)
    count = len(batch.length_S)
    last = np.zeros(sequences, np.int64)
    last[:real] = np.arange(real)
    last[real:count] = starts[decodes + 1 : decodes + 1 + count - real] - 1
    table, slot = batch.table_SM, batch.slot_T
    if slot.size:
        wide = np.zeros((sequences, width), np.int32)
        wide[:, : table.shape[1]] = spread(table, sequences, 0)
        wide[real:decodes, 0] = padding[1]
        table, slot = wide, spread(slot, tokens, padding[1] * page_size)
    source = np.full(decodes, -1, np.int64)
    source[:real] = batch.source_D
    arrays = [
        starts,
        spread(batch.context_S, sequences, 0),
        spread(batch.row_S, sequences, padding[0]),
        table,
        slot,
        spread(batch.position_T, tokens, 0),
        spread(batch.id_T, tokens, 0),
        source,
        last,
    ]
    if batch.shift_3T is not None:
        arrays.append(np.ascontiguousarray(spread(batch.shift_3T.T, tokens, 0).T))
    shown = [(at + decodes - real if at >= real else at, span) for at, span in batch.shown]
    return Filled(tuple(length.tolist()), arrays, shown, batch.ahead, decodes - real)


def fed_back(ids_T: Tensor, source_D: Tensor, sampled: Tensor) -> Tensor:
    """Ids with those of the leading decodes that only the device knows put in their places."""
    decodes = len(source_D)
    known = torch.where(source_D < 0, ids_T[:decodes], sampled[source_D.clamp(min=0)])
    return known if decodes == len(ids_T) else torch.cat([known, ids_T[decodes:]])
