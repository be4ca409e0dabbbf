"""Changes of light, made on the device a moment before the pictures are seen: no two looks at a page are the same."""

from __future__ import annotations

import torch
from torch import Tensor

from holotron.training.recipe import AugmentPart


def augment(tiles_n3HW: Tensor, recipe: AugmentPart, generator: torch.Generator) -> Tensor:
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
    x = torch.where(negative, 255 - tiles_n3HW, tiles_n3HW).float()
    # Around the middle, so that a gain changes contrast and not only brightness.
    x = (x - 127.5) * gain + 127.5 + shift
    if recipe.noise:
        x += loudness * torch.randn(n, 1, *x.shape[2:], device=device, generator=on_device)
    return x.round_().clamp_(0, 255).to(torch.uint8)
