"""Changes of light, made on the device a moment before the pictures are seen: no two looks at a page are the same."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from holotron.training.recipe import AugmentPart


def relight(
    tiles_n3HW: Tensor, negative: Tensor, gain: Tensor, shift: Tensor, loudness: Tensor, noise: Tensor | None
) -> Tensor:
    """Every pixel for itself."""
    x = torch.where(negative, 255 - tiles_n3HW, tiles_n3HW).float()
    # Around the middle, so that a gain changes contrast and not only brightness.
    x = (x - 127.5) * gain + 127.5 + shift
    if noise is not None:
        x = x + loudness * noise
    return x.round().clamp(0, 255).to(torch.uint8)


def augment(
    tiles_n3HW: Tensor,
    recipe: AugmentPart,
    generator: torch.Generator,
    relight: Callable[..., Tensor] = relight,
) -> Tensor:
    """uint8 tiles to uint8 tiles. `generator` lives on the CPU, so that every device draws the same numbers."""
    if not len(tiles_n3HW) or not (recipe.invert or recipe.tint or recipe.brightness or recipe.noise):
        return tiles_n3HW
    n, device = len(tiles_n3HW), tiles_n3HW.device

    def spread(channels: int) -> Tensor:
        return (2 * torch.rand(n, channels, 1, 1, generator=generator) - 1).to(device)

    negative = (torch.rand(n, 1, 1, 1, generator=generator) < recipe.invert).to(device)
    gain, shift = 1 + recipe.tint * spread(3), 255 * recipe.brightness * spread(1)
    loudness = 255 * recipe.noise * torch.rand(n, 1, 1, 1, generator=generator).to(device)
    on_device = torch.Generator(device).manual_seed(int(torch.randint(2**62, (), generator=generator)))
    noise = None
    if recipe.noise:
        noise = torch.randn(n, 1, *tiles_n3HW.shape[2:], device=device, generator=on_device)
    return relight(tiles_n3HW, negative, gain, shift, loudness, noise)
