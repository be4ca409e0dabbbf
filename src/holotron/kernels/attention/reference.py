"""Causal grouped-query attention in torch.

Legend: T tokens, H query heads, K key/value heads, D head dim, L tokens in view. The cache is [pages, page_size, K, D].
Nothing here encodes position: rotary embeddings, where a model has them, are applied before.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from holotron.kernels.layout import Layout, upload
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


class _Bucket(NamedTuple):
    """Sequences of similar length: each at most twice as long as another."""

    tokens_t: Tensor | None  # their tokens in the batch; None: all of them, in order
    place_t: Tensor  # where those sit when every sequence is filled up to `longest`
    sequences: int
    longest: int

    def take(self, t: Tensor) -> Tensor:
        mine = t if self.tokens_t is None else t.index_select(0, self.tokens_t)
        room = self.sequences * self.longest
        if len(mine) < room:
            mine = mine.new_zeros(room, *mine.shape[1:]).index_copy(0, self.place_t, mine)
        return mine.unflatten(0, (self.sequences, self.longest)).transpose(1, 2)

    def give(self, t: Tensor) -> Tensor:
        t = t.transpose(1, 2).flatten(0, 1)
        return t if len(t) == len(self.place_t) else t.index_select(0, self.place_t)


@lru_cache(maxsize=4)  # the attention layers of one forward pass share it
def _buckets(lengths: tuple[int, ...], device: torch.device) -> list[_Bucket]:
    length_S = np.asarray(lengths)
    start_S = np.cumsum(length_S) - length_S
    # Bucket boundaries start at the longest sequence, so a batch that fits into one bucket makes one.
    level_S = np.floor(np.log2(length_S.max() / length_S)).astype(np.int64)
    buckets = []
    for level in np.unique(level_S):
        mine = np.flatnonzero(level_S == level)
        own, longest = length_S[mine], int(length_S[mine].max())
        within = np.arange(own.sum()) - np.repeat(np.cumsum(own) - own, own)
        where = within + np.repeat(start_S[mine], own)
        tokens, place = upload([where, within + np.repeat(np.arange(len(mine)) * longest, own)], device)
        buckets.append(_Bucket(None if len(mine) == len(lengths) else tokens, place, len(mine), longest))
    return buckets


def _stateless(q_THD: Tensor, k_TKD: Tensor, v_TKD: Tensor, layout: Layout, scale: float) -> Tensor:
    """Whole sequences, as in training. Those of similar length are one call, filled up at their ends, where no real
    token looks."""
    result, gqa = None, q_THD.shape[1] != k_TKD.shape[1]
    for bucket in _buckets(layout.lengths, q_THD.device):
        q, k, v = (bucket.take(t) for t in (q_THD, k_TKD, v_TKD))
        out = bucket.give(F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale, enable_gqa=gqa))
        if bucket.tokens_t is None:
            return out
        result = (torch.zeros_like(q_THD) if result is None else result).index_copy(0, bucket.tokens_t, out)
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
