"""Painted pages: letters where the labels say, the same page for the same seed, and text as Chromium draws it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from holotron.data.canvas import Canvas
from holotron.data.colours import colour_name
from holotron.data.drawn import Painter, store_drawn
from holotron.data.fonts import HELD_OUT, font_files
from holotron.data.glyphs import typeface
from holotron.data.pages.make import MadePage, Size
from holotron.data.shards import iter_pages
from holotron.errors import InputError
from tests.data.ink import compare, ink_of

SIZES = (Size(160, 160, 2), Size(160, 210, 3), Size(320, 320, 2))
SANS = next((path for path in font_files() if path.name == "LiberationSans-Regular.ttf"), None)


@pytest.fixture(scope="module")
def painter() -> Painter:
    return Painter(sizes=SIZES)


def test_the_same_seed_and_number_give_the_same_page(painter: Painter) -> None:
    pages = [painter.paint(1, index) for index in (5, 6)]
    again = Painter(sizes=SIZES).paint(1, 6)  # other fonts are cached, other pages were painted before
    assert np.array_equal(again.image, pages[1].image)
    assert again.elements == pages[1].elements
    assert again.text.characters == pages[1].text.characters
    assert np.array_equal(again.text.boxes, pages[1].text.boxes)
    assert not np.array_equal(pages[0].image, pages[1].image)


def test_every_letter_is_where_its_box_is(painter: Painter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paint the pages again without ink: the pixels that change are the text, and nothing but the text."""
    pages = [painter.paint(2, index) for index in range(30)]
    monkeypatch.setattr(Canvas, "_ink", lambda *_: None)
    empty, stray = [], []
    for index, page in enumerate(pages):
        without = painter.paint(2, index)
        assert without.text.characters == page.text.characters
        found = compare(page.text, ink_of(page.image, without.image), page.scale, margin=3)
        empty.append(found[0])
        stray.append(found[1])
    assert np.mean(empty) < 0.01
    assert np.mean(stray) < 0.01


def test_boxes_run_along_the_line_and_stay_on_the_page(painter: Painter) -> None:
    for index in range(40):
        page = painter.paint(3, index)
        width, height = page.viewport
        assert (page.text.boxes >= -0.01).all()
        assert (page.text.boxes[:, 2] <= width + 1).all()
        assert (page.text.boxes[:, 3] <= height + 1).all()
        for line in page.text:
            boxes = page.text.boxes[line.start : line.stop]
            assert (np.diff(boxes[:, 0]) > 0).all()
            assert np.allclose(boxes[1:, 0], boxes[:-1, 2], atol=0.01)
            assert line.text == line.text.strip()


def test_pages_hold_enough_to_learn_from(painter: Painter) -> None:
    pages = [painter.paint(4, index) for index in range(100)]
    assert np.mean([len(page.text.characters) for page in pages]) > 70
    assert len({character for page in pages for character in page.text.characters}) > 150
    assert {e.role for page in pages for e in page.elements} >= {
        "button", "link", "textbox", "combobox", "checkbox", "radio", "tab", "cell", "columnheader", "shape",
    }  # fmt: skip


def test_shapes_have_the_colour_that_their_label_says(painter: Painter) -> None:
    seen = set()
    for index in range(70):
        page = painter.paint(6, index)
        for element in page.elements:
            if element.role == "shape" and element.exposed and element.name in ("square", "circle"):
                x, y = (round(v * page.scale) for v in element.centre)
                assert colour_name(tuple(int(v) for v in page.image[y, x])) == element.colour
                seen.add(element.colour)
    assert len(seen) >= 6


def test_languages_can_be_chosen() -> None:
    assert {Painter(languages=("en",)).paint(3, n).origin["language"] for n in range(12)} == {"en"}
    assert len({Painter().paint(3, n).origin["language"] for n in range(30)}) > 2
    with pytest.raises(InputError, match="languages are en"):
        Painter(languages=("klingon",))


def test_held_out_fonts_are_kept_apart() -> None:
    usual, reserved = Painter(), Painter(held_out=True)
    fonts = {usual.paint(seed, 0).origin["font"] for seed in range(25)}
    assert not fonts & HELD_OUT
    assert {reserved.paint(seed, 0).origin["font"] for seed in range(20)} <= HELD_OUT
    assert usual.paint(1, 1).id == "drawn-1-000000001"


def test_languages_are_those_the_font_can_write() -> None:
    assert SANS is not None
    assert {"en", "ru", "el", "de", "pl"} <= set(typeface(SANS).languages)


def test_without_fonts_the_error_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="name a folder of fonts"):
        font_files([tmp_path])


def test_drawn_pages_can_be_stored_and_read(tmp_path: Path, painter: Painter) -> None:
    store_drawn(tmp_path, painter, seed=8, pages=7, shard_pages=4)
    pages = list(iter_pages(tmp_path))
    assert [page.id for page in pages] == [f"drawn-8-{n:09d}" for n in range(7)]
    fresh = painter.paint(8, 6)
    assert np.array_equal(pages[6].image, fresh.image)
    assert pages[6].elements == fresh.elements
    assert np.array_equal(pages[6].text.boxes, fresh.text.boxes)
    assert any(page.samples for page in pages)


@pytest.mark.browser
def test_letters_look_as_chromium_draws_them() -> None:
    """The same line at the same place in both; what differs is the grey value of edge pixels, and kerning."""
    from holotron.data.render import Renderer
    from holotron.data.shards import decode

    text, size = "Hamburg 0123 quick fox", Size(200, 40, 2)
    html = (
        '<!doctype html><body style="margin:0;background:#fff;font:11px/14px Liberation Sans;font-kerning:none">'
        f'<div style="position:absolute;left:8px;top:10px;white-space:pre">{text}</div>'
    )

    async def render() -> tuple[np.ndarray, np.ndarray]:
        async with Renderer(tabs=1) as renderer:
            (shot,) = await renderer.render(MadePage("x", html, size, {}))
            return decode(shot.image), shot.text.boxes

    theirs, boxes = asyncio.run(render())
    assert SANS is not None
    canvas = Canvas(size.width, size.height, size.scale, (255, 255, 255))
    canvas.write(text, 8, float(boxes[0, 1]), SANS, 11, (0, 0, 0))
    assert np.abs(canvas.text().boxes - boxes).max() < 0.25
    ink = theirs[..., 0] < 250
    difference = np.abs(canvas.pixels.astype(int) - theirs)[..., 0]
    assert ink.sum() > 500
    assert difference.mean() / 255 < 0.01
    assert difference[ink].mean() / 255 < 0.1
