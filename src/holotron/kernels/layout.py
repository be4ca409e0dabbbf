"""How a packed batch of tokens maps onto sequences and their memories.

All tokens of an iteration lie in one long row, sequence after sequence, so that every matrix product sees one big matrix:

    tokens      | a | b | c | d d d d d | e e e |        T = 11, S = 5, num_decodes = 3
                  \\__ __/    \\____ ____/
                 one token   pieces of prompts
                 (decodes)   (prefill chunks)

Decodes come first. Each sequence has a *row* in the recurrent state and a list of KV *pages*; `context` tells how many
of its tokens are already remembered. Training is the same layout with no memory behind it.

Kernels for a GPU read the device tensors only (so that a captured graph can be replayed with new contents); the torch
references use the host copies, which avoids a synchronisation and keeps their Python simple.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Chunks:
    """Sequences cut into pieces of at most Q tokens that never straddle a boundary, as the scan wants them."""

    index_cQ: Tensor  # which token sits at (chunk, position); padding points at token T
    sequence_c: Tensor  # which sequence a chunk belongs to
    first_S: Tensor  # first chunk of each sequence
    after_last_S: Tensor  # one past the last chunk of each sequence
    dense: bool  # every chunk is full, so the tokens can be viewed as [chunks, Q] without a gather


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
    _chunks: dict[int, Chunks] = field(default_factory=dict, repr=False)

    @property
    def num_tokens(self) -> int:
        return sum(self.lengths)

    @property
    def num_sequences(self) -> int:
        return len(self.lengths)

    @property
    def device(self) -> torch.device:
        return self.starts_S1.device

    @staticmethod
    def build(
        lengths: Sequence[int],
        *,
        contexts: Sequence[int] | None = None,
        rows: Sequence[int] | None = None,
        pages: Sequence[Sequence[int]] | None = None,
        page_size: int = 1,
        num_decodes: int | None = None,
        device: torch.device | str = "cpu",
    ) -> Layout:
        """Describe a batch on the host and put it on `device`. `num_decodes` defaults to the run of leading ones
        that have a context."""
        lengths = tuple(lengths)
        contexts = tuple(contexts) if contexts is not None else (0,) * len(lengths)
        rows = tuple(rows) if rows is not None else tuple(range(len(lengths)))
        if min(lengths, default=1) < 1:
            raise ValueError("every sequence of a batch needs at least one token")
        if num_decodes is None:
            num_decodes = 0
            while num_decodes < len(lengths) and lengths[num_decodes] == 1 and contexts[num_decodes] > 0:
                num_decodes += 1

        starts = [0]
        positions: list[int] = []
        slots: list[int] = []
        for s, (length, context) in enumerate(zip(lengths, contexts, strict=True)):
            starts.append(starts[-1] + length)
            span = range(context, context + length)
            positions.extend(span)
            if pages is not None:
                table = pages[s]
                slots.extend(table[p // page_size] * page_size + p % page_size for p in span)
        width = max((len(table) for table in pages), default=0) if pages is not None else 0
        padded = [list(table) + [0] * (width - len(table)) for table in pages] if pages is not None else []

        def put(values: object, dtype: torch.dtype) -> Tensor:
            return torch.tensor(values, dtype=dtype).to(device, non_blocking=True)

        return Layout(
            lengths=lengths,
            contexts=contexts,
            rows=rows,
            num_decodes=num_decodes,
            page_size=page_size,
            starts_S1=put(starts, torch.int32),
            context_S=put(contexts, torch.int32),
            rows_S=put(rows, torch.int32),
            pages_SM=put(padded, torch.int32).view(len(lengths) if pages is not None else 0, width),
            slots_T=put(slots, torch.int64),
            positions_T=put(positions, torch.int64),
        )

    @functools.cached_property
    def prefill_part(self) -> Layout:
        """The same batch without its leading decodes."""
        d = self.num_decodes
        if d == 0:
            return self
        return Layout(
            lengths=self.lengths[d:],
            contexts=self.contexts[d:],
            rows=self.rows[d:],
            num_decodes=0,
            page_size=self.page_size,
            starts_S1=self.starts_S1[d:] - d,
            context_S=self.context_S[d:],
            rows_S=self.rows_S[d:],
            pages_SM=self.pages_SM[d:],
            slots_T=self.slots_T[d:],
            positions_T=self.positions_T[d:],
        )

    def chunks(self, size: int) -> Chunks:
        """Cut every sequence of this batch into chunks of `size`; computed once and shared by all layers."""
        if size not in self._chunks:
            self._chunks[size] = self._cut(size)
        return self._chunks[size]

    def _cut(self, size: int) -> Chunks:
        total = self.num_tokens
        index: list[int] = []
        sequence: list[int] = []
        first: list[int] = []
        after: list[int] = []
        start = 0
        for s, length in enumerate(self.lengths):
            first.append(len(sequence))
            for begin in range(0, length, size):
                count = min(size, length - begin)
                index.extend(range(start + begin, start + begin + count))
                index.extend([total] * (size - count))
                sequence.append(s)
            after.append(len(sequence))
            start += length
        return Chunks(
            index_cQ=torch.tensor(index, device=self.device).view(-1, size),
            sequence_c=torch.tensor(sequence, device=self.device),
            first_S=torch.tensor(first, device=self.device),
            after_last_S=torch.tensor(after, device=self.device),
            dense=all(length % size == 0 for length in self.lengths),
        )
