"""Which character is where, as dense labels for the vision tower.

A patch is cut into four upright slots. The label of a slot is the character whose centre lies in it, or none:

    | H e | l l | o   |        patches of 16 pixels, slots of 4
    |.H.e.|.l.l.|.o...|        labels

A character belongs to the row of patches in which the middle of its line lies. That is how a page of text becomes a
hundred small classification problems instead of one hard sequence problem.
"""

from __future__ import annotations

import numpy as np

from holotron.data.labels import Page

SLOTS = 4  # per patch
NONE = 0
FIRST, LAST = "!", "~"  # printable ASCII; a space is nothing to see
OTHER = ord(LAST) - ord(FIRST) + 2  # a character outside ASCII
CLASSES = OTHER + 1


def class_of(character: str) -> int:
    if FIRST <= character <= LAST:
        return ord(character) - ord(FIRST) + 1
    return NONE if character.isspace() or not character.isprintable() else OTHER


def character_of(index: int) -> str:
    return "" if index == NONE else "\ufffd" if index == OTHER else chr(ord(FIRST) + index - 1)


def slot_labels(page: Page, tile: int, patch: int) -> np.ndarray:
    """uint8 [patch rows, patch columns * SLOTS] for the page shown as one tile of this size."""
    grid = tile // patch
    labels = np.zeros((grid, grid * SLOTS), np.uint8)
    text = page.text
    if not len(text.characters):
        return labels
    height, width = page.image.shape[:2]
    to_tile = page.scale * tile / np.array([width, height, width, height], np.float32)
    left, top, right, bottom = (text.boxes * to_tile).T
    middle = np.empty_like(top)
    for start, stop, _ in text.lines:
        middle[start:stop] = (top[start:stop].min() + bottom[start:stop].max()) / 2
    column = np.floor((left + right) / 2 * SLOTS / patch).astype(np.int64)
    row = np.floor(middle / patch).astype(np.int64)
    classes = np.fromiter(map(class_of, text.characters), np.uint8, len(text.characters))
    seen = (classes != NONE) & (right > left) & (row >= 0) & (row < grid) & (column >= 0) & (column < grid * SLOTS)
    labels[row[seen], column[seen]] = classes[seen]
    return labels
