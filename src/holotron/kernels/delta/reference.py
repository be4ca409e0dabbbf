"""The gated delta rule in torch (Gated DeltaNet).

Per head, a matrix S maps keys to values. Every token first lets it fade, then corrects what it says about the token's
key, by the share beta of the error:

    S_t = exp(g_t) S_{t-1} + beta_t (v_t - exp(g_t) S_{t-1} k_t) k_t^T,      y_t = S_t q_t

with g = A softplus(a + dt_bias), beta = sigmoid(b), and queries and keys of length one (queries divided by sqrt(K)).

One token per sequence is computed as written. Longer pieces are cut into chunks of Q tokens. With s_t the sum of g from
the chunk's start and S the state before it, the corrections n of a chunk solve a triangular system (the UT transform):

    n_t + beta_t sum_{u<t} exp(s_t - s_u) (k_t . k_u) n_u = beta_t (v_t - exp(s_t) S k_t)
    y_t = exp(s_t) S q_t + sum_{u<=t} exp(s_t - s_u) (q_t . k_u) n_u
    S  <- exp(s_Q) S + sum_u exp(s_Q - s_u) n_u k_u^T

Legend: T tokens, S sequences, R state rows, c chunks, Q chunk length, G key heads, H value heads (a multiple of G:
neighbours share a key head), K key dim, V value dim.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from holotron.kernels.layout import Layout, Round

EPS = 1e-6  # under the root of a query's or key's length, as every published implementation has it


def gated_delta_rule(
    q_TGK: Tensor,
    k_TGK: Tensor,
    v_THV: Tensor,
    a_TH: Tensor,
    dt_bias_H: Tensor,
    A_H: Tensor,
    b_TH: Tensor,
    state_RHVK: Tensor | None,
    layout: Layout,
    chunk: int = 64,
) -> Tensor:
    """Run the rule for a packed batch; `state_RHVK` (fp32 or wider) is read and updated in place at the batch's rows.
    Snapshots named in the layout are written to their rows.

    Everything is raw, as it leaves the projections and the convolution: lengths, softplus and sigmoid are taken here,
    in at least fp32. `A` is negative.
    """
    dtype = torch.promote_types(v_THV.dtype, torch.float32)
    per_key = v_THV.shape[1] // k_TGK.shape[1]
    q = unit(q_TGK.to(dtype)) * q_TGK.shape[-1] ** -0.5
    k = unit(k_TGK.to(dtype))
    q, k = (t.repeat_interleave(per_key, 1) for t in (q, k))  # T H K
    g = A_H.to(dtype) * F.softplus(a_TH.to(dtype) + dt_bias_H.to(dtype))
    v, beta = v_THV.to(dtype), b_TH.to(dtype).sigmoid()
    d = layout.num_decodes
    if d == 0:
        return _chunked(q, k, v, g, beta, state_RHVK, layout, chunk).to(v_THV.dtype)
    assert state_RHVK is not None, "a decode needs a state"
    y = _recurrent(q[:d], k[:d], v[:d], g[:d], beta[:d], state_RHVK, layout.rows_S[:d].long())
    if d < layout.num_sequences:
        tail = _chunked(q[d:], k[d:], v[d:], g[d:], beta[d:], state_RHVK, layout.prefill_part, chunk)
        y = torch.cat([y, tail])
    return y.to(v_THV.dtype)


def unit(x: Tensor) -> Tensor:
    """x / |x| over the last dimension."""
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + EPS)


def _recurrent(
    q_BHK: Tensor, k_BHK: Tensor, v_BHV: Tensor, g_BH: Tensor, beta_BH: Tensor, state_RHVK: Tensor, rows_B: Tensor
) -> Tensor:
    """One token for each of B sequences."""
    state = state_RHVK[rows_B].to(v_BHV.dtype) * g_BH.exp()[..., None, None]
    known = (state @ k_BHK[..., None])[..., 0]
    state = state + (beta_BH[..., None] * (v_BHV - known))[..., None] * k_BHK[:, :, None]
    state_RHVK[rows_B] = state.to(state_RHVK.dtype)
    return (state @ q_BHK[..., None])[..., 0]


def _chunked(
    q_THK: Tensor,
    k_THK: Tensor,
    v_THV: Tensor,
    g_TH: Tensor,
    beta_TH: Tensor,
    state_RHVK: Tensor | None,
    layout: Layout,
    chunk: int,
) -> Tensor:
    cuts = layout.chunks(min(chunk, max(layout.lengths)))

    def to_chunks(t: Tensor) -> Tensor:
        """[T, H, ...] to [c, H, Q, ...]; zeros as padding change nothing: no decay, no correction."""
        if not cuts.dense:
            t = t.new_zeros(cuts.count * cuts.size, *t.shape[1:]).index_copy(0, cuts.place_T, t)
        return t.unflatten(0, (cuts.count, cuts.size)).transpose(1, 2)

    q, k, v, beta = (to_chunks(t) for t in (q_THK, k_THK, v_THV, beta_TH))
    upto = to_chunks(g_TH).cumsum(-1)  # s, c H Q
    causal = torch.ones(cuts.size, cuts.size, dtype=torch.bool, device=q.device).tril_()
    decay = (upto[..., :, None] - upto[..., None, :]).masked_fill(~causal, -torch.inf).exp()
    system = (beta[..., None] * (k @ k.mT) * decay).tril(-1)
    # Solved for both right-hand sides at once: what the values ask for, and what the state before takes off again.
    sides = torch.cat([v, k * upto.exp()[..., None]], dim=-1) * beta[..., None]
    wanted, known = torch.linalg.solve_triangular(system, sides, upper=False, unitriangular=True).split(
        [v.shape[-1], k.shape[-1]], dim=-1
    )
    mix = (q @ k.mT) * decay
    q = q * upto.exp()[..., None]
    k = k * (upto[..., -1:] - upto).exp()[..., None]
    over = upto[..., -1].exp()[..., None, None]

    if state_RHVK is None:
        state = v.new_zeros(layout.num_sequences, v.shape[1], v.shape[-1], k.shape[-1])
    else:
        state = state_RHVK[layout.rows_S].to(v.dtype)
    outputs = []
    for turn in layout.rounds(cuts.size):
        state = _still_there(state, turn)
        c = turn.chunk_s
        new = wanted[c] - known[c] @ state.mT
        outputs.append(q[c] @ state.mT + mix[c] @ new)
        state = state * over[c] + new.mT @ k[c]
        if state_RHVK is not None and len(turn.row_e):
            state_RHVK[turn.row_e] = state[turn.state_e].to(state_RHVK.dtype)
    order = torch.cat([turn.chunk_s for turn in layout.rounds(cuts.size)])
    y = torch.cat(outputs).index_select(0, order.argsort())  # c H Q V
    return y.transpose(1, 2).flatten(0, 1).index_select(0, cuts.place_T)


def _still_there(state_SHVK: Tensor, turn: Round) -> Tensor:
    """The states of the sequences that have another chunk."""
    return state_SHVK if turn.stay_s is None else state_SHVK[turn.stay_s]
