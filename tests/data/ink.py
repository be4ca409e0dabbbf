"""Where text really is: the pixels that change when it is left out."""

from __future__ import annotations

import numpy as np

from holotron.data.labels import Text

NOTICEABLE = 24  # of 255


def ink_of(with_text: np.ndarray, without: np.ndarray) -> np.ndarray:
    return np.abs(with_text.astype(int) - without).max(2) > NOTICEABLE


def compare(text: Text, ink: np.ndarray, scale: float, *, margin: float = 2.0) -> tuple[float, float]:
    """Share of characters whose box holds no ink, and share of ink that lies in no character's box (a margin, in CSS
    pixels, allows for overhanging letters). Ink within a line's height of the page's edges is not counted: letters that
    are cut off there have no label."""
    covered, empty, letters = np.zeros_like(ink), 0, 0
    edge = round(20 * scale)
    for letter, box in zip(text.characters, text.boxes * scale, strict=True):
        left, top, right, bottom = box
        slack = margin * scale
        covered[_span(top - slack, bottom + slack), _span(left - slack, right + slack)] = True
        if letter != " ":
            letters += 1
            empty += not ink[_span(top, bottom), _span(left, right)].any()
    covered[:edge] = covered[-edge:] = True
    covered[:, :edge] = covered[:, -edge:] = True
    return empty / max(1, letters), (ink & ~covered).sum() / max(1, ink.sum())


def _span(low: float, high: float) -> slice:
    return slice(max(0, int(np.floor(low))), max(0, int(np.ceil(high))))
