"""How a packed batch of tokens maps onto sequences and their memories.

All tokens of an iteration lie in one long row, sequence after sequence, so that a matrix product sees one big matrix:

    tokens      | a | b | c | d d d d d | e e e |        T = 11, S = 5, num_decodes = 3
                  \\__ __/    \\____ ____/
                 one token   pieces of prompts
                 (decodes)   (prefill chunks)

Decodes come first. Each sequence has a *row* in the recurrent state and a list of KV *pages*; `context` tells how many
of its tokens are already remembered. A *snapshot* asks for a copy of the recurrent memory as it is in the middle of a
piece, written to a spare row. Training is the same layout with no memory behind it.

Kernels for a GPU read the device tensors only (so that a captured graph can be replayed with new contents); the torch
references use the host copies, which avoids a synchronisation and keeps their Python simple.

A layout may be *filled up* (`tokens`): the row is longer than all sequences together, and some of them may be empty.
Every table then has a size that follows from the number of tokens, decodes and sequences alone, so that one captured
graph serves all batches of these sizes. Only the GPU's kernels can read such a layout; what lies beyond the last
sequence is computed to no purpose, and is nobody's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from holotron.kernels.shared import Shared


class Snapshot(NamedTuple):
    """After `tokens` tokens of this piece of sequence `sequence`, keep a copy of the recurrent memory in `row`."""

    sequence: int
    tokens: int
    row: int


@dataclass(frozen=True, eq=False)
class Chunks:
    """Sequences cut into pieces of at most Q tokens that never straddle a boundary, as the scan reference wants them.

    An *end* is a point where the recurrent memory is written: every snapshot, and the end of every sequence.
    """

    count: int
    size: int
    place_T: Tensor  # where each token sits in the chunks laid end to end; places between are padding
    sequence_c: Tensor  # which sequence a chunk belongs to
    first_S: Tensor  # first chunk of each sequence
    sequence_e: Tensor  # which sequence an end belongs to
    after_e: Tensor  # one past the last chunk before each end
    row_e: Tensor  # where the memory goes at each end
    dense: bool  # every chunk is full, so the tokens can be viewed as [chunks, Q] without a gather


class Round(NamedTuple):
    """The n-th chunks of all sequences that have so many, for a rule that must walk its chunks one after the other."""

    chunk_s: Tensor  # the chunks, in the order of their sequences
    stay_s: Tensor | None  # which sequences of the round before have a chunk in this one; None: all of them
    state_e: Tensor  # after this round, the states of these sequences of the round ...
    row_e: Tensor  # ... are written to these rows


class Marks(NamedTuple):
    """Snapshots by sequence, on the device: those of sequence s are first_S1[s]:first_S1[s+1]."""

    first_S1: Tensor
    tokens_m: Tensor
    row_m: Tensor


@dataclass(frozen=True, eq=False)
class Layout:
    lengths: tuple[int, ...]
    contexts: tuple[int, ...]
    rows: tuple[int, ...]
    num_decodes: int
    page_size: int
    starts_S1: Tensor  # int32, cumulative lengths: sequence s owns tokens starts[s]:starts[s+1]
    context_S: Tensor  # int32
    rows_S: Tensor  # int32
    pages_SM: Tensor  # int32, page table padded with 0
    slots_T: Tensor  # int64, where each token's key and value go: page * page_size + offset
    positions_T: Tensor  # int64, index of each token in its sequence
    snapshots: tuple[Snapshot, ...] = ()  # by sequence, then by tokens
    tokens: int | None = None  # filled up to so many
    # int64 [3, T], contiguous within a row: how far the time, row and column that a token is rotated by are from its
    # index. None: not at all, as for text alone. See `model.positions`.
    shift_3T: Tensor | None = None
    shared: Shared | None = None  # in training
    _tables: dict[tuple[str, int], Any] = field(default_factory=dict, repr=False)

    @functools.cached_property
    def num_tokens(self) -> int:
        return sum(self.lengths) if self.tokens is None else self.tokens

    @property
    def num_sequences(self) -> int:
        return len(self.lengths)

    @property
    def num_prefills(self) -> int:
        return len(self.lengths) - self.num_decodes

    @property
    def device(self) -> torch.device:
        return self.starts_S1.device

    @staticmethod
    def build(
        lengths: Sequence[int],
        *,
        contexts: Sequence[int] | None = None,
        rows: Sequence[int] | None = None,
        pages: Sequence[Sequence[int]] | np.ndarray | None = None,
        page_size: int = 1,
        num_decodes: int | None = None,
        snapshots: Sequence[Snapshot] = (),
        shift_3T: np.ndarray | Tensor | None = None,
        device: torch.device | str = "cpu",
    ) -> Layout:
        """Describe a batch on the host and put it on `device`. `num_decodes` defaults to the run of leading ones
        that have a context. `pages` may be ragged lists or one array [S, M]."""
        lengths = tuple(lengths)
        contexts = tuple(contexts) if contexts is not None else (0,) * len(lengths)
        rows = tuple(rows) if rows is not None else tuple(range(len(lengths)))
        if min(lengths, default=1) < 1:
            raise ValueError("every sequence of a batch needs at least one token")
        if num_decodes is None:
            num_decodes = 0
            while num_decodes < len(lengths) and lengths[num_decodes] == 1 and contexts[num_decodes] > 0:
                num_decodes += 1
        for sequence, tokens, _ in snapshots:
            if sequence < num_decodes or not 1 <= tokens <= lengths[sequence]:
                raise ValueError(
                    f"a snapshot after {tokens} tokens of sequence {sequence} is not inside a prefill piece"
                )

        length_S = np.asarray(lengths, dtype=np.int32)
        context_S = np.asarray(contexts, dtype=np.int32)
        starts = np.concatenate([[0], np.cumsum(length_S)]).astype(np.int32)
        positions = np.arange(starts[-1], dtype=np.int64) + np.repeat(context_S - starts[:-1], length_S)
        table = _page_table(pages, len(lengths))
        slots = np.empty(0, dtype=np.int64)
        if pages is not None:
            owner = np.repeat(np.arange(len(lengths)), length_S)
            slots = table[owner, positions // page_size].astype(np.int64) * page_size + positions % page_size
        starts_S1, there_S, rows_S, pages_SM, slots_T, positions_T = upload(
            [starts, context_S, np.asarray(rows, dtype=np.int32), table, slots, positions], device
        )
        if isinstance(shift_3T, np.ndarray):
            (shift_3T,) = upload([shift_3T], device)
        return Layout(
            lengths=lengths,
            contexts=contexts,
            rows=rows,
            num_decodes=num_decodes,
            page_size=page_size,
            starts_S1=starts_S1,
            context_S=there_S,
            rows_S=rows_S,
            pages_SM=pages_SM,
            slots_T=slots_T,
            positions_T=positions_T,
            snapshots=tuple(sorted(snapshots)),
            shift_3T=shift_3T,
        )

    @functools.cached_property
    def prefill_part(self) -> Layout:
        """The same batch without its leading decodes."""
        d = self.num_decodes
        if d == 0:
            return self
        return replace(
            self,
            lengths=self.lengths[d:],
            contexts=self.contexts[d:],
            rows=self.rows[d:],
            num_decodes=0,
            starts_S1=self.starts_S1[d:] - d,
            context_S=self.context_S[d:],
            rows_S=self.rows_S[d:],
            pages_SM=self.pages_SM[d:],
            slots_T=self.slots_T[d:],
            positions_T=self.positions_T[d:],
            snapshots=tuple(Snapshot(s - d, tokens, row) for s, tokens, row in self.snapshots),
            shift_3T=self.shift_3T[:, d:] if self.shift_3T is not None else None,
            _tables={},
        )

    @property
    def ends(self) -> list[Snapshot]:
        """Every point where the recurrent memory is written: snapshots, and each sequence's end into its own row."""
        own = [Snapshot(s, n, row) for s, (n, row) in enumerate(zip(self.lengths, self.rows, strict=True))]
        return sorted([*self.snapshots, *own], key=lambda end: (end.sequence, end.tokens))

    def chunks(self, size: int) -> Chunks:
        """Cut every sequence of this batch into chunks of `size`; computed once and shared by all layers."""
        return self._table("chunks", size, self._cut)

    def rounds(self, size: int) -> list[Round]:
        """The chunks of `size` as rounds: first chunks, second chunks, ..."""
        return self._table("rounds", size, self._round)

    def tiles(self, size: int) -> Tensor:
        """The prefill pieces cut into tiles of at most `size` tokens, what one program of a kernel works on.
        int32 [4, tiles]: the sequence, the tile's first token counted from the sequence's start, that start in the
        batch, and the sequence's length; all it takes to begin, in one look-up."""
        return self._table("tiles", size, self._tile)

    def places(self, length: int) -> Tensor:
        """Where each token sits when every sequence is filled up to `length`."""
        return self._table("places", length, self._place)

    def spans(self, size: int) -> Tensor:
        """Like `tiles`, but cut at snapshots as well, int32 [2, spans]: first token of the batch, number of tokens."""
        return self._table("spans", size, self._span)

    @property
    def marks(self) -> Marks:
        """The snapshots as device tables."""
        return self._table("marks", 0, self._mark)

    @property
    def tables(self) -> tuple[tuple[str, int], ...]:
        """The tables that have been asked for so far, by name and size."""
        return tuple(self._tables)

    def _table(self, name: str, size: int, make: Callable[[int], Any]) -> Any:
        if (name, size) not in self._tables:
            self._tables[name, size] = make(size)
        return self._tables[name, size]

    def _tile(self, size: int) -> Tensor:
        return upload([tile_table(self.lengths, self.num_decodes, size, self.tokens)], self.device)[0]

    def _place(self, length: int) -> Tensor:
        starts = np.cumsum(self.lengths) - self.lengths
        shift = np.arange(len(self.lengths)) * length - starts
        place = np.arange(self.num_tokens) + np.repeat(shift, self.lengths)
        return upload([place.astype(np.int64)], self.device)[0]

    def _span(self, size: int) -> Tensor:
        table = span_table(self.lengths, self.num_decodes, size, self.tokens, self.ends if self.snapshots else None)
        return upload([table], self.device)[0]

    def _mark(self, _: int) -> Marks:
        return Marks(*upload(mark_tables(self.snapshots, self.num_sequences), self.device))

    def _pieces(self, size: int) -> tuple[np.ndarray, ...]:
        """For every end: its sequence, its row, whether it is the first of its sequence, the tokens since the end
        before, and how many chunks they are cut into."""
        ends = np.asarray(self.ends, dtype=np.int64).reshape(-1, 3)
        sequence_e, tokens_e, row_e = ends.T
        new_e = np.diff(sequence_e, prepend=-1) != 0
        length_e = tokens_e - np.where(new_e, 0, np.roll(tokens_e, 1))
        return sequence_e, row_e, new_e, length_e, -(-length_e // size)

    def _round(self, size: int) -> list[Round]:
        sequence_e, row_e, _, _, count_e = self._pieces(size)
        count_S = np.bincount(sequence_e, count_e, self.num_sequences).astype(np.int64)
        first_S = np.cumsum(count_S) - count_S
        last_e = np.cumsum(count_e) - first_S[sequence_e] - 1  # the round after which an end is due
        rounds = []
        before = np.arange(self.num_sequences)
        for n in range(int(count_S.max())):
            here = np.flatnonzero(count_S > n)
            due = np.flatnonzero(last_e == n)
            chunk, stay, state, row = upload(
                [
                    first_S[here] + n,
                    np.searchsorted(before, here),
                    np.searchsorted(here, sequence_e[due]),
                    row_e[due],
                ],
                self.device,
            )
            rounds.append(Round(chunk, None if len(here) == len(before) else stay, state, row))
            before = here
        return rounds

    def _cut(self, size: int) -> Chunks:
        sequence_e, row_e, new_e, length_e, count_e = self._pieces(size)
        after_e = np.cumsum(count_e)
        before_e, start_e = after_e - count_e, np.cumsum(length_e) - length_e
        place_T = np.arange(self.num_tokens) + np.repeat(before_e * size - start_e, length_e)
        place, sequence_c, first_S, sequence, after, row = upload(
            [place_T, np.repeat(sequence_e, count_e), before_e[new_e], sequence_e, after_e, row_e], self.device
        )
        return Chunks(
            count=int(count_e.sum()),
            size=size,
            place_T=place,
            sequence_c=sequence_c,
            first_S=first_S,
            sequence_e=sequence,
            after_e=after,
            row_e=row,
            dense=not (length_e % size).any(),
        )


def tile_table(lengths: Sequence[int], num_decodes: int, size: int, tokens: int | None = None) -> np.ndarray:
    """See `Layout.tiles`. Filled up with tiles of no tokens, if a number of tokens is given."""
    length_P = np.asarray(lengths[num_decodes:], dtype=np.int32)
    count_P = -(-length_P // size)
    sequence = np.repeat(np.arange(len(length_P), dtype=np.int32), count_P)
    first = np.cumsum(count_P) - count_P
    begin = (np.arange(len(sequence)) - first[sequence]) * size
    start_P = num_decodes + np.cumsum(length_P) - length_P
    table = np.stack([sequence + num_decodes, begin, start_P[sequence], length_P[sequence]]).astype(np.int32)
    return table if tokens is None else _filled(table, (tokens - num_decodes) // size + len(length_P))


def span_table(
    lengths: Sequence[int],
    num_decodes: int,
    size: int,
    tokens: int | None = None,
    ends: Sequence[Snapshot] | None = None,
) -> np.ndarray:
    """See `Layout.spans`. `ends`: where sequences are cut, other than at their own ends."""
    start_S = np.concatenate([[0], np.cumsum(lengths)])
    if ends is None:
        after = start_S[num_decodes + 1 :]
    else:
        after = np.asarray([start_S[s] + n for s, n, _ in ends if s >= num_decodes], dtype=np.int64)
    first = np.concatenate([[num_decodes], after[:-1]])
    count = -(-(after - first) // size)
    piece = np.repeat(np.arange(len(after)), count)
    begin = first[piece] + (np.arange(len(piece)) - (np.cumsum(count) - count)[piece]) * size
    table = np.stack([begin, np.minimum(after[piece] - begin, size)]).astype(np.int32)
    return table if tokens is None else _filled(table, (tokens - num_decodes) // size + len(after))


def mark_tables(snapshots: Sequence[Snapshot], sequences: int) -> list[np.ndarray]:
    """See `Marks`."""
    table = np.asarray(snapshots, dtype=np.int32).reshape(-1, 3)
    first = np.searchsorted(table[:, 0], np.arange(sequences + 1)).astype(np.int32)
    return [first, table[:, 1], table[:, 2]]


def _filled(table: np.ndarray, width: int) -> np.ndarray:
    """With columns of zeros."""
    filled = np.zeros((len(table), width), table.dtype)
    filled[:, : table.shape[1]] = table
    return filled


def _page_table(pages: Sequence[Sequence[int]] | np.ndarray | None, sequences: int) -> np.ndarray:
    if pages is None:
        return np.zeros((0, 0), dtype=np.int32)
    if isinstance(pages, np.ndarray):
        return pages.astype(np.int32, copy=False)
    table = np.zeros((sequences, max((len(row) for row in pages), default=0)), dtype=np.int32)
    for s, row in enumerate(pages):
        table[s, : len(row)] = row
    return table


def upload(arrays: Sequence[np.ndarray], device: torch.device | str) -> list[Tensor]:
    """Arrays of any types in one copy to the device, which does not wait for it."""
    device = torch.device(device)
    if device.type == "cpu":
        return [torch.from_numpy(array.copy()) for array in arrays]
    host, places = pack(arrays, pinned=device.type == "cuda")
    return unpack(host.to(device, non_blocking=True), arrays, places)


def pack(arrays: Sequence[np.ndarray], *, pinned: bool) -> tuple[Tensor, list[int]]:
    """Arrays end to end as bytes, each at an address that wide loads can use; and where each begins."""
    places, size = [], 0
    for array in arrays:
        places.append(size)
        size += -(-array.nbytes // 16) * 16
    host = torch.empty(size, dtype=torch.uint8, pin_memory=pinned)
    flat = host.numpy()
    for array, at in zip(arrays, places, strict=True):
        flat[at : at + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return host, places


def unpack(there: Tensor, arrays: Sequence[np.ndarray], places: Sequence[int]) -> list[Tensor]:
    """Views of packed bytes as what they were."""
    return [
        there[at : at + array.nbytes].view(_DTYPES[array.dtype]).view(array.shape)
        for array, at in zip(arrays, places, strict=True)
    ]


_DTYPES = {np.dtype(name): getattr(torch, name) for name in ("int32", "int64", "float32", "float64")}
