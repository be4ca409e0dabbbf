"""The vision tower: milliseconds for so many tiles.

Passes that follow each other at once run into the chip's power limit, and its clock falls: that is what a busy server
sees. `rested` is a single screenshot after a pause, as one agent alone sends it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
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
        encode = partial(model.encode_tiles, pixels)
        found[f"{n} tiles"] = milliseconds(encode)
        found[f"{n} tiles, rested"] = milliseconds(encode, pause=0.3)
    return found


def milliseconds(run: Callable[[], object], repeat: int = 7, pause: float = 0.0) -> float:
    times = []
    for _ in range(repeat):
        _wait()
        time.sleep(pause)
        started = time.perf_counter()
        run()
        _wait()
        times.append(1e3 * (time.perf_counter() - started))
    return median(times[2:])


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
