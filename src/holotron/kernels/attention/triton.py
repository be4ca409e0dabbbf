"""Attention in Triton: new keys and values go into the cache first, then everybody reads them from there."""
# mypy: disable-error-code="no-untyped-def"

import torch
import triton
import triton.language as tl
from torch import Tensor

from holotron.kernels.attention.triton_decode import attend_tokens
from holotron.kernels.attention.triton_prefill import attend_prompts
from holotron.kernels.dispatch import has_fp8, next_power_of_two, power_of_two
from holotron.kernels.layout import Layout
from holotron.kernels.linear.reference import FP8, FP8_MAX

_MAX: tl.constexpr = tl.constexpr(FP8_MAX)


@triton.jit
def _store_tile(source_ptr, cache_ptr, stride_source, stride_head, inside, head, d):
    x = tl.load(source_ptr + head * stride_source + d, inside, other=0.0)
    if cache_ptr.dtype.element_ty == tl.float8e4nv:
        x = tl.minimum(tl.maximum(x.to(tl.float32), -_MAX), _MAX)
    tl.store(cache_ptr + head * stride_head + d, x.to(cache_ptr.dtype.element_ty), inside)


@triton.jit
def _store(
    k_ptr,
    v_ptr,
    keys_ptr,
    values_ptr,
    slots_ptr,
    page_size,
    stride_kt,
    stride_kh,
    stride_vt,
    stride_vh,
    stride_page,
    stride_token,
    stride_head,
    KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots_ptr + token)
    place = slot // page_size * stride_page + slot % page_size * stride_token
    at = tl.arange(0, BLOCK)
    head, d, inside = at // HEAD_DIM, at % HEAD_DIM, at < KV_HEADS * HEAD_DIM
    _store_tile(k_ptr + token * stride_kt, keys_ptr + place, stride_kh, stride_head, inside, head, d)
    _store_tile(v_ptr + token * stride_vt, values_ptr + place, stride_vh, stride_head, inside, head, d)


def supported(q_THD: Tensor, keys: Tensor) -> bool:
    """Heads of 16 to 256 columns, a power of two; an 8-bit cache only where the GPU has 8-bit floats."""
    dim = q_THD.shape[-1]
    if not (power_of_two(dim) and 16 <= dim <= 256):
        return False
    return keys.dtype == q_THD.dtype or (keys.dtype == FP8 and has_fp8(q_THD.device))


def store(k_TKD: Tensor, v_TKD: Tensor, cache: tuple[Tensor, Tensor], layout: Layout) -> None:
    keys, values = cache
    tokens, kv_heads, head_dim = k_TKD.shape
    block = next_power_of_two(kv_heads * head_dim)
    _store[(tokens,)](
        k_TKD,
        v_TKD,
        keys,
        values,
        layout.slots_T,
        layout.page_size,
        k_TKD.stride(0),
        k_TKD.stride(1),
        v_TKD.stride(0),
        v_TKD.stride(1),
        keys.stride(0),
        keys.stride(1),
        keys.stride(2),
        kv_heads,
        head_dim,
        block,
        num_warps=min(max(block // 256, 1), 8),
    )


def attend(
    q_THD: Tensor, k_TKD: Tensor, v_TKD: Tensor, cache: tuple[Tensor, Tensor], layout: Layout, scale: float
) -> Tensor:
    if q_THD.stride(-1) != 1 or q_THD.stride(1) != q_THD.shape[-1]:
        q_THD = q_THD.contiguous()
    out_THD = torch.empty(q_THD.shape, dtype=q_THD.dtype, device=q_THD.device)
    store(k_TKD, v_TKD, cache, layout)
    if layout.num_decodes:
        attend_tokens(q_THD, *cache, out_THD, layout, scale)
    if layout.num_prefills:
        attend_prompts(q_THD, *cache, out_THD, layout, scale)
    return out_THD
