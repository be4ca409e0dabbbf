"""The whole decoder on a CPU as one call: C++ for inference in fp32 (see decoder.cpp), compiled where it runs.

A forward pass of a small network in torch is some two thousand calls of a few microseconds each; decoding one token is
hardly anything else. Here it is one call. Weights and memories are used where they lie, in the layout they have anyway.

The structures mirror model.h, field by field.
"""

from __future__ import annotations

import ctypes
from ctypes import Structure, c_float, c_int32, c_long, c_void_p
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from holotron.kernels.layout import Layout
from holotron.kernels.native.build import library

__all__ = ["ATTENTION", "FEW", "MAMBA", "MLP", "Layer", "Program", "Shape", "library", "linear", "resize", "unfilter"]

MAMBA, MLP, ATTENTION = range(3)
FEW = 20  # rows up to which a product only reads its weights once, as in linear.h


def _fields(kind: type, names: str) -> list[tuple[str, type]]:
    return [(name, kind) for name in names.split()]


class Layer(Structure):
    _fields_ = [
        *_fields(c_int32, "kind slot"),
        ("norm", c_void_p),
        ("weights", c_void_p * 4),
        *_fields(c_void_p, "conv conv_bias A_log D dt_bias gated_norm"),
    ]


class Shape(Structure):
    _fields_ = [
        *_fields(c_int32, "hidden layers mamba_heads mamba_dim state groups taps mlp heads kv_heads head_dim"),
        *_fields(c_float, "eps scale"),
    ]


class _Batch(Structure):
    _fields_ = [
        *_fields(c_int32, "tokens sequences snapshots page_size table_width"),
        *_fields(c_void_p, "starts contexts rows pages snapshot_list"),
    ]


class _Memory(Structure):
    _fields_ = [*_fields(c_void_p, "ssm conv kv"), *_fields(c_int32, "mambas attentions")]


@dataclass(frozen=True)
class Program:
    """A decoder as the native code sees it. The addresses in it must stay valid as long as it is used."""

    library: ctypes.CDLL
    shape: Shape
    layers: ctypes.Array[Layer]
    last_norm: int

    def forward(self, x_TD: Tensor, layout: Layout, ssm_RLHPN: Tensor, conv_RLKC: Tensor, kv_ZL2zkD: Tensor) -> Tensor:
        """Embeddings to final hidden vectors; the memories of the rows and pages in `layout` move on, in place."""
        x_TD = x_TD.contiguous()
        hidden_TD = torch.empty_like(x_TD)
        snapshots = np.asarray(layout.snapshots, dtype=np.int32)
        index = [t.contiguous() for t in (layout.starts_S1, layout.context_S, layout.rows_S, layout.pages_SM)]
        batch = _Batch(
            layout.num_tokens,
            layout.num_sequences,
            len(snapshots),
            layout.page_size,
            layout.pages_SM.shape[1],
            *(t.data_ptr() for t in index),
            snapshots.ctypes.data,
        )
        memory = _Memory(
            ssm_RLHPN.data_ptr(), conv_RLKC.data_ptr(), kv_ZL2zkD.data_ptr(), ssm_RLHPN.shape[1], kv_ZL2zkD.shape[1]
        )
        self.library.holotron_forward(
            ctypes.byref(self.shape),
            self.layers,
            c_void_p(self.last_norm),
            ctypes.byref(batch),
            ctypes.byref(memory),
            c_void_p(x_TD.data_ptr()),
            c_void_p(hidden_TD.data_ptr()),
            torch.get_num_threads(),
        )
        return hidden_TD


def linear(library: ctypes.CDLL, x_TI: Tensor, weight_OI: Tensor) -> Tensor:
    """x W^T for a few rows of x; both contiguous, fp32."""
    (rows, inputs), outputs = x_TI.shape, len(weight_OI)
    y_TO = x_TI.new_empty(rows, outputs)
    library.holotron_linear(
        c_void_p(x_TI.data_ptr()),
        c_long(rows),
        c_long(inputs),
        c_void_p(weight_OI.data_ptr()),
        c_long(outputs),
        c_void_p(y_TO.data_ptr()),
        torch.get_num_threads(),
    )
    return y_TO


def resize(library: ctypes.CDLL, image_HW3: np.ndarray, rows: int, columns: int, height: int, width: int) -> Tensor:
    """A picture (uint8, contiguous) as so many tiles, uint8 [rows * columns, 3, height, width]; see resize.h. Other
    threads run meanwhile."""
    tiles = torch.empty(rows * columns, 3, height, width, dtype=torch.uint8)
    library.holotron_resize(
        c_void_p(image_HW3.ctypes.data),
        *map(c_long, (*image_HW3.shape[:2], rows, columns, height, width)),
        c_void_p(tiles.data_ptr()),
    )
    return tiles


SLACK = 4  # bytes beyond the end that png.h may touch


def unfilter(library: ctypes.CDLL, raw: bytes, width: int, height: int, channels: int) -> np.ndarray | None:
    """Lines of a PNG of three or four channels, all there are, to uint8 RGB [height, width, 3]. None: they are no such
    lines, or something is transparent. Other threads run meanwhile."""
    assert len(raw) == height * (1 + channels * width)
    pixels = np.empty(height * width * channels + SLACK, np.uint8)
    there, nothing = c_void_p(pixels.ctypes.data), bytes(channels * width + SLACK)
    library.holotron_unfilter.restype = library.holotron_opaque.restype = ctypes.c_bool
    # Bytes end with a zero of their own, which is all that is read beyond them.
    if not library.holotron_unfilter(raw, c_long(width), c_long(height), channels, nothing, there):
        return None
    if channels == 4 and not library.holotron_opaque(there, c_long(width * height)):
        return None
    return pixels[: 3 * width * height].reshape(height, width, 3)
