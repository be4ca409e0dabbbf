"""Decoding without writing the state at every step (the idea of ReplaySSM): storage and torch reference.

A decode step reads a state and writes it back, and that is most of what it does. But the state of the last token
follows from an older state and the few inputs since, which are a hundred times smaller:

    S_now = decay(0..now) S_0 + sum_i decay(i..now) dt_i x_i B_i^T

so the inputs of up to W-1 tokens are kept in a ring beside the state, each step computes its output from the old state
and the ring, and only every W-th step writes a state. Values are the same up to fp32 rounding; traffic nearly halves.

Whoever needs the state itself (a prompt piece, a copy, a swap to the host) calls `flush` for those rows first.
`count_R` tells how many tokens each row holds in the ring; all layers of a row hold the same tokens, so it exists once
and moves on (`advance`) once per step, after the last layer.

Legend: R rows, L layers, W depth of the ring, H heads, P head dim, G groups, N state size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

DEPTH = 16


class Ring(NamedTuple):
    """The ring of one layer."""

    x_RWHP: Tensor
    B_RWGN: Tensor
    dt_RWH: Tensor  # fp32, after softplus
    decay_RWH: Tensor  # fp32, dt * A
    count_R: Tensor  # int32


@dataclass(frozen=True, eq=False)
class Replay:
    x_RLWHP: Tensor
    B_RLWGN: Tensor
    dt_RLWH: Tensor
    decay_RLWH: Tensor
    count_R: Tensor

    @staticmethod
    def allocate(
        *,
        rows: int,
        layers: int,
        heads: int,
        head_dim: int,
        groups: int,
        state: int,
        dtype: torch.dtype,
        device: torch.device | str,
        depth: int = DEPTH,
    ) -> Replay:
        def zeros(*shape: int, kind: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(shape, dtype=kind, device=device)

        return Replay(
            zeros(rows, layers, depth, heads, head_dim, kind=dtype),
            zeros(rows, layers, depth, groups, state, kind=dtype),
            zeros(rows, layers, depth, heads),
            zeros(rows, layers, depth, heads),
            zeros(rows, kind=torch.int32),
        )

    @property
    def depth(self) -> int:
        return self.x_RLWHP.shape[2]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return (self.x_RLWHP, self.B_RLWGN, self.dt_RLWH, self.decay_RLWH, self.count_R)

    @property
    def nbytes(self) -> int:
        return sum(t.nbytes for t in self.tensors)

    def layer(self, i: int) -> Ring:
        return Ring(self.x_RLWHP[:, i], self.B_RLWGN[:, i], self.dt_RLWH[:, i], self.decay_RLWH[:, i], self.count_R)

    def advance(self, rows_S: Tensor) -> None:
        """One more token in these rows (no host synchronisation, so a captured graph can hold it)."""
        rows = rows_S.long()
        self.count_R[rows] = (self.count_R[rows] + 1) % self.depth


def step(
    x_BHP: Tensor,
    dt_BH: Tensor,
    dt_bias_H: Tensor,
    A_H: Tensor,
    B_BGN: Tensor,
    C_BGN: Tensor,
    D_H: Tensor,
    state_RHPN: Tensor,
    ring: Ring,
    rows_B: Tensor,
) -> Tensor:
    """One token for each of B sequences: their outputs. States are written where the ring is full, else the ring."""
    dtype = torch.promote_types(x_BHP.dtype, torch.float32)
    rows, count = rows_B.long(), ring.count_R[rows_B.long()]
    heads_per_group = x_BHP.shape[1] // B_BGN.shape[1]
    x = x_BHP.to(dtype)
    B, C = (t.to(dtype).repeat_interleave(heads_per_group, 1) for t in (B_BGN, C_BGN))
    dt = F.softplus(dt_BH.to(dtype) + dt_bias_H.to(dtype))
    decay = dt * A_H.to(dtype)
    state = _caught_up(state_RHPN[rows].to(dtype), ring, rows)
    state = state * decay.exp()[..., None, None] + (x * dt[..., None])[..., None] * B[:, :, None]
    y = (state @ C[..., None])[..., 0] + D_H.to(dtype)[:, None] * x
    full = count == ring.x_RWHP.shape[1] - 1
    state_RHPN[rows[full]] = state[full].to(state_RHPN.dtype)
    keep, place = rows[~full], count[~full].long()
    ring.x_RWHP[keep, place] = x_BHP[~full].to(ring.x_RWHP.dtype)
    ring.B_RWGN[keep, place] = B_BGN[~full].to(ring.B_RWGN.dtype)
    ring.dt_RWH[keep, place] = dt[~full].to(ring.dt_RWH.dtype)
    ring.decay_RWH[keep, place] = decay[~full].to(ring.decay_RWH.dtype)
    return y.to(x_BHP.dtype)


def flush(state_RLHPN: Tensor, replay: Replay, rows_S: Tensor) -> None:
    """Bring the states of these rows up to date in all layers and empty their rings."""
    rows = rows_S.long()
    for layer in range(state_RLHPN.shape[1]):
        state = state_RLHPN[:, layer]
        wide = state[rows].to(torch.promote_types(state.dtype, torch.float32))
        state[rows] = _caught_up(wide, replay.layer(layer), rows).to(state.dtype)
    replay.count_R[rows] = 0


def _caught_up(state_BHPN: Tensor, ring: Ring, rows_B: Tensor) -> Tensor:
    """The states after the tokens in the ring."""
    heads_per_group = state_BHPN.shape[1] // ring.B_RWGN.shape[2]
    for w in range(ring.x_RWHP.shape[1] - 1):
        held = (w < ring.count_R[rows_B])[:, None]
        x, dt = ring.x_RWHP[rows_B, w].to(state_BHPN.dtype), ring.dt_RWH[rows_B, w] * held
        B = ring.B_RWGN[rows_B, w].to(state_BHPN.dtype).repeat_interleave(heads_per_group, 1)
        decay = torch.exp(ring.decay_RWH[rows_B, w] * held)
        state_BHPN = state_BHPN * decay[..., None, None] + (x * dt[..., None])[..., None] * B[:, :, None]
    return state_BHPN
