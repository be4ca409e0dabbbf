"""Qwen's rule for the size of a picture: near its own, every side a whole number of tokens, within a range of pixels.

    smart_resize(1920, 1080, 32, 65_536, 16_777_216)         # (1920, 1088): 60 x 34 tokens

Pure arithmetic. The range comes from the checkpoint's `preprocessor_config.json` (its `size`, which counts pixels, not
edges, whatever the names of its parts say).
"""

from __future__ import annotations

import math

from holotron.errors import InputError

# Where no file says: as Qwen3-VL and Qwen3.5 are published.
PIXELS = {"shortest_edge": 65_536, "longest_edge": 16_777_216}
MEAN = STD = (0.5, 0.5, 0.5)
# What transformers' image processor takes for what a file leaves out.
CLASS_PIXELS = {"shortest_edge": 3136, "longest_edge": 1_003_520}

LONGEST_SHAPE = 200  # times as long as wide


def smart_resize(width: int, height: int, step: int, min_pixels: int, max_pixels: int) -> tuple[int, int]:
    """(width, height), both multiples of `step`. Python rounds halves to even, and so does the rule."""
    if max(width, height) > LONGEST_SHAPE * min(width, height):
        raise InputError(f"the image is {width}x{height}; no side may be more than {LONGEST_SHAPE} times the other")
    columns, rows = round(width / step), round(height / step)
    if columns * rows * step**2 > max_pixels:
        shrink = math.sqrt(width * height / max_pixels)
        columns, rows = (max(1, math.floor(side / shrink / step)) for side in (width, height))
    elif columns * rows * step**2 < min_pixels:
        grow = math.sqrt(min_pixels / (width * height))
        columns, rows = (math.ceil(side * grow / step) for side in (width, height))
    return columns * step, rows * step
