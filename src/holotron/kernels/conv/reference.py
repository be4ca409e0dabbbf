"""Causal depthwise convolution in torch.

Legend: T tokens, S sequences, R state rows, C channels, K taps. The memory is stored oldest first, [R, K-1, C].
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from holotron.kernels.layout import Layout


def causal_conv(
    x_TC: Tensor, weight_CK: Tensor, bias_C: Tensor | None, state_RKC: Tensor | None, layout: Layout
) -> Tensor:
    """silu(bias + sum_k weight[k] * x[t-K+1+k]); inputs before a sequence's first token come from `state_RKC`, which
    is updated in place (and copied to the rows of snapshots). Without a state they are zero and nothing is kept."""
    if state_RKC is None:
        return _stateless(x_TC, weight_CK, bias_C, layout)
    d = layout.num_decodes
    if d == layout.num_sequences:
        return _decode(x_TC, weight_CK, bias_C, state_RKC, layout)
    if d == 0:
        return _prefill(x_TC, weight_CK, bias_C, state_RKC, layout)
    return torch.cat(
        [
            _decode(x_TC[:d], weight_CK, bias_C, state_RKC, layout),
            _prefill(x_TC[d:], weight_CK, bias_C, state_RKC, layout.prefill_part),
        ]
    )


def _decode(x_BC: Tensor, weight_CK: Tensor, bias_C: Tensor | None, state_RKC: Tensor, layout: Layout) -> Tensor:
    rows = layout.rows_S[: x_BC.shape[0]]
    window_BKC = torch.cat([state_RKC[rows], x_BC[:, None]], dim=1)
    y_BC = (window_BKC * weight_CK.T).sum(dim=1)
    if bias_C is not None:
        y_BC = y_BC + bias_C
    state_RKC[rows] = window_BKC[:, 1:]
    return F.silu(y_BC)


def _stateless(x_TC: Tensor, weight_CK: Tensor, bias_C: Tensor | None, layout: Layout) -> Tensor:
    """Every sequence from its start, as in training: the whole row is shifted at once, and what a shift brings over
    from the sequence before is blanked."""
    taps = weight_CK.shape[1]
    y = None
    for k in range(taps):
        back = taps - 1 - k
        shifted = x_TC
        if back:
            shifted = F.pad(x_TC, (0, 0, back, 0))[: x_TC.shape[0]]
            shifted = shifted * (layout.positions_T >= back)[:, None]
        y = shifted * weight_CK[:, k] if y is None else torch.addcmul(y, shifted, weight_CK[:, k])
    assert y is not None
    return F.silu(y if bias_C is None else y + bias_C)


def _prefill(x_TC: Tensor, weight_CK: Tensor, bias_C: Tensor | None, state_RKC: Tensor, layout: Layout) -> Tensor:
    taps = weight_CK.shape[1]
    memory = taps - 1
    # One long row in which every sequence is preceded by its own memory: then each tap is a shifted view of it.
    pieces: list[Tensor] = []
    for row, piece in zip(layout.rows, x_TC.split(layout.lengths), strict=True):
        pieces += [state_RKC[row], piece]
    line = torch.cat(pieces)
    count = line.shape[0] - memory
    y = line[:count] * weight_CK[:, 0]
    for k in range(1, taps):
        y = torch.addcmul(y, line[k : k + count], weight_CK[:, k])
    if bias_C is not None:
        y = y + bias_C
    if len(layout.lengths) > 1:  # drop the outputs that sit on the seams between sequences
        kept: list[Tensor] = []
        begin = 0
        for length in layout.lengths:
            kept.append(y[begin : begin + length])
            begin += length + memory
        y = torch.cat(kept)
    for sequence, tokens, row in layout.ends:
        at = sum(layout.lengths[:sequence]) + sequence * memory + tokens
        state_RKC[row] = line[at : at + memory]
    return F.silu(y)
