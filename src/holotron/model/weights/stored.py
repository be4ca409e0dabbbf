"""How the files hold one tensor: as plain numbers, or as small ones with scales beside them.

    key                  kind             beside it                                     value
    X.weight             F32, BF16, ...                                                 as it is
    X.weight             F8_E4M3 or I8    X.weight_scale (or X.weight_scale_inv)        number * scale
    X.weight             U8 (two e2m1)    X.weight_scale, X.weight_scale_2              number * scale * scale_2
    X.weight_packed      U8 (two e2m1)    X.weight_scale, X.weight_global_scale         number * scale / global_scale

The first scaled row is every FP8 file: one scale in all, one for each row (output channel), or one for each block,
128 x 128 in DeepSeek's layout, where it is called `weight_scale_inv` and multiplied all the same. The last two are
NVFP4, 16 numbers to a scale: ModelOpt's layout and that of compressed-tensors. Read in the code that writes them:
compressed-tensors 0.20 (`compressors/naive_quantized`, `compressors/nvfp4`), ModelOpt 0.47
(`torch/export/unified_export_hf.py`), and transformers 5.22 (`integrations/finegrained_fp8.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from holotron.kernels.linear import quantize
from holotron.model.weights.headers import Header
from holotron.model.weights.reader import Reader

PLAIN = ("F64", "F32", "F16", "BF16")
SCALED = ("F8_E4M3", "I8")
_BLOCK = (128, 128)  # where no file says how large blocks are
_GROUP = 16  # numbers of NVFP4 that share a scale
_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # and the same with a sign, bit 3


class Unreadable(Exception):
    """Why a tensor cannot be had from the files, in words that follow its key."""


@dataclass(frozen=True)
class Stored:
    shape: tuple[int, ...]  # of the tensor itself
    values: Header
    scale: Header | None = None
    overall: Header | None = None  # NVFP4: one more scale for the whole matrix
    divides: bool = False  # whether the overall scale divides
    block: tuple[int, int] = (1, 1)  # rows and columns that share a scale
    keys: tuple[str, ...] = ()  # all that it takes

    @property
    def packed(self) -> bool:
        return self.overall is not None

    @property
    def by_row(self) -> bool:
        """In 8-bit floats with the same scale all along a row: exactly the form that is computed with here."""
        return self.values.kind == "F8_E4M3" and len(self.shape) == 2 and self.block[1] >= self.shape[1]


def find(key: str, shape: tuple[int, ...], headers: Mapping[str, Header], block: tuple[int, int] | None) -> Stored:
    """Where the tensor called `key` lies. `block` is what the checkpoint says of the size of its blocks."""
    values = headers.get(key)
    packed = headers.get(f"{key}_packed")
    if values is None and packed is not None:
        return _packed(key, f"{key}_packed", f"{key}_global_scale", shape, headers)
    if values is None:
        raise Unreadable(f"expected {list(shape)}, found nothing")
    where = f"in {values.file.name}"
    if values.kind == "U8" and f"{key}_scale_2" in headers:
        return _packed(key, key, f"{key}_scale_2", shape, headers)
    if values.shape != shape:
        raise Unreadable(f"expected {list(shape)}, found {list(values.shape)} {where}")
    if values.kind in PLAIN:
        return Stored(shape, values, keys=(key,))
    if values.kind not in SCALED:
        raise Unreadable(f"expected {', '.join([*PLAIN, *SCALED])} or packed NVFP4, found {values.kind} {where}")
    name = next((name for name in (f"{key}_scale", f"{key}_scale_inv") if name in headers), None)
    if name is None:
        raise Unreadable(
            f"expected its scales {key}_scale or {key}_scale_inv, found {values.kind} numbers {where} without any"
        )
    scale = headers[name]
    if len(shape) != 2 or scale.kind not in ("F32", "BF16", "F16"):
        raise Unreadable(
            f"expected scales of a matrix in F32, F16 or BF16, found {scale.kind} {list(scale.shape)} {name}"
        )
    return Stored(shape, values, scale, block=_granularity(name, scale, shape, block), keys=(key, name))


def _packed(
    key: str, values_key: str, overall_key: str, shape: tuple[int, ...], headers: Mapping[str, Header]
) -> Stored:
    values = headers[values_key]
    wanted: dict[str, tuple[tuple[int, ...], str]] = {}
    if len(shape) == 2 and shape[1] % _GROUP == 0:
        wanted[values_key] = ((shape[0], shape[1] // 2), "U8")
        wanted[f"{key}_scale"] = ((shape[0], shape[1] // _GROUP), "F8_E4M3")
    for name, (form, kind) in wanted.items():
        found = headers.get(name)
        if found is None or found.shape != form or found.kind != kind:
            said = f"{found.kind} {list(found.shape)} in {found.file.name}" if found else "nothing"
            raise Unreadable(f"expected {kind} {list(form)} {name} (NVFP4), found {said}")
    overall = headers.get(overall_key)
    if not wanted or overall is None or math.prod(overall.shape) != 1 or overall.kind != "F32":
        said = f"{overall.kind} {list(overall.shape)}" if overall else f"{values.kind} {list(values.shape)} alone"
        raise Unreadable(f"expected packed NVFP4 with one F32 number {overall_key}, found {said} in {values.file.name}")
    names = (values_key, f"{key}_scale", overall_key)
    divides = values_key != key
    return Stored(shape, values, headers[names[1]], overall, divides, block=(1, _GROUP), keys=names)


def _granularity(name: str, scale: Header, shape: tuple[int, ...], block: tuple[int, int] | None) -> tuple[int, int]:
    """How many rows and columns share a scale."""
    rows, columns = shape
    sizes = scale.shape
    if len(sizes) == 4 and sizes[1] == sizes[3] == 1:  # ModelOpt keeps the blocks' own dimensions
        sizes = (sizes[0], sizes[2])
    if math.prod(sizes) == 1 and len(sizes) < 3:
        return rows, columns
    if sizes in ((rows,), (rows, 1)):
        return 1, columns
    high, wide = block or _BLOCK
    blocks = (-(-rows // high), -(-columns // wide))
    if sizes == blocks:
        return high, wide
    if block is None and len(sizes) == 2 and sizes[0] == rows and columns % sizes[1] == 0:
        return 1, columns // sizes[1]
    raise Unreadable(
        f"expected {name} to be one number, {[rows, 1]} (rows) or {list(blocks)} (blocks of {high} x {wide}), found "
        f"{list(scale.shape)} in {scale.file.name}"
    )


# ---------------------------------------------------------------------------------------------------------- reading


def copy_into(stored: Stored, reader: Reader, target: Tensor, target_scale: Tensor | None) -> None:
    """Read the tensor, piece by piece, into `target`; if that has scales, it is in our 8-bit form."""
    put = _putter(target, target_scale)
    if stored.scale is None:
        # Plain numbers need no rows unless they are to be rounded row by row.
        count = target.shape[0] if target_scale is not None else target.numel()
        for first, last, piece in reader.rows(stored.values, count):
            put(first, last, piece)
        return
    scale = reader.whole(stored.scale).float().reshape(-1, _across(stored))
    if stored.overall is not None:
        overall = reader.whole(stored.overall).reshape(())
        scale = scale / overall if stored.divides else scale * overall
    high, wide = stored.block
    for first, last, piece in reader.rows(stored.values, stored.shape[0], min(high, stored.shape[0])):
        rows = scale if len(scale) == 1 else _rows(scale, first, last, high)
        if stored.by_row and target_scale is not None:
            target[first:last].copy_(piece)
            target_scale[first:last].copy_(rows)
        else:
            numbers = _unpack(piece) if stored.packed else piece.float()
            put(first, last, numbers.mul_(_columns(rows, wide, stored.shape[1])))


def _across(stored: Stored) -> int:
    """Scales along one row."""
    return -(-stored.shape[1] // stored.block[1])


def _rows(scale: Tensor, first: int, last: int, high: int) -> Tensor:
    if high == 1:
        return scale[first:last]
    return scale[first // high : -(-last // high)].repeat_interleave(high, 0)[: last - first]


def _columns(scale: Tensor, wide: int, columns: int) -> Tensor:
    return scale if scale.shape[1] == 1 else scale.repeat_interleave(wide, 1)[:, :columns]


def _unpack(pairs: Tensor) -> Tensor:
    """Two e2m1 numbers to a byte, the lower half first."""
    table = torch.tensor([*_E2M1, *(-value for value in _E2M1)], device=pairs.device)
    return table[torch.stack([pairs & 15, pairs >> 4], dim=-1).flatten(-2).int()]


def _putter(target: Tensor, target_scale: Tensor | None) -> Callable[[int, int, Tensor], None]:
    if target_scale is None:
        flat = target.view(-1)

        def plain(first: int, last: int, piece: Tensor) -> None:
            width = piece.numel() // max(last - first, 1)
            flat[first * width : last * width].copy_(piece.view(-1))

        return plain

    def rounded(first: int, last: int, piece: Tensor) -> None:
        values, scale = quantize(piece)
        target[first:last].copy_(values)
        target_scale[first:last].copy_(scale)

    return rounded
