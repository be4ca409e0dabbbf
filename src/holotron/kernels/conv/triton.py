"""Causal convolution + SiLU in Triton: one launch for a mixed batch, memory updated in place.

A program slides over one tile of one sequence (a decode is a tile of one token) for a block of channels, with the last
inputs in registers, so that every input is read once. The tiles of a prompt run in any order; only the first touches
the sequence's row: it starts from the old memory and afterwards writes the new one, from the prompt's last inputs.
"""
# mypy: disable-error-code="no-untyped-def"

import torch
import triton
import triton.language as tl
from torch import Tensor

from holotron.kernels.layout import Layout
from holotron.kernels.triton_math import silu

TAPS = 4  # what the kernel is written for; every published Mamba-2 has four
TILE = 8  # tokens of a prompt per program


@triton.jit
def _remember(x_ptr, old_ptr, new_ptr, tokens, stride_x, stride_k, inside):
    """Write the last three of (old memory, then `tokens` inputs), oldest first: no value is overwritten before it is
    read, also where old and new are the same row."""
    for k in tl.static_range(3):
        at = tokens - 3 + k
        if at >= 0:
            value = tl.load(x_ptr + at * stride_x, inside, other=0.0).to(new_ptr.dtype.element_ty)
        else:
            value = tl.load(old_ptr + (at + 3) * stride_k, inside, other=0.0)
        tl.store(new_ptr + k * stride_k, value, inside)


@triton.jit(
    do_not_specialize=["num_decodes", "num_tiles"],
    do_not_specialize_on_alignment=["rows_ptr", "tiles_ptr", "first_ptr", "tokens_ptr", "row_ptr"],
)
def _causal_conv(
    x_ptr,
    weight_ptr,
    bias_ptr,
    state_ptr,
    out_ptr,
    rows_ptr,
    tiles_ptr,
    first_ptr,
    tokens_ptr,
    row_ptr,
    num_decodes,
    num_tiles,
    channels,
    stride_x,
    stride_r,
    stride_k,
    TILE: tl.constexpr,
    BLOCK: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    HAS_STATE: tl.constexpr,
):
    channel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # neighbours in memory run side by side
    unit = tl.program_id(1)
    inside = channel < channels
    sequence = unit
    begin = 0
    start = unit.to(tl.int64)
    length = 1
    if unit >= num_decodes:
        tiles_ptr += unit - num_decodes
        sequence = tl.load(tiles_ptr)
        begin = tl.load(tiles_ptr + num_tiles)
        start = tl.load(tiles_ptr + 2 * num_tiles).to(tl.int64)
        length = tl.load(tiles_ptr + 3 * num_tiles)
    if begin >= length:  # it only fills up the table
        return
    memory_ptr = state_ptr
    if HAS_STATE:
        memory_ptr += tl.load(rows_ptr + sequence).to(tl.int64) * stride_r + channel
    x_ptr += start * stride_x + channel
    out_ptr += (start + begin) * channels + channel

    # The four taps of a channel are neighbours in memory: load them together, then part them.
    tap = 2 * tl.arange(0, 2)[None, :, None] + tl.arange(0, 2)[None, None, :]
    taps = tl.load(weight_ptr + channel[:, None, None] * 4 + tap, inside[:, None, None], other=0.0).to(tl.float32)
    even, odd = tl.split(taps)
    w0, w2 = tl.split(even)
    w1, w3 = tl.split(odd)
    bias = tl.zeros([BLOCK], tl.float32)
    if HAS_BIAS:
        bias = tl.load(bias_ptr + channel, inside, other=0.0).to(tl.float32)

    x0 = tl.zeros([BLOCK], tl.float32)
    x1 = tl.zeros([BLOCK], tl.float32)
    x2 = tl.zeros([BLOCK], tl.float32)
    now_ptr = x_ptr + tl.cast(begin, tl.int64) * stride_x
    if begin > 0:
        x0 = tl.load(now_ptr - 3 * stride_x, inside, other=0.0).to(tl.float32)
        x1 = tl.load(now_ptr - 2 * stride_x, inside, other=0.0).to(tl.float32)
        x2 = tl.load(now_ptr - stride_x, inside, other=0.0).to(tl.float32)
    elif HAS_STATE:
        x0 = tl.load(memory_ptr, inside, other=0.0).to(tl.float32)
        x1 = tl.load(memory_ptr + stride_k, inside, other=0.0).to(tl.float32)
        x2 = tl.load(memory_ptr + 2 * stride_k, inside, other=0.0).to(tl.float32)
    for i in tl.static_range(TILE):
        real = channel < tl.where(begin + i < length, channels, 0)
        x3 = tl.load(now_ptr + i * stride_x, real, other=0.0).to(tl.float32)
        y = silu(bias + w0 * x0 + w1 * x1 + w2 * x2 + w3 * x3)
        tl.store(out_ptr + i * channels, y.to(out_ptr.dtype.element_ty), real)
        x0 = x1
        x1 = x2
        x2 = x3

    if TILE == 1:  # decodes only: the new memory is at hand
        tl.store(memory_ptr, x0.to(state_ptr.dtype.element_ty), inside)
        tl.store(memory_ptr + stride_k, x1.to(state_ptr.dtype.element_ty), inside)
        tl.store(memory_ptr + 2 * stride_k, x2.to(state_ptr.dtype.element_ty), inside)
    elif HAS_STATE:  # noqa: SIM102 (this is known when the kernel is compiled, the next when it runs)
        if begin == 0:
            if unit >= num_decodes:
                for m in range(tl.load(first_ptr + sequence), tl.load(first_ptr + sequence + 1)):
                    spare_ptr = state_ptr + tl.load(row_ptr + m).to(tl.int64) * stride_r + channel
                    _remember(x_ptr, memory_ptr, spare_ptr, tl.load(tokens_ptr + m), stride_x, stride_k, inside)
            _remember(x_ptr, memory_ptr, memory_ptr, length, stride_x, stride_k, inside)


def supported(weight_CK: Tensor) -> bool:
    return weight_CK.shape[1] == TAPS


def causal_conv(
    x_TC: Tensor, weight_CK: Tensor, bias_C: Tensor | None, state_RKC: Tensor | None, layout: Layout
) -> Tensor:
    tokens, channels = x_TC.shape
    out = torch.empty((tokens, channels), dtype=x_TC.dtype, device=x_TC.device)
    decodes = layout.num_decodes
    assert state_RKC is not None or decodes == 0, "a decode needs a state"
    prefill = layout.num_prefills > 0
    tiles = layout.tiles(TILE) if prefill else layout.rows_S[None, :0]  # a pure decode never reads the tables
    marks = layout.marks if prefill else (layout.rows_S,) * 3
    state = state_RKC if state_RKC is not None else x_TC[None]
    block = 512  # eight channels (16 bytes) per thread
    _causal_conv[(triton.cdiv(channels, block), decodes + tiles.shape[1])](
        x_TC,
        weight_CK.contiguous(),
        x_TC if bias_C is None else bias_C,
        state,
        out,
        layout.rows_S,
        tiles,
        *marks,
        decodes,
        tiles.shape[1],
        channels,
        x_TC.stride(0),
        state.stride(0),
        state.stride(1),
        TILE if prefill else 1,
        block,
        bias_C is not None,
        state_RKC is not None,
        num_warps=2,
    )
    return out
