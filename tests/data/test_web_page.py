"""Painted web apps: the same page for the same seed, labels where the ink is, and enough to ask about."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from holotron.data.canvas import Canvas
from holotron.data.drawn import Painter
from holotron.data.icon_ink import flatten, icon_mask
from holotron.data.labels import Page
from holotron.data.pages.icons import NAMES
from holotron.data.pages.make import Size
from holotron.data.samples import make_samples
from tests.data.ink import compare, ink_of

SIZES = (Size.parse("1280x720@1"), Size.parse("390x844@1.5"))


@pytest.fixture(scope="module")
def pages() -> list[Page]:
    painter = Painter(sizes=SIZES)
    return [painter.paint(1, index) for index in range(16)]


def test_the_same_seed_and_number_give_the_same_page(pages: list[Page]) -> None:
    again = Painter(sizes=SIZES).paint(1, 7)
    assert np.array_equal(again.image, pages[7].image)
    assert again.elements == pages[7].elements
    assert again.text.characters == pages[7].text.characters


def test_pages_are_dense_and_their_type_is_small(pages: list[Page]) -> None:
    laptops = [page for page in pages if page.image.shape == (720, 1280, 3)]
    assert laptops and len(laptops) < len(pages)
    assert np.mean([len(page.text.characters) for page in laptops]) > 400
    heights = np.concatenate([page.text.boxes[:, 3] - page.text.boxes[:, 1] for page in pages])
    assert 12 <= np.median(heights) <= 22  # a line's box is a fifth taller than its type
    roles = Counter(element.role for page in pages for element in page.elements)
    assert {"button", "link", "textbox", "checkbox", "cell", "columnheader", "row", "value"} <= roles.keys()
    small = [e for page in laptops for e in page.elements if e.clickable]
    assert np.median([e.area / (1280 * 720) for e in small]) < 0.0015


def test_every_letter_is_where_its_box_is(pages: list[Page], monkeypatch: pytest.MonkeyPatch) -> None:
    """Paint pages again without ink: the pixels that change are the text, but for what was painted over."""
    monkeypatch.setattr(Canvas, "_ink", lambda *_: None)
    painter = Painter(sizes=SIZES)
    found = [
        compare(page.text, ink_of(page.image, painter.paint(1, index).image), page.scale, margin=3)
        for index, page in enumerate(pages[:8])
    ]
    assert np.mean([empty for empty, _ in found]) < 0.03
    assert np.mean([stray for _, stray in found]) < 0.01


def test_every_icon_is_where_its_button_is(pages: list[Page]) -> None:
    bare = [
        (page, e) for page in pages for e in page.elements if e.role == "button" and e.icon and not e.text and e.exposed
    ]
    assert len(bare) > 20
    for page, element in bare:
        left, top, right, bottom = (round(v * page.scale) for v in element.box)
        inside = page.image[max(0, top) : bottom, max(0, left) : right]
        assert inside.reshape(-1, 3).std(0).max() > 4, element


def test_questions_of_every_kind_can_be_asked(pages: list[Page]) -> None:
    kinds = Counter(s.kind for page in pages for s in make_samples(page.elements, page.text, random.Random(page.id)))
    assert all(kinds[kind] >= len(pages) / 2 for kind in ("click", "find", "read"))


def test_body_text_has_the_size_that_is_asked_for() -> None:
    heights = [
        np.median(page.text.boxes[:, 3] - page.text.boxes[:, 1])
        for size in (11.0, 18.0)
        for page in [Painter(sizes=SIZES[:1], type_sizes=(size,)).paint(3, 0)]
    ]
    assert 11 <= heights[0] <= 15 and 18 <= heights[1] <= 25


@pytest.mark.parametrize("name", NAMES)
def test_icons_have_ink_at_every_size(name: str) -> None:
    for pixels in (14, 24):
        covered = icon_mask(name, pixels).mean() / 255
        assert 0.03 < covered < 0.75, (name, pixels)


def test_paths_are_followed() -> None:
    assert flatten("M1 2l3 0v4H0z") == [[(1, 2), (4, 2), (4, 6), (0, 6), (1, 2)]]
    (arc,) = flatten("M0 0a5 5 0 0 1 10 0")
    assert arc[0] == (0, 0) and arc[-1] == (10, 0)
    assert all(abs(np.hypot(x - 5, y) - 5) < 1e-6 for x, y in arc) and min(y for _, y in arc) < -4.5
    (curve,) = flatten("M0 0c0 5 10 5 10 0")
    assert curve[-1] == (10, 0) and max(y for _, y in curve) == pytest.approx(3.75)
