"""What one sample is: pictures, token sequences that look at them, and perhaps labels for what is written there.

Several sequences may share a picture (ten questions about one page), which is then encoded once. Only the pictures are
torch tensors: worker processes hand those over through shared memory, and everything small by value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Target:
    """Where a click should land, and what is needed to understand one."""

    box: tuple[float, float, float, float]  # CSS pixels
    dialect: str
    image: tuple[int, int]
    viewport: tuple[int, int]


@dataclass(frozen=True, slots=True)
class TokenSequence:
    ids: np.ndarray  # int32 [T]
    learn: np.ndarray  # bool [T]: tokens the model should have written
    tiles: tuple[int, ...] = ()  # which of the sample's tiles its image placeholders stand for, in order
    prompt: int = 0  # tokens before the first reply
    target: Target | None = None  # of a first reply that is a click

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Sample:
    tiles: Tensor  # uint8 [n, 3, height, width]
    sequences: tuple[TokenSequence, ...] = ()
    slots: np.ndarray | None = None  # uint8 [labelled tiles, rows, columns * SLOTS], see `characters`
    name: str = ""  # of the task, for figures by task
