"""Host CPU for one 1920x1080 PNG on its way to the model: decoding, cutting into tiles, hashing; and the second time.

    OMP_NUM_THREADS=1 python benchmarks/pictures_cpu.py          # CPU milliseconds of one thread, and the core's name

Two pictures, as `holotron bench` sends them: a page of text and boxes, and one with a photograph-like part. The last
line is JSON.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

from holotron.bench.screens import Look, paint
from holotron.model.presets import preset
from holotron.model.processor import decode_image, tile_keys, to_tiles
from holotron.model.processor.tiling import ImageConfig


def milliseconds(call: Callable[[], object], repeat: int = 9) -> float:
    """CPU time of this thread: others on the machine do not count."""
    call()
    times = []
    for _ in range(repeat):
        begin = time.thread_time()
        call()
        times.append((time.thread_time() - begin) * 1e3)
    return statistics.median(times)


def core() -> str:
    lines = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return lines[0].split(":", 1)[1].strip() if lines else "?"


def measure(data: bytes, config: ImageConfig) -> dict[str, float]:
    """Milliseconds of each part."""
    pixels = decode_image(data)
    tiles = to_tiles(pixels, config)
    found = {
        "decode": milliseconds(lambda: decode_image(data)),
        "tiles": milliseconds(lambda: to_tiles(pixels, config)),
        "hash": milliseconds(lambda: tile_keys(tiles)),
    }
    return {**found, "all": sum(found.values())}


def main() -> None:
    torch.set_num_threads(1)
    config = preset("holotron-12b").image
    print(f"one core of {core()}")
    found: dict[str, dict[str, float]] = {}
    for session, name in enumerate(("with a photograph", "text")):
        data = paint(Look((1920, 1080)), session, 0)
        found[name] = measure(data, config)
        parts = ", ".join(f"{part} {took:.1f}" for part, took in found[name].items())
        print(f"{name}, {len(data) / 1e6:.2f} MB: {parts} ms CPU")
    print(json.dumps({"core": core(), "milliseconds": found}))


if __name__ == "__main__":
    main()
