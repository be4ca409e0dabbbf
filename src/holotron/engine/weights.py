"""New weights for a running engine, in place: captured graphs read them where the old ones were."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor

from holotron.errors import CheckpointError
from holotron.model.derived import Refreshed
from holotron.model.layers import Experts, Projection
from holotron.model.model import Holotron

_VISION = ("vision_model.", "mlp1.")  # the tower and the projector


def load_weights(model: Holotron, tensors: Mapping[str, Tensor]) -> bool:
    """Copy tensors over the parameters of the same names; all of them or, if one does not fit, none. Tells whether the
    vision side was among them."""
    own = dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers())
    for name, tensor in tensors.items():
        if name not in own:
            raise CheckpointError(f"the model has no parameter {name!r}")
        if tensor.shape != own[name].shape:
            raise CheckpointError(f"{name} has shape {list(tensor.shape)}, the model's has {list(own[name].shape)}")
    load: dict[str, Callable[[Tensor], None]] = {}  # what may have to be rounded to 8 bits
    for name, module in model.named_modules():
        if isinstance(module, Projection):
            load[f"{name}.weight"] = module.load
        elif isinstance(module, Experts):
            load |= {f"{name}.{part}": partial(module.load, part) for part in module.parts}
    with torch.no_grad():
        for name, tensor in tensors.items():
            if name in load:
                load[name](tensor)
            else:
                own[name].copy_(tensor, non_blocking=True)
    for module in model.modules():
        if isinstance(module, Refreshed):
            module.refresh()
    return any(name.startswith(_VISION) for name in tensors)
