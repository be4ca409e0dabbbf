"""The convolution's gradient in Triton, in two passes over memory.

The first computes the convolution again and with it SiLU's derivative: the gradient of what went into SiLU, and the
sums over tokens that are the gradients of weights and bias (written per block of tokens and added up afterwards). The
second collects, for every input, what the outputs of its own token and of the next three of its sequence pass back.
"""
# mypy: disable-error-code="no-untyped-def"

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from holotron.kernels.conv.triton import TAPS, causal_conv, supported
from holotron.kernels.layout import Layout

__all__ = ["Conv", "supported"]

BLOCK_T, BLOCK_C = 64, 64


@triton.jit
def _tile(x_ptr, token_T, live_T, channel_C, some_C, stride):
    """A tile of tokens x channels; zero where not live."""
    at = token_T[:, None] * stride + channel_C[None, :]
    return tl.load(x_ptr + at, live_T[:, None] & some_C[None, :], other=0.0).to(tl.float32)


@triton.jit(do_not_specialize=["tokens"], do_not_specialize_on_alignment=["positions_ptr"])
def _before_silu(
    x_ptr,
    weight_ptr,
    bias_ptr,
    dy_ptr,
    positions_ptr,
    dz_ptr,
    sums_ptr,
    tokens,
    channels,
    stride_x,
    stride_dy,
    TAPS: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_C: tl.constexpr,
    HAS_BIAS: tl.constexpr,
):
    block = tl.program_id(0).to(tl.int64)
    token = block * BLOCK_T + tl.arange(0, BLOCK_T)
    channel = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    some = channel < channels
    position = tl.load(positions_ptr + token, token < tokens, other=-1)  # inputs before a sequence's start are zero
    z = tl.zeros([BLOCK_T, BLOCK_C], tl.float32)
    if HAS_BIAS:
        z += tl.load(bias_ptr + channel, some, other=0.0).to(tl.float32)[None, :]
    for k in tl.static_range(TAPS):
        weight = tl.load(weight_ptr + channel * TAPS + k, some, other=0.0).to(tl.float32)
        z += _tile(x_ptr, token - (TAPS - 1 - k), position >= TAPS - 1 - k, channel, some, stride_x) * weight[None, :]
    dy = _tile(dy_ptr, token, token < tokens, channel, some, stride_dy)
    open = tl.sigmoid(z)
    dz = dy * open * (1.0 + z * (1.0 - open))
    at = token[:, None] * channels + channel[None, :]
    tl.store(dz_ptr + at, dz.to(dz_ptr.dtype.element_ty), (token < tokens)[:, None] & some[None, :])
    sums_ptr += block * (TAPS + 1) * channels + channel
    for k in tl.static_range(TAPS):
        x = _tile(x_ptr, token - (TAPS - 1 - k), position >= TAPS - 1 - k, channel, some, stride_x)
        tl.store(sums_ptr + k * channels, tl.sum(dz * x, axis=0), some)
    tl.store(sums_ptr + TAPS * channels, tl.sum(dz, axis=0), some)


@triton.jit(do_not_specialize=["tokens"], do_not_specialize_on_alignment=["positions_ptr"])
def _to_inputs(
    dz_ptr,
    weight_ptr,
    positions_ptr,
    dx_ptr,
    tokens,
    channels,
    TAPS: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64) * BLOCK_T + tl.arange(0, BLOCK_T)
    channel = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    some = channel < channels
    dx = tl.zeros([BLOCK_T, BLOCK_C], tl.float32)
    for ahead in tl.static_range(TAPS):
        later = token + ahead
        position = tl.load(positions_ptr + later, later < tokens, other=-1)  # the next sequence does not see this token
        weight = tl.load(weight_ptr + channel * TAPS + (TAPS - 1 - ahead), some, other=0.0).to(tl.float32)
        dx += _tile(dz_ptr, later, position >= ahead, channel, some, channels) * weight[None, :]
    at = token[:, None] * channels + channel[None, :]
    tl.store(dx_ptr + at, dx.to(dx_ptr.dtype.element_ty), (token < tokens)[:, None] & some[None, :])


class Conv(torch.autograd.Function):
    """Whole sequences from their starts, as in training."""

    @staticmethod
    def forward(ctx: Any, x_TC: Tensor, weight_CK: Tensor, bias_C: Tensor | None, layout: Layout) -> Tensor:
        ctx.save_for_backward(x_TC, weight_CK, bias_C)
        ctx.layout = layout
        return causal_conv(x_TC, weight_CK, bias_C, None, layout)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias = ctx.saved_tensors
        dy = gradients[0].contiguous()
        tokens, channels = x.shape
        blocks = triton.cdiv(tokens, BLOCK_T)
        dz, dx = torch.empty((2, tokens, channels), dtype=x.dtype, device=x.device)
        sums = torch.empty((blocks, TAPS + 1, channels), dtype=torch.float32, device=x.device)
        grid = (blocks, triton.cdiv(channels, BLOCK_C))
        weight, positions = weight.contiguous(), ctx.layout.positions_T
        _before_silu[grid](
            x,
            weight,
            x if bias is None else bias,
            dy,
            positions,
            dz,
            sums,
            tokens,
            channels,
            x.stride(0),
            dy.stride(0),
            TAPS,
            BLOCK_T,
            BLOCK_C,
            bias is not None,
            num_warps=4,
        )
        _to_inputs[grid](dz, weight, positions, dx, tokens, channels, TAPS, BLOCK_T, BLOCK_C, num_warps=4)
        total = sums.sum(0)
        dbias = None if bias is None else total[TAPS].to(bias.dtype)
        return dx, total[:TAPS].T.to(weight.dtype), dbias, None
