"""Changes of light, made on the device a moment before the pictures are seen: no two looks at a page are the same."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from holotron.model.looks import Looks
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
    looks: Looks | None = None,
) -> Tensor:
    """uint8 tiles to uint8 tiles. `generator` lives on the CPU, so that every device draws the same numbers. The groups
    of a look (of sparse pictures) stand in the same light."""
    if not len(tiles_n3HW) or not (recipe.invert or recipe.tint or recipe.brightness or recipe.noise):
        return tiles_n3HW
    lights, device = len(tiles_n3HW) if looks is None else len(looks.counts), tiles_n3HW.device

    def drawn(channels: int) -> Tensor:
        numbers = torch.rand(lights, channels, 1, 1, generator=generator).to(device)
        return numbers if looks is None else numbers.index_select(0, looks.of_K)

    negative = drawn(1) < recipe.invert
    gain, shift = 1 + recipe.tint * (2 * drawn(3) - 1), 255 * recipe.brightness * (2 * drawn(1) - 1)
    loudness = 255 * recipe.noise * drawn(1)
    on_device = torch.Generator(device).manual_seed(int(torch.randint(2**62, (), generator=generator)))
    noise = None
    if recipe.noise:
        noise = torch.randn(len(tiles_n3HW), 1, *tiles_n3HW.shape[2:], device=device, generator=on_device)
    return relight(tiles_n3HW, negative, gain, shift, loudness, noise)
