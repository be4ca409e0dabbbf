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
from holotron.model.processor import ImageConfig, tile_grid

SLOTS = 4  # per patch
NONE = 0
FIRST, LAST = "!", "~"  # printable ASCII; a space is nothing to see
OTHER = ord(LAST) - ord(FIRST) + 2  # a character outside ASCII
CLASSES = OTHER + 1


def class_of(character: str) -> int:
    if FIRST <= character <= LAST:
        return ord(character) - ord(FIRST) + 1
    return NONE if character.isspace() or not character.isprintable() else OTHER


def slot_labels(page: Page, config: ImageConfig) -> np.ndarray:
    """uint8 [tiles, patch rows, patch columns * SLOTS] for the tiles that the page is cut into; a thumbnail, in which
    nothing can be read, has none."""
    height, width = page.image.shape[:2]
    columns, rows = tile_grid(width, height, config)
    grid = config.tile_size // config.patch_size
    sheet = np.zeros((rows * grid, columns * grid * SLOTS), np.uint8)
    text = page.text
    if len(text.characters):
        to_patches = page.scale * grid * np.array([columns / width, rows / height] * 2, np.float32)
        left, top, right, bottom = (text.boxes * to_patches).T
        middle = np.empty_like(top)
        for start, stop, _ in text.lines:
            middle[start:stop] = (top[start:stop].min() + bottom[start:stop].max()) / 2
        column = np.floor((left + right) / 2 * SLOTS).astype(np.int64)
        row = np.floor(middle).astype(np.int64)
        classes = np.fromiter(map(class_of, text.characters), np.uint8, len(text.characters))
        inside = (row >= 0) & (row < sheet.shape[0]) & (column >= 0) & (column < sheet.shape[1])
        seen = inside & (classes != NONE) & (right > left)
        sheet[row[seen], column[seen]] = classes[seen]
    tiles = sheet.reshape(rows, grid, columns, grid * SLOTS).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(tiles.reshape(rows * columns, grid, grid * SLOTS))
