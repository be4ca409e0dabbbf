"""Decode iterations as captured graphs (`capture`): launched in one call instead of some five hundred.

Every batch size (of a few, the batch is filled up) has its own inputs at fixed addresses; a run writes them in one copy
and replays. An iteration that is the last one again needs not even that: its inputs are moved on where they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from holotron.engine.batch import Batch, advance_inputs, fed_back
from holotron.engine.capture import Captured, Recorder
from holotron.engine.pools import Pools
from holotron.kernels.dispatch import use_triton
from holotron.kernels.layout import Layout, pack, unpack
from holotron.model.model import Holotron


def bucket_sizes(most: int) -> list[int]:
    """The batch sizes decodes are filled up to: every eighth or sixteenth, and the largest there can be."""
    steps = [1, 2, 4, 8, 16, 24, 32, 48, 64, 80, 96, *range(128, most, 32)]
    return [size for size in steps if size < most] + [most]


@torch.no_grad()  # as the engine runs it: weights that could learn make no difference
def capturable(model: Holotron, pools: Pools) -> bool:
    """Whether every kernel of an iteration reads its inputs on the device alone: ours do, the torch references look at
    the host's copies, or (that of experts) ask the device which ones to run. Prompts of Gated DeltaNet have a kernel in
    16 bits alone (`kernels.delta`), see `prompt_graphs`."""
    decoder = model.config.decoder
    if not use_triton(model.language_model.backbone.embeddings.weight):
        return False
    from holotron.kernels.attention import triton as attention
    from holotron.kernels.conv.triton import TAPS
    from holotron.kernels.delta import triton as delta
    from holotron.kernels.scan import triton as scan

    if decoder.mamba is not None and not (decoder.mamba.kernel == TAPS and scan.supported(decoder.mamba.state)):
        return False
    if decoder.delta is not None and not (
        decoder.delta.kernel == TAPS and delta.supported(decoder.delta.key_dim, decoder.delta.value_dim)
    ):
        return False
    if decoder.attention is None:
        return True
    query = torch.empty(0, decoder.attention.heads, decoder.attention.head_dim, dtype=model.dtype, device=model.device)
    return attention.supported(query, pools.cache.kv_ZL2zkD)


@dataclass(slots=True)
class Size:
    """Of one batch size: its inputs, the network on them, and what moves them on by a token."""

    inputs: Tensor
    network: Captured
    advance: Captured


class Graphs:
    def __init__(self, model: Holotron, pools: Pools, sampled: Tensor) -> None:
        self._model = model
        self._pools = pools
        self._sampled = sampled
        self._sizes: dict[int, Size] = {}
        self._recorder = Recorder(model.device)

    def run(self, batch: Batch) -> Tensor:
        """Final vectors [S, D] of a filled-up batch of decodes."""
        arrays = [batch.context_S, batch.row_S, batch.table_SM, batch.slot_T, batch.position_T, batch.id_T]
        arrays += [batch.source_D] if batch.shift_3T is None else [batch.source_D, batch.shift_3T]
        host, places = pack(arrays, pinned=self._model.device.type == "cuda")
        known = self._sizes.get(batch.decodes)
        if known is None:
            inputs = host.to(self._model.device, non_blocking=True)
            known = self._sizes[batch.decodes] = self._size(inputs, unpack(inputs, arrays, places))
        else:
            known.inputs.copy_(host, non_blocking=True)
        return known.network()

    def again(self, decodes: int) -> Tensor:
        """The same for the batch of the last run, which had this size, with every sequence one token further."""
        known = self._sizes[decodes]
        known.advance()
        return known.network()

    def clear(self) -> None:
        self._recorder.clear()
        self._sizes.clear()

    @property
    def captured(self) -> list[int]:
        return [number for number, size in self._sizes.items() if size.network.capture is not None]

    def _size(self, inputs: Tensor, tensors: list[Tensor]) -> Size:
        context, row, table, slot, position, ids, source, *shifts = tensors
        size = len(row)
        layout = Layout(
            lengths=(1,) * size,
            contexts=(1,) * size,  # kernels look at the device's copy
            rows=(0,) * size,
            num_decodes=size,
            page_size=self._pools.page_size,
            starts_S1=torch.arange(size + 1, dtype=torch.int32, device=row.device),
            context_S=context,
            rows_S=row,
            pages_SM=table,
            slots_T=slot,
            positions_T=position,
            shift_3T=shifts[0] if shifts else None,  # moving on by a token changes none
        )
        decoder = self._model.language_model

        def compute() -> Tensor:
            return decoder(decoder.embed(fed_back(ids, source, self._sampled)), layout, self._pools.cache)

        def advance() -> Tensor:
            advance_inputs(context, table, slot, position, source, self._pools.page_size)
            return inputs

        return Size(inputs, Captured(compute, self._recorder), Captured(advance, self._recorder))
