"""The vision tower: milliseconds for so many tiles."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import torch

from holotron.model.model import Holotron


@torch.inference_mode()
def measure(model: Holotron, counts: tuple[int, ...] = (9, 18, 36)) -> dict[str, float]:
    """By number of tiles."""
    side = model.config.image.tile_size
    found: dict[str, float] = {}
    for n in counts:
        pixels = torch.randn(n, 3, side, side, device=model.device, dtype=model.dtype)
        found[f"{n} tiles"] = milliseconds(lambda p=pixels: model.encode_tiles(p))  # type: ignore[misc]
    return found


def milliseconds(run: Callable[[], object], repeat: int = 7) -> float:
    times = []
    for _ in range(repeat):
        _wait()
        started = time.perf_counter()
        run()
        _wait()
        times.append(1e3 * (time.perf_counter() - started))
    return median(times[2:])


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
