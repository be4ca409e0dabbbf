"""Matrices in 8 bits on disk: one scale for each row, unpacked while loading.

    save_checkpoint(model, folder, dtype=torch.int8)         # a quarter of fp32, half of bf16

A matrix `X.weight` is stored as int8, its row's scales as fp32 beside it under `X.weight_scale`, shape [rows, 1], and
`config.json` says so: the names and the layout of compressed-tensors ("int-quantized", symmetric, by channel). It is
about the size of files: a loaded model holds ordinary matrices, so everything runs and trains as with any other
checkpoint. Embeddings, the head, positions, convolutions and vectors are not touched (2 % of the small policy).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

SCALE = "_scale"
_WIDE = ("embeddings.weight", "embed_tokens.weight", "lm_head.weight")  # small here, and every token goes through them


def fits_int8(key: str, tensor: Tensor) -> bool:
    return tensor.dim() == 2 and key.endswith(".weight") and not key.endswith(_WIDE)


def to_int8(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Values and the scale of each row; their product is the matrix to within 1/254 of its row's largest entry."""
    wide = weight.detach().float()
    scale = wide.abs().amax(1, keepdim=True) / 127
    scale[scale == 0] = 1.0
    return (wide / scale).round().to(torch.int8), scale


def described() -> dict[str, Any]:
    """What `config.json` says about it, under `quantization_config`."""
    weights = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "channel", "dynamic": False}
    return {
        "quant_method": "compressed-tensors",
        "format": "int-quantized",
        "quantization_status": "compressed",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
        "ignore": ["lm_head"],
    }
