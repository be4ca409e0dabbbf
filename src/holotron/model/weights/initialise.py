"""Random weights: built without storage, then filled where they will live. 12B in bf16 takes seconds on a GPU."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from holotron.kernels.linear import quantize
from holotron.model.config import ModelConfig
from holotron.model.layers import CentredRMSNorm
from holotron.model.model import Holotron
from holotron.model.weights.eight_bit import narrow, scales_of
from holotron.model.weights.storage import allocate


def random_model(
    config: ModelConfig,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    weight_dtype: torch.dtype | None = None,
    seed: int = 0,
) -> Holotron:
    """A model that has learned nothing. The same seed gives the same weights on the same kind of device; with
    `weight_dtype` float8_e4m3fn the same ones, rounded matrix by matrix."""
    with torch.device("meta"):
        model = Holotron(config)
    model.to(dtype)
    if weight_dtype is not None:
        narrow(model, torch.device(device), weight_dtype)
    allocate(model, device)
    generator = torch.Generator(device=device).manual_seed(seed)
    scales = scales_of(model)
    with torch.no_grad():
        for name, tensor in model.state_dict(keep_vars=True).items():
            if (scale := scales.get(name)) is None:
                _fill(name, tensor, config, generator)
                continue
            wide = torch.empty(tensor.shape, dtype=dtype, device=device)
            _fill(name, wide, config, generator)
            values, row_scales = quantize(wide.view(-1, wide.shape[-1]))
            tensor.copy_(values.view(tensor.shape))
            scale.copy_(row_scales.view(scale.shape))
        for module in model.modules():
            if isinstance(module, CentredRMSNorm):
                module.weight.zero_()
    return model


def _fill(name: str, tensor: Tensor, config: ModelConfig, generator: torch.Generator) -> None:
    last = name.rsplit(".", 1)[-1]
    if last == "A_log":  # decay rates between 1 and 16, as Mamba-2 starts
        tensor.uniform_(1, 16, generator=generator).log_()
    elif last == "dt_bias":  # step sizes log-uniform between 0.001 and 0.1, through the inverse of softplus
        dt = tensor.uniform_(math.log(1e-3), math.log(1e-1), generator=generator).exp_()
        tensor.copy_(dt + torch.log(-torch.expm1(-dt)))
    elif last == "D" or (tensor.dim() == 1 and last == "weight"):
        tensor.fill_(1.0)
    elif last in ("bias", "e_score_correction_bias"):
        tensor.zero_()
    elif name.endswith("conv1d.weight"):
        bound = tensor.shape[-1] ** -0.5
        tensor.uniform_(-bound, bound, generator=generator)
    elif last == "pos_embed":
        tensor.copy_(_waves(math.isqrt(tensor.shape[1]), tensor.shape[2]))
    elif last == "token" or "embeddings" in name:
        tensor.normal_(0, 0.02, generator=generator)
    else:
        std = tensor.shape[-1] ** -0.5
        if any(part in name for part in ("out_proj", "o_proj", "down_proj", "attn.proj", "fc2")):
            # What writes into the residual stream starts smaller, so that depth does not blow it up.
            depth = (
                config.vision.layers * 2 if config.vision and "vision_model" in name else len(config.decoder.pattern)
            )
            std /= math.sqrt(depth)
        tensor.normal_(0, std, generator=generator)


def _waves(side: int, width: int) -> Tensor:
    """Positions of a square table as sines and cosines of row and column, [1, side * side, width], of size 1/2: loud
    enough beside the patches they are added to that a tower does not have to discover first where things are."""
    place = torch.arange(side, dtype=torch.float64)
    count = -(-width // 4)
    angle = place[:, None] * torch.pi / side * torch.logspace(0, math.log10(side), count, dtype=torch.float64)
    line = torch.cat([angle.sin(), angle.cos()], dim=-1)  # side, 2 * count
    rows, columns = line[:, None].expand(-1, side, -1), line[None].expand(side, -1, -1)
    table = torch.cat([rows, columns], dim=-1).reshape(1, side * side, -1)[..., :width]
    return table / (2 * table.square().mean().sqrt())
