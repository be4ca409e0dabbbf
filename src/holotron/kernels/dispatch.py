"""Which implementation runs: Triton for inference on a GPU, the torch reference everywhere else.

`HOLOTRON_KERNELS=reference` forces the references (to compare, or to get going on a GPU that Triton does not know).
Under autograd the references run too: they are differentiable as they stand.
"""

from __future__ import annotations

import functools
import importlib.util
import os

import torch
from torch import Tensor


@functools.cache
def _triton_wanted() -> bool:
    if os.environ.get("HOLOTRON_KERNELS", "") == "reference":
        return False
    return importlib.util.find_spec("triton") is not None


def use_triton(*tensors: Tensor) -> bool:
    first = tensors[0]
    if not first.is_cuda or not _triton_wanted() or first.dtype == torch.float64:
        return False
    return not (torch.is_grad_enabled() and any(t.requires_grad for t in tensors))
