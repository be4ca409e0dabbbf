"""Host CPU for one 1920x1080 PNG on its way to the model: decoding, cutting into tiles, hashing; and the second time.

    OMP_NUM_THREADS=1 python benchmarks/pictures_cpu.py          # CPU milliseconds of one thread, and the core's name

Two pictures: a page of text and boxes, and the same with a photograph-like part.
"""

from __future__ import annotations

import io
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw

from holotron.model.presets import preset
from holotron.model.processor import decode_image, tile_keys, to_tiles
from holotron.model.processor.images import _resize


def page(photo: bool) -> bytes:
    draw = np.random.default_rng(0)
    image = Image.new("RGB", (1920, 1080), "white")
    pen = ImageDraw.Draw(image)
    for row in range(60):
        for column in range(12):
            x, y = 20 + column * 158, 10 + row * 17
            pen.text((x, y), "".join(draw.choice(list("abcdefghij klmnop"), 22)), fill=(20, 20, int(draw.integers(90))))
    for _ in range(40):
        x, y = draw.integers(0, 1800), draw.integers(0, 1000)
        pen.rectangle((x, y, x + 90, y + 30), outline=tuple(draw.integers(0, 256, 3).tolist()), width=2)
    if photo:
        noise = draw.normal(0, 6, (500, 700, 3)).cumsum(1) % 256
        image.paste(Image.fromarray(noise.astype(np.uint8)), (1000, 300))
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


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


def main() -> None:
    torch.set_num_threads(1)
    config = preset("holotron-12b").image
    print(f"one core of {core()}")
    for name, photo in (("text", False), ("photograph", True)):
        data = page(photo)
        pixels = decode_image(data)
        tiles = to_tiles(pixels, config)
        sheet = torch.from_numpy(pixels).permute(2, 0, 1)[None]
        decode, cut, hashed = (
            milliseconds(lambda d=data: decode_image(d)),
            milliseconds(lambda p=pixels: to_tiles(p, config)),
            milliseconds(lambda t=tiles: tile_keys(t)),
        )
        torch_cut = milliseconds(lambda s=sheet: (_resize(s, 1024, 2048), _resize(s, 512, 512)), 3)
        print(
            f"{name}, {len(data) / 1e6:.2f} MB: decode {decode:.1f} + tiles {cut:.1f} + hash {hashed:.1f} = "
            f"{decode + cut + hashed:.1f} ms CPU; tiles with torch {torch_cut:.1f}"
        )


if __name__ == "__main__":
    main()
