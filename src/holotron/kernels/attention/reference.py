"""Causal grouped-query attention in torch.

Legend: T tokens, H query heads, K key/value heads, D head dim, L tokens in view. The cache is [pages, page_size, K, D].
Nothing here encodes position: rotary embeddings, where a model has them, are applied before.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from holotron.kernels.buckets import buckets
from holotron.kernels.layout import Layout
from holotron.kernels.linear.reference import FP8, FP8_MAX


def attend(
    q_THD: Tensor,
    k_TKD: Tensor,
    v_TKD: Tensor,
    cache: tuple[Tensor, Tensor] | None,
    layout: Layout,
    scale: float,
) -> Tensor:
    """Store the new keys and values, then let every token see all earlier tokens of its own sequence and itself."""
    if cache is None:
        return _stateless(q_THD, k_TKD, v_TKD, layout, scale)
    keys, values = cache
    place = (layout.slots_T // layout.page_size, layout.slots_T % layout.page_size)
    keys[place] = _as_stored(k_TKD, keys.dtype)
    values[place] = _as_stored(v_TKD, values.dtype)
    outputs = []
    for s, q in enumerate(q_THD.split(layout.lengths)):
        seen = layout.contexts[s] + layout.lengths[s]
        k = _gather(keys, layout, s, seen).to(q.dtype)
        v = _gather(values, layout, s, seen).to(q.dtype)
        outputs.append(_causal(q, k, v, scale))
    return torch.cat(outputs)


def attend_tiles(qkv_nLC: Tensor, heads: int) -> Tensor:
    q, k, v = qkv_nLC.unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


def attend_looks(qkv_TC: Tensor, heads: int, lengths: tuple[int, ...]) -> Tensor:
    return torch.cat([attend_tiles(qkv[None], heads)[0] for qkv in qkv_TC.split(lengths)])


def _stateless(q_THD: Tensor, k_TKD: Tensor, v_TKD: Tensor, layout: Layout, scale: float) -> Tensor:
    """Whole sequences, as in training. Those of similar length are one call, filled up at their ends, where no real
    token looks."""
    result, gqa = None, q_THD.shape[1] != k_TKD.shape[1]
    for bucket in buckets(layout.lengths, q_THD.device):
        q, k, v = (bucket.table(bucket.take(t)).transpose(1, 2) for t in (q_THD, k_TKD, v_TKD))
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale, enable_gqa=gqa)
        out = bucket.items(seen.transpose(1, 2))
        if bucket.items_i is None:
            return out
        result = (torch.zeros_like(q_THD) if result is None else result).index_copy(0, bucket.items_i, out)
    assert result is not None
    return result


def _as_stored(t: Tensor, dtype: torch.dtype) -> Tensor:
    """An 8-bit cache holds keys and values unscaled (they are of order one); what lies outside its range is clamped."""
    return t.clamp(-FP8_MAX, FP8_MAX).to(dtype) if dtype == FP8 else t.to(dtype)


def _gather(cache: Tensor, layout: Layout, sequence: int, seen: int) -> Tensor:
    pages = -(-seen // layout.page_size)
    if pages == 1:  # no copy when everything lies in one page
        return cache[layout.pages_SM[sequence, 0], :seen]
    return cache[layout.pages_SM[sequence, :pages]].flatten(0, 1)[:seen]


def _causal(q_tHD: Tensor, k_LKD: Tensor, v_LKD: Tensor, scale: float) -> Tensor:
    """The last t of L tokens look at everything up to themselves."""
    t, heads, dim = q_tHD.shape
    seen, kv_heads = k_LKD.shape[:2]
    k, v = k_LKD.transpose(0, 1)[None], v_LKD.transpose(0, 1)[None]
    if t == 1:
        # The query heads of a group take the place of query tokens: no key is repeated.
        out = F.scaled_dot_product_attention(q_tHD.view(1, kv_heads, heads // kv_heads, dim), k, v, scale=scale)
        return out.reshape(1, heads, dim)
    q = q_tHD.transpose(0, 1)[None]
    mask = None
    if t != seen:
        rows = torch.arange(seen - t, seen, device=q.device)
        mask = rows[:, None] >= torch.arange(seen, device=q.device)
    out = F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, is_causal=mask is None, scale=scale, enable_gqa=heads != kv_heads
    )
    return out[0].transpose(0, 1)
