"""The scan on a CPU, for inference: the reference's mathematics arranged for caches instead of for matrix units.

The reference computes all chunks of a batch at once, which suits a GPU and autograd but streams every intermediate
through main memory. Here one sequence is walked chunk by chunk with its state in place: whatever a chunk needs stays in
the cache, and nothing is allocated inside the loop but a few small tensors.

Legend: as in `reference`.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from holotron.kernels.layout import Layout

CHUNK = 32  # smaller chunks exponentiate less, larger ones make fewer calls


def state_space_scan(
    x_THP: Tensor,
    dt_TH: Tensor,
    dt_bias_H: Tensor,
    A_H: Tensor,
    B_TGN: Tensor,
    C_TGN: Tensor,
    D_H: Tensor,
    state_RHPN: Tensor,
    layout: Layout,
) -> Tensor:
    dt_TH = F.softplus(dt_TH + dt_bias_H)
    y_THP = x_THP * D_H[:, None]
    d = layout.num_decodes
    if d:
        _step(x_THP[:d], dt_TH[:d], A_H, B_TGN[:d], C_TGN[:d], state_RHPN, y_THP[:d], layout.rows[:d])
    start, sequence, done = d, d, 0
    for end in layout.ends[d:]:
        if end.sequence != sequence:
            start, sequence, done = start + done, end.sequence, 0
        state = state_RHPN[layout.rows[sequence]]
        if end.tokens > done:
            piece = slice(start + done, start + end.tokens)
            _walk(x_THP[piece], dt_TH[piece], A_H, B_TGN[piece], C_TGN[piece], state, y_THP[piece])
            done = end.tokens
        if end.row != layout.rows[sequence]:
            state_RHPN[end.row] = state
    return y_THP


def _step(
    x_BHP: Tensor,
    dt_BH: Tensor,
    A_H: Tensor,
    B_BGN: Tensor,
    C_BGN: Tensor,
    state_RHPN: Tensor,
    y_BHP: Tensor,
    rows: tuple[int, ...],
) -> None:
    """One token for each of B sequences; y is added to `y_BHP`."""
    batch, heads, dim = x_BHP.shape
    groups, n = B_BGN.shape[1:]
    first = rows[0]
    run = batch == 1 or rows == tuple(range(first, first + batch))
    index = None if run else torch.tensor(rows)
    state = state_RHPN[first : first + batch] if index is None else state_RHPN.index_select(0, index)
    state.mul_(torch.exp(dt_BH * A_H).view(batch, heads, 1, 1))
    grouped = state.view(batch, groups, heads // groups * dim, n)
    grouped.addcmul_((x_BHP * dt_BH[..., None]).view(batch, groups, -1, 1), B_BGN.unsqueeze(2))
    y_BHP.add_((grouped @ C_BGN.unsqueeze(-1)).view(batch, heads, dim))
    if index is not None:
        state_RHPN.index_copy_(0, index, state)


def _walk(
    x_THP: Tensor, dt_TH: Tensor, A_H: Tensor, B_TGN: Tensor, C_TGN: Tensor, state_HPN: Tensor, y_THP: Tensor
) -> None:
    """A run of tokens of one sequence; y is added to `y_THP`, the state is moved on where it lies."""
    length, heads, dim = x_THP.shape
    groups, n = B_TGN.shape[1:]
    per_group = heads // groups
    state = state_HPN.view(groups, per_group * dim, n)
    by_head = state_HPN.view(heads, dim * n)
    input_HTP = (x_THP * dt_TH[..., None]).transpose(0, 1).contiguous()
    rate_HT = (dt_TH * A_H).T.contiguous()
    B_GTN, C_GTN = B_TGN.transpose(0, 1).contiguous(), C_TGN.transpose(0, 1).contiguous()
    y_HTP = y_THP.transpose(0, 1)
    for begin in range(0, length, CHUNK):
        end = min(begin + CHUNK, length)
        q = end - begin
        B, C, inputs = B_GTN[:, begin:end], C_GTN[:, begin:end], input_HTP[:, begin:end]
        decay = rate_HT[:, begin:end].cumsum(-1)  # logarithm, from the chunk's start up to and with each token
        # Decay from u to t. Above the diagonal it would exceed one; there the product with C B^T is zero anyway.
        mix = (decay[:, :, None] - decay[:, None, :]).clamp_max_(0).exp_()
        mix.view(groups, per_group, q, q).mul_((C @ B.mT).tril_()[:, None])
        y = torch.bmm(mix, inputs)
        carried = (C @ state.mT).view(groups, q, per_group, dim).transpose(1, 2).reshape(heads, q, dim)
        y_HTP[:, begin:end] += y.addcmul_(carried, decay.exp()[..., None])
        last = decay[:, -1:]
        by_head.mul_(last.exp())
        late = (inputs * torch.exp(last - decay)[..., None]).view(groups, per_group, q, dim)
        state.baddbmm_(late.transpose(2, 3).reshape(groups, per_group * dim, q), B)
