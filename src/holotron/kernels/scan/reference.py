"""The Mamba-2 scan in torch (state-space duality).

Per head, with a scalar decay per token:   S_t = exp(dt_t A) S_{t-1} + dt_t x_t B_t^T,   y_t = S_t C_t + D x_t.

One token per sequence is computed as written. Longer pieces are cut into chunks of Q tokens: inside a chunk the
recurrence unrolls into a masked matrix product (like attention with decay instead of softmax), and between chunks only
the states travel. Both give the same numbers up to rounding.

Legend: T tokens, S sequences, R state rows, c chunks, Q chunk length, G groups, h heads per group, H = G*h heads,
P head dim, N state size. Heads of a group are neighbours and share B and C.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from holotron.kernels.buckets import Bucket, buckets
from holotron.kernels.layout import Chunks, Layout
from holotron.kernels.scan import replay
from holotron.kernels.scan.replay import Ring


def state_space_scan(
    x_THP: Tensor,
    dt_TH: Tensor,
    dt_bias_H: Tensor,
    A_H: Tensor,
    B_TGN: Tensor,
    C_TGN: Tensor,
    D_H: Tensor,
    state_RHPN: Tensor | None,
    layout: Layout,
    chunk: int = 128,
    ring: Ring | None = None,
) -> Tensor:
    """Run the scan for a packed batch; `state_RHPN` (fp32 or wider) is read and updated in place at the batch's rows.
    Snapshots named in the layout are written to their rows.

    `dt` is raw: softplus(dt + dt_bias) is applied here, in at least fp32 and without a clamp. `A` is negative.
    """
    dtype = torch.promote_types(x_THP.dtype, torch.float32)
    dt = F.softplus(dt_TH.to(dtype) + dt_bias_H.to(dtype))
    A, D = A_H.to(dtype), D_H.to(dtype)
    d = layout.num_decodes
    if d == 0:
        return _chunked(x_THP, dt, A, B_TGN, C_TGN, D, state_RHPN, layout, chunk)
    assert state_RHPN is not None, "a decode needs a state"
    if ring is None:
        y = _recurrent(x_THP[:d], dt[:d], A, B_TGN[:d], C_TGN[:d], D, state_RHPN, layout.rows[:d])
    else:
        y = replay.step(
            x_THP[:d], dt_TH[:d], dt_bias_H, A, B_TGN[:d], C_TGN[:d], D, state_RHPN, ring, layout.rows_S[:d]
        )
    if d == layout.num_sequences:
        return y
    rest = layout.prefill_part
    tail = _chunked(x_THP[d:], dt[d:], A, B_TGN[d:], C_TGN[d:], D, state_RHPN, rest, chunk)
    return torch.cat([y, tail])


def _recurrent(
    x_BHP: Tensor,
    dt_BH: Tensor,
    A_H: Tensor,
    B_BGN: Tensor,
    C_BGN: Tensor,
    D_H: Tensor,
    state_RHPN: Tensor,
    rows: tuple[int, ...],
) -> Tensor:
    """One token for each of B sequences."""
    batch, heads, head_dim = x_BHP.shape
    groups = B_BGN.shape[1]
    dtype = dt_BH.dtype
    # A contiguous run of rows is updated where it lies; scattered rows are gathered and put back.
    run = rows == tuple(range(rows[0], rows[0] + batch))
    index = None if run else torch.tensor(rows, device=x_BHP.device)
    S = state_RHPN[rows[0] : rows[0] + batch] if index is None else state_RHPN[index]
    work = S if S.dtype == dtype else S.to(dtype)  # a 16-bit state is widened for the arithmetic

    x = x_BHP.to(dtype)
    work = work.mul_(torch.exp(dt_BH * A_H)[:, :, None, None])
    grouped = work.unflatten(1, (groups, -1))  # B G h P N
    inputs = (x * dt_BH[..., None]).unflatten(1, (groups, -1))
    grouped.addcmul_(inputs[..., None], B_BGN.to(dtype)[:, :, None, None, :])
    y = (grouped.flatten(2, 3) @ C_BGN.to(dtype)[..., None]).view(batch, heads, head_dim)
    if index is not None:
        state_RHPN[index] = work.to(state_RHPN.dtype)
    elif work is not S:
        S.copy_(work)
    return torch.addcmul(y, x, D_H[:, None]).to(x_BHP.dtype)


def _chunked(
    x_THP: Tensor,
    dt_TH: Tensor,
    A_H: Tensor,
    B_TGN: Tensor,
    C_TGN: Tensor,
    D_H: Tensor,
    state_RHPN: Tensor | None,
    layout: Layout,
    chunk: int,
) -> Tensor:
    groups, n = B_TGN.shape[1:]
    heads, head_dim = x_THP.shape[1:]
    dtype = dt_TH.dtype
    cuts = layout.chunks(min(chunk, max(layout.lengths)))

    def to_chunks(t: Tensor) -> Tensor:
        if not cuts.dense:
            t = t.new_zeros(cuts.count * cuts.size, *t.shape[1:]).index_copy(0, cuts.place_T, t)
        return t.unflatten(0, (cuts.count, cuts.size))

    x = to_chunks(x_THP.to(dtype)).unflatten(2, (groups, -1))  # c Q G h P
    B = to_chunks(B_TGN.to(dtype)).transpose(1, 2)  # c G Q N
    C = to_chunks(C_TGN.to(dtype)).transpose(1, 2)
    dt = to_chunks(dt_TH).transpose(1, 2)  # c H Q; zero on padding: decay 1, no input
    log_decay = torch.cumsum(dt * A_H[:, None], dim=-1)  # from the chunk's start, inclusive
    inputs = (x * dt.transpose(1, 2).unflatten(2, (groups, -1))[..., None]).permute(0, 2, 3, 1, 4)  # c G h Q P

    # Inside each chunk.
    gap = log_decay[..., :, None] - log_decay[..., None, :]  # c H Q Q
    q = gap.shape[-1]
    causal = torch.ones(q, q, dtype=torch.bool, device=gap.device).tril_()
    mix = gap.masked_fill(~causal, -torch.inf).exp().unflatten(1, (groups, -1)) * (C @ B.mT)[:, :, None]
    y = mix @ inputs  # c G h Q P

    # What each chunk adds to the state, and the state each chunk starts from.
    to_end = torch.exp(log_decay[..., -1:] - log_decay).unflatten(1, (groups, -1))  # c G h Q
    added = (inputs * to_end[..., None]).mT.flatten(2, 3) @ B  # c G hP N
    added = added.reshape(-1, heads, head_dim, n)
    if state_RHPN is None:
        before, final = _states_before(added, log_decay[..., -1], layout.lengths, cuts.size), None
    else:
        before, final = _pass_states(added, log_decay[..., -1], state_RHPN[layout.rows_S].to(dtype), cuts)

    # What the state before the chunk contributes to its tokens.
    carried = before.reshape(-1, groups, heads // groups * head_dim, n)
    from_state = (C @ carried.mT).unflatten(-1, (heads // groups, head_dim)).transpose(2, 3)  # c G h Q P
    y = torch.addcmul(y, from_state, log_decay.exp().unflatten(1, (groups, -1))[..., None])

    y = y.permute(0, 3, 1, 2, 4).reshape(-1, heads, head_dim)  # (c Q) H P
    if not cuts.dense:
        y = y.index_select(0, cuts.place_T)
    if state_RHPN is not None and final is not None:
        state_RHPN[cuts.row_e] = final.to(state_RHPN.dtype)
    return torch.addcmul(y, x_THP.to(dtype), D_H[:, None]).to(x_THP.dtype)


def _states_before(added_cHPN: Tensor, log_decay_cH: Tensor, lengths: tuple[int, ...], size: int) -> Tensor:
    """The state before every chunk when all sequences start empty, as in training: each sequence by itself, in tables
    of sequences x chunks. The work grows with the number of sequences, not with its square."""
    before = None
    for bucket in buckets(tuple(-(-length // size) for length in lengths), added_cHPN.device):
        if bucket.items_i is None:
            return _states_in_table(added_cHPN, log_decay_cH, bucket)
        if before is None:
            before = torch.zeros_like(added_cHPN)
        if bucket.longest > 1:
            states = _states_in_table(bucket.take(added_cHPN), bucket.take(log_decay_cH), bucket)
            before = before.index_copy(0, bucket.items_i, states)
    assert before is not None
    return before


def _states_in_table(added_cHPN: Tensor, log_decay_cH: Tensor, bucket: Bucket) -> Tensor:
    longest = bucket.longest
    if longest == 1:
        return torch.zeros_like(added_cHPN)
    own = bucket.table(log_decay_cH).transpose(1, 2)  # S H k
    upto = torch.cumsum(own, -1)
    gap = (upto - own)[..., :, None] - upto[..., None, :]  # from the end of chunk j to the start of chunk k
    earlier = torch.ones(longest, longest, dtype=torch.bool, device=gap.device).tril_(-1)
    weight = gap.masked_fill(~earlier, -torch.inf).exp()
    states = weight @ bucket.table(added_cHPN.flatten(2)).transpose(1, 2)  # S H k PN
    return bucket.items(states.transpose(1, 2)).unflatten(2, added_cHPN.shape[2:])


def _pass_states(added_cHPN: Tensor, log_decay_cH: Tensor, initial_SHPN: Tensor, cuts: Chunks) -> tuple[Tensor, Tensor]:
    """The state before every chunk, and at every end (of a sequence, or asked for by a snapshot).

    Written as one matrix product with the decays between chunks (zero across sequences) instead of a loop: there are
    few chunks and the loop would be thousands of tiny steps. The running sums are kept in float64 because they grow
    with the length of the batch while only their differences matter.
    """

    dtype = added_cHPN.dtype
    chunks = added_cHPN.shape[0]
    upto = torch.cumsum(log_decay_cH.double(), 0)  # inclusive
    before_c = upto - log_decay_cH.double()
    # Targets: the start of each chunk, then the ends.
    target = torch.cat([before_c, upto[cuts.after_e - 1]]).T  # H, c+e
    order = torch.arange(chunks, device=added_cHPN.device)
    limit = torch.cat([order, cuts.after_e])  # chunks below this index count
    owner = torch.cat([cuts.sequence_c, cuts.sequence_e])
    allowed = (order[None, :] < limit[:, None]) & (cuts.sequence_c[None, :] == owner[:, None])
    gap = target[:, :, None] - upto.T[:, None, :]
    weight = gap.masked_fill(~allowed, -torch.inf).exp().to(dtype)  # H, c+e, c
    flat = added_cHPN.transpose(0, 1).flatten(2)  # H c PN
    since_start = torch.exp(target - before_c[cuts.first_S][owner].T).to(dtype)  # H, c+e
    states = torch.addcmul(weight @ flat, initial_SHPN.transpose(0, 1).flatten(2)[:, owner], since_start[..., None])
    states = states.transpose(0, 1).unflatten(2, added_cHPN.shape[2:])
    return states[:chunks], states[chunks:]
