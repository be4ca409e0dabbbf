"""The 8-bit form of a model, taken before it has any storage: matrices never exist in 16 bits."""

from __future__ import annotations

import torch
from torch import Tensor

from holotron.errors import ConfigError
from holotron.kernels.linear import supports_fp8
from holotron.model.layers import Experts, Projection
from holotron.model.model import Holotron


def narrow(model: Holotron, device: torch.device, weight_dtype: torch.dtype) -> None:
    """Give a model without storage its 8-bit form."""
    if weight_dtype is not torch.float8_e4m3fn:
        raise ConfigError(f"matrices can be kept in float8_e4m3fn, not in {weight_dtype}")
    if not supports_fp8(device):
        name = torch.cuda.get_device_name(device)
        raise ConfigError(f"{name} has no 8-bit floats; load the weights in bf16 instead (--weights bf16)")
    for name, module in model.language_model.named_modules():
        if device.type == "cuda" and isinstance(module, Projection) and any(s % 16 for s in module.weight.shape):
            raise ConfigError(
                f"8-bit products need sizes that divide by 16; {name} is {list(module.weight.shape)}. Load the weights "
                "in bf16 instead (--weights bf16)"
            )
    model.language_model.quantize()


def scales_of(model: Holotron) -> dict[str, Tensor | None]:
    """The scales of those parameters that may be in 8 bits, by the parameter's name."""
    found: dict[str, Tensor | None] = {}
    for name, module in model.named_modules():
        if isinstance(module, Projection):
            found[f"{name}.weight"] = module.scale
        elif isinstance(module, Experts):
            found |= {f"{name}.{part}": getattr(module, f"{part}_scale") for part in module.parts}
    return found
