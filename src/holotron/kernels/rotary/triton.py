"""Head norms and rotary positions in Triton: queries and keys in one launch, each read and written once."""
# mypy: disable-error-code="no-untyped-def"

import functools

import torch
import triton
import triton.language as tl
from torch import Tensor

from holotron.kernels.dispatch import next_power_of_two, power_of_two
from holotron.kernels.rotary import reference
from holotron.kernels.rotary.reference import Rotation

BLOCK_H = 8  # heads per program


@triton.jit
def _turn(
    source_ptr, target_ptr, weight_ptr, cos, sin, heads, eps, stride_h, first,
    HALF: tl.constexpr, REST: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_H: tl.constexpr,
):  # fmt: skip
    """Of every head, 2 * HALF dimensions are turned; the REST is only normed."""
    head = first + tl.arange(0, BLOCK_H)[:, None]
    WIDTH: tl.constexpr = 2 * HALF + REST
    column = tl.arange(0, HALF)[None, :]
    live = head < heads
    a = tl.load(source_ptr + head * stride_h + column, live, other=0.0).to(tl.float32)
    b = tl.load(source_ptr + head * stride_h + HALF + column, live, other=0.0).to(tl.float32)
    square = tl.sum(a * a, axis=1, keep_dims=True) + tl.sum(b * b, axis=1, keep_dims=True)
    left = 2 * HALF + tl.arange(0, BLOCK_R)[None, :]
    c = tl.zeros([BLOCK_H, BLOCK_R], tl.float32)
    if REST > 0:
        c = tl.load(source_ptr + head * stride_h + left, live & (left < WIDTH), other=0.0).to(tl.float32)
        square += tl.sum(c * c, axis=1, keep_dims=True)
    shrink = tl.rsqrt(square / WIDTH + eps)
    # The norm's result is rounded to the stream's precision, as it is when the two steps are taken apart.
    a = (a * shrink * tl.load(weight_ptr + column).to(tl.float32)).to(target_ptr.dtype.element_ty).to(tl.float32)
    b = (b * shrink * tl.load(weight_ptr + HALF + column).to(tl.float32)).to(target_ptr.dtype.element_ty).to(tl.float32)
    if REST > 0:
        c = c * shrink * tl.load(weight_ptr + left, left < WIDTH, other=0.0).to(tl.float32)
        tl.store(target_ptr + head * WIDTH + left, c.to(target_ptr.dtype.element_ty), live & (left < WIDTH))
    target_ptr += head * WIDTH + column
    tl.store(target_ptr, (a * cos - b * sin).to(target_ptr.dtype.element_ty), live)
    tl.store(target_ptr + HALF, (b * cos + a * sin).to(target_ptr.dtype.element_ty), live)


@triton.jit
def _norm_and_rotate(
    q_ptr,
    k_ptr,
    q_weight_ptr,
    k_weight_ptr,
    positions_ptr,
    shift_ptr,
    periods_ptr,
    q_out_ptr,
    k_out_ptr,
    eps,
    stride_qt,
    stride_qh,
    stride_kt,
    stride_kh,
    stride_shift,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HALF: tl.constexpr,
    REST: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_H: tl.constexpr,
    SHIFTED: tl.constexpr,
    ROW_PAIRS: tl.constexpr,
    COLUMN_PAIRS: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1)
    pair = tl.arange(0, HALF)
    place = tl.load(positions_ptr + token) + tl.zeros([HALF], tl.int64)
    if SHIFTED:  # see `Rotation.axes`
        by_row = (pair % 3 == 1) & (pair < 3 * ROW_PAIRS)
        by_column = (pair % 3 == 2) & (pair < 3 * COLUMN_PAIRS)
        axis = tl.where(by_row, 1, tl.where(by_column, 2, 0))
        place += tl.load(shift_ptr + axis * stride_shift + token)
    # The exact quotient: far into a context, one wrong last bit is a visible turn.
    angle = tl.div_rn(place.to(tl.float32), tl.load(periods_ptr + pair))
    cos, sin = tl.cos(angle)[None, :], tl.sin(angle)[None, :]
    q_blocks = (HEADS + BLOCK_H - 1) // BLOCK_H
    if block < q_blocks:
        _turn(
            q_ptr + token * stride_qt, q_out_ptr + token * (HEADS * (2 * HALF + REST)), q_weight_ptr,
            cos, sin, HEADS, eps, stride_qh, block * BLOCK_H, HALF, REST, BLOCK_R, BLOCK_H,
        )  # fmt: skip
    else:
        _turn(
            k_ptr + token * stride_kt, k_out_ptr + token * (KV_HEADS * (2 * HALF + REST)), k_weight_ptr,
            cos, sin, KV_HEADS, eps, stride_kh, (block - q_blocks) * BLOCK_H, HALF, REST, BLOCK_R, BLOCK_H,
        )  # fmt: skip


def supported(q_THD: Tensor, rotation: Rotation) -> bool:
    turned = rotation.dim or q_THD.shape[-1]
    return power_of_two(turned) and turned >= 32


@functools.cache
def _periods(dim: int, theta: float, device: torch.device) -> Tensor:
    return reference.periods(dim, theta, device)


def norm_and_rotate(
    q_THD: Tensor,
    k_TKD: Tensor,
    q_weight_D: Tensor,
    k_weight_D: Tensor,
    eps: float,
    positions_T: Tensor,
    rotation: Rotation,
    shift_3T: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    tokens, heads, dim = q_THD.shape
    turned = rotation.dim or dim
    _, by_row, by_column = rotation.sections or (0, 0, 0)
    kv_heads = k_TKD.shape[1]
    q_out = torch.empty((tokens, heads, dim), dtype=q_THD.dtype, device=q_THD.device)
    k_out = torch.empty((tokens, kv_heads, dim), dtype=k_TKD.dtype, device=k_TKD.device)
    _norm_and_rotate[(tokens, triton.cdiv(heads, BLOCK_H) + triton.cdiv(kv_heads, BLOCK_H))](
        q_THD,
        k_TKD,
        q_weight_D,
        k_weight_D,
        positions_T,
        shift_3T if shift_3T is not None else positions_T,
        _periods(turned, rotation.theta, q_THD.device),
        q_out,
        k_out,
        eps,
        q_THD.stride(0),
        q_THD.stride(1),
        k_TKD.stride(0),
        k_TKD.stride(1),
        shift_3T.stride(0) if shift_3T is not None else 0,
        heads,
        kv_heads,
        turned // 2,
        dim - turned,
        next_power_of_two(max(dim - turned, 1)),
        BLOCK_H,
        shift_3T is not None,
        by_row,
        by_column,
        num_warps=2,
    )
    return q_out, k_out
