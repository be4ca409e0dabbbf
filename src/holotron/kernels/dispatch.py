"""Which implementation runs: Triton on a GPU, torch arranged for caches on a CPU, else the reference.

`HOLOTRON_KERNELS=reference` forces the references (to compare, or to get going on a GPU that Triton does not know).
Under autograd the references run, which are differentiable as they stand, except where a Triton kernel brings its own
gradient. Under torch.compile they always do: fusing them is the compiler's part.

Launch configurations are fixed and small in number, so that a process starts in seconds: each is chosen by arithmetic
from the shapes and, where it matters, from the two facts about a GPU below.
"""

from __future__ import annotations

import functools
import importlib.util
import os

import torch
from torch import Tensor


@functools.cache
def reference_wanted() -> bool:
    return os.environ.get("HOLOTRON_KERNELS", "") == "reference"


@functools.cache
def _triton_wanted() -> bool:
    return not reference_wanted() and importlib.util.find_spec("triton") is not None


def _suits_triton(t: Tensor) -> bool:
    return not torch.compiler.is_compiling() and t.is_cuda and t.dtype != torch.float64 and _triton_wanted()


def _learning(tensors: tuple[Tensor, ...]) -> bool:
    return torch.is_grad_enabled() and any(t.requires_grad for t in tensors)


def use_triton(*tensors: Tensor) -> bool:
    """For inference."""
    return _suits_triton(tensors[0]) and not _learning(tensors)


def train_with_triton(*tensors: Tensor) -> bool:
    """Under autograd, where a kernel has a gradient of its own."""
    return _suits_triton(tensors[0]) and _learning(tensors)


def use_cpu(*tensors: Tensor) -> bool:
    """Whether to run what is arranged for a CPU's caches, exact as the reference but not differentiable."""
    first = tensors[0]
    if first.device.type != "cpu" or any(t.dtype != first.dtype for t in tensors):
        return False
    if first.dtype not in (torch.float32, torch.float64) or reference_wanted():
        return False
    return not _learning(tensors)


@functools.cache
def has_fp8(device: torch.device) -> bool:
    """Whether the GPU converts and multiplies 8-bit floats itself: Ada (L40S), Hopper and later; not Ampere (A100)."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 9)


@functools.cache
def multiprocessors(device: torch.device) -> int:
    if device.type != "cuda":
        return 1
    return torch.cuda.get_device_properties(device).multi_processor_count


@functools.cache
def roomy(device: torch.device) -> bool:
    """Whether a block may use well over 100 KB of shared memory (A100, H100 and later; not L40S): deep prefetching."""
    if device.type != "cuda":
        return True
    properties = torch.cuda.get_device_properties(device)
    return properties.shared_memory_per_block_optin >= 160 * 1024  # type: ignore[attr-defined]


@functools.cache
def has_tensor_copies(device: torch.device) -> bool:
    """Whether the GPU copies tiles by itself from a description of the tensor: Hopper and later."""
    return device.type != "cuda" or torch.cuda.get_device_capability(device) >= (9, 0)


def power_of_two(n: int) -> bool:
    return n > 0 and n & (n - 1) == 0


def next_power_of_two(n: int) -> int:
    return 1 << max(n - 1, 0).bit_length()


def two_powers(n: int) -> tuple[int, int]:
    """Two powers of two that cover n, the sizes a Triton tile can have: 5120 = 4096 + 1024, 1280 = 1024 + 256,
    64 = 64 + 0. One is enough when the second would be no smaller than the first."""
    left = next_power_of_two(n + 1) // 2
    right = next_power_of_two(n - left) if n > left else 0
    return (2 * left, 0) if right == left else (left, right)
