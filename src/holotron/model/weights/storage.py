"""Memory for a model that was built on torch's `meta` device, which has shapes but no data."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def allocate(model: nn.Module, device: torch.device | str) -> None:
    """Give every parameter and buffer storage, unfilled. Tied ones stay tied.

    (`Module.to_empty` unties them, and its `empty_like` imports sympy, a matter of seconds.)
    """
    made: dict[Tensor, Tensor] = {}

    def real(tensor: Tensor) -> Tensor:
        if tensor not in made:
            empty = torch.empty(tensor.shape, dtype=tensor.dtype, device=device)
            made[tensor] = nn.Parameter(empty, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else empty
        return made[tensor]

    for module in model.modules():
        for name, tensor in [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]:
            setattr(module, name, real(tensor))
