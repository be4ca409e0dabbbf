"""The convolution's gradient in Triton: one pass, with SiLU's derivative recomputed from the inputs.

A program owns a block of tokens and channels. The gradient of an input comes from the outputs of its own token and of
the next three of its sequence; of these the convolution is computed again, from inputs that are in the cache by then.
Sums over tokens (of weights and bias) are written per block and added up afterwards.
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

BLOCK_T, BLOCK_C = 32, 128


@triton.jit
def _input(x_ptr, position_T, token_T, channel, back, tokens, stride_x, some):
    """The input `back` tokens earlier; zero before the start of the sequence."""
    live = (token_T < tokens) & (position_T >= back)
    at = (token_T - back)[:, None] * stride_x + channel[None, :]
    return tl.load(x_ptr + at, live[:, None] & some[None, :], other=0.0).to(tl.float32)


@triton.jit(do_not_specialize=["tokens"], do_not_specialize_on_alignment=["positions_ptr"])
def _backward(
    x_ptr,
    weight_ptr,
    bias_ptr,
    dy_ptr,
    positions_ptr,
    dx_ptr,
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
    block = tl.program_id(0)
    token = block.to(tl.int64) * BLOCK_T + tl.arange(0, BLOCK_T)
    channel = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    some = channel < channels
    bias = tl.zeros([BLOCK_C], tl.float32)
    if HAS_BIAS:
        bias = tl.load(bias_ptr + channel, some, other=0.0).to(tl.float32)
    dx = tl.zeros([BLOCK_T, BLOCK_C], tl.float32)
    for ahead in tl.static_range(TAPS):
        later = token + ahead
        position = tl.load(positions_ptr + later, later < tokens, other=-1)
        z = tl.zeros([BLOCK_T, BLOCK_C], tl.float32) + bias[None, :]
        for k in tl.static_range(TAPS):
            weight = tl.load(weight_ptr + channel * TAPS + k, some, other=0.0).to(tl.float32)
            z += _input(x_ptr, position, later, channel, TAPS - 1 - k, tokens, stride_x, some) * weight[None, :]
        # An output of the next sequence does not see this token.
        live = ((later < tokens) & (position >= ahead))[:, None] & some[None, :]
        dy = tl.load(dy_ptr + later[:, None] * stride_dy + channel[None, :], live, other=0.0).to(tl.float32)
        open = tl.sigmoid(z)
        dz = dy * open * (1.0 + z * (1.0 - open))
        weight = tl.load(weight_ptr + channel * TAPS + (TAPS - 1 - ahead), some, other=0.0).to(tl.float32)
        dx += dz * weight[None, :]
        if ahead == 0:
            sums = sums_ptr + block.to(tl.int64) * (TAPS + 1) * channels + channel
            for k in tl.static_range(TAPS):
                x = _input(x_ptr, position, later, channel, TAPS - 1 - k, tokens, stride_x, some)
                tl.store(sums + k * channels, tl.sum(dz * x, axis=0), some)
            tl.store(sums + TAPS * channels, tl.sum(dz, axis=0), some)
    live = (token < tokens)[:, None] & some[None, :]
    tl.store(dx_ptr + token[:, None] * channels + channel[None, :], dx.to(dx_ptr.dtype.element_ty), live)


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
        dx = torch.empty((tokens, channels), dtype=x.dtype, device=x.device)
        sums = torch.empty((blocks, TAPS + 1, channels), dtype=torch.float32, device=x.device)
        _backward[(blocks, triton.cdiv(channels, BLOCK_C))](
            x,
            weight.contiguous(),
            x if bias is None else bias,
            dy,
            ctx.layout.positions_T,
            dx,
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
        total = sums.sum(0)
        dbias = None if bias is None else total[TAPS].to(bias.dtype)
        return dx, total[:TAPS].T.to(weight.dtype), dbias, None
