from __future__ import annotations

import numpy as np
import pytest
import torch

from holotron.data.labels import Page, Text
from holotron.model.processor import ImageConfig
from holotron.training.characters import CLASSES, FIRST, NONE, OTHER, SLOTS, class_of, slot_labels
from holotron.training.reading import ReadingHead, reading_loss, reading_weight, score_reading


def letter(label: int) -> str:
    """What `class_of` made this label of: a printable character of ASCII."""
    return chr(ord(FIRST) + label - 1)


def page(lines: list[tuple[str, float, float]], size: int = 64, scale: float = 2.0, advance: float = 6.0) -> Page:
    """Lines of letters of one width, 10 CSS pixels high, at (left, top)."""
    text = []
    for letters, left, top in lines:
        boxes = [(left + n * advance, top, left + (n + 1) * advance, top + 10) for n in range(len(letters))]
        text.append((letters, boxes, -1))
    return Page("p", np.zeros((size, size, 3), np.uint8), scale, (), Text.of(text))


def test_classes_are_printable_ascii_and_the_rest():
    assert {class_of(chr(code)) for code in range(33, 127)} == set(range(1, OTHER))
    assert class_of(" ") == class_of("\n") == NONE
    assert class_of("é") == class_of("Ж") == OTHER == CLASSES - 1
    assert all(letter(class_of(character)) == character for character in "aZ09!~")


def test_labels_lie_where_the_letters_are():
    config = ImageConfig(tile_size=64, patch_size=16, max_tiles=1)
    (labels,) = slot_labels(page([("Hi u", 2, 4)]), config)
    # Centres at 5, 11 and 23 CSS pixels: 10, 22 and 46 of the picture; slots are 4 pixels wide, rows 16 high.
    assert labels.shape == (4, 4 * SLOTS)
    found = {(row, column): letter(labels[row, column]) for row, column in zip(*labels.nonzero(), strict=True)}
    assert found == {(1, 2): "H", (1, 5): "i", (1, 11): "u"}


def test_labels_of_several_tiles_are_those_of_the_parts():
    config = ImageConfig(tile_size=64, patch_size=16, max_tiles=4)
    whole = page([("ab", 2, 4), ("cd", 40, 4), ("ef", 2, 40), ("gh", 40, 40)], size=128)
    parts = [page([(letters, 2 + left - 2, top)]) for letters, left, top in (("ab", 2, 4), ("cd", 8, 4))]
    labels = slot_labels(whole, config)
    assert labels.shape == (4, 4, 4 * SLOTS)
    for tile, part in zip(labels, parts, strict=False):
        assert np.array_equal(tile, slot_labels(part, config)[0])
    assert ["".join(letter(c) for c in tile[tile > 0]) for tile in labels] == ["ab", "cd", "ef", "gh"]


def test_a_resized_page_keeps_its_labels_in_place():
    config = ImageConfig(tile_size=64, patch_size=16, max_tiles=1)
    small, large = page([("x", 8, 8)], size=64, scale=2.0), page([("x", 8, 8)], size=96, scale=3.0)
    assert np.array_equal(slot_labels(small, config), slot_labels(large, config))


@pytest.mark.parametrize("side", [1, 2])
def test_heads_keep_the_geometry(side):
    """A head that copies one feature must show it at the slots of that cell and nowhere else."""
    head = ReadingHead(8, side)
    features = torch.zeros(1, 4 // side * 4 // side, 8)
    cell = 1  # the second cell of the first row
    features[0, cell] = torch.arange(8.0)
    scores = head(features, 4 // side, 4 // side)
    assert scores.shape == (1, 4, 4 * SLOTS, CLASSES)
    blank = head(torch.zeros_like(features), 4 // side, 4 // side)
    rows, columns = (scores - blank).abs().sum(-1)[0].nonzero(as_tuple=True)
    assert set(rows.tolist()) == set(range(side))
    assert set(columns.tolist()) == set(range(cell * side * SLOTS, (cell + 1) * side * SLOTS))


def scores_for(said: list[int]) -> torch.Tensor:
    return torch.nn.functional.one_hot(torch.tensor(said), CLASSES).float()[None, None]


def test_scores_count_exact_near_and_invented():
    labels = torch.tensor([[[0, 5, 0, 0, 0, 0, 7, 0, 0, 0]]])
    found = score_reading(scores_for([5, 0, 0, 0, 3, 0, 7, 0, 0, 0]), labels)
    assert (found.characters, found.exact, found.near) == (2, 1, 2)
    assert (found.empty, found.invented) == (4, 1)  # slots beside a character are nobody's
    assert (found + found).rates() == found.rates()


def test_the_loss_is_a_weighted_mean():
    labels = torch.zeros(1, 1, 10, dtype=torch.uint8)
    labels[0, 0, 3] = 5
    even = torch.zeros(1, 1, 10, CLASSES)
    assert reading_weight(labels).item() == pytest.approx(1 + 9 * 0.1)
    assert (reading_loss(even, labels) / reading_weight(labels)).item() == pytest.approx(np.log(CLASSES), rel=1e-5)
