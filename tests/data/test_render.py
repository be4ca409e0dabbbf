"""Labels against the real browser: boxes, characters, what is hidden, and episodes that really happened."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from PIL import Image

from holotron.data import render
from holotron.data.colours import colour_name
from holotron.data.labels import Element
from holotron.data.pages.flows import FLOWS
from holotron.data.pages.make import MadePage, Recipe, Size, make_page
from holotron.data.render import Renderer, Shot
from holotron.data.shards import decode
from holotron.envs.tab import Tab
from holotron.types import Click, Write
from tests.data.ink import compare, ink_of

pytestmark = pytest.mark.browser
Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.fixture(scope="module")
def renderer(run: Run) -> Iterator[Renderer]:
    made = Renderer(tabs=2)
    yield made
    run(made.close())


def shoot(run: Run, renderer: Renderer, body: str, size: Size | None = None) -> Shot:
    style = "<style>body{margin:0;font:10px/12px Liberation Sans}*{box-sizing:border-box}</style>"
    html = f"<!doctype html>{style}<body>{body}"
    (shot,) = run(renderer.render(MadePage("x", html, size or Size(200, 200, 2), {})))
    return shot


def named(shot: Shot, name: str) -> Element:
    return next(element for element in shot.elements if element.name == name)


async def on_tab(renderer: Renderer, page: MadePage, do: Callable[[Tab], Coroutine[Any, Any, Any]]) -> Any:
    async with renderer.slot(page) as slot:
        tab = await slot.tab()
        await render.load(tab, page)
        return await do(tab)


# ------------------------------------------------------------------------------------------------- boxes of elements


def test_boxes_are_exact(run: Run, renderer: Renderer) -> None:
    shot = shoot(
        run, renderer,
        '<button style="position:absolute;left:10px;top:20px;width:60px;height:18px">Save</button>'
        '<a href="#" style="position:absolute;left:100.5px;top:40px;display:block;width:50px;height:12px">More</a>'
        '<input id="i" style="position:absolute;left:10px;top:60px;width:80px;height:20px" value="x">'
        '<label for="i" style="position:absolute;left:10px;top:48px">City</label>',
    )  # fmt: skip
    assert named(shot, "Save").box == (10, 20, 70, 38)
    assert named(shot, "More").box == (100.5, 40, 150.5, 52)
    field = next(e for e in shot.elements if e.role == "textbox")
    assert (field.name, field.value, field.box) == ("City", "x", (10, 60, 90, 80))
    assert [named(shot, name).role for name in ("Save", "More")] == ["button", "link"]


def test_what_cannot_be_seen_or_reached_is_no_target(run: Run, renderer: Renderer) -> None:
    place, tall = "position:absolute;left:10px;width:60px;height:16px", "display:block;height:16px"
    shot = shoot(
        run, renderer,
        f'<button style="{place};top:10px">covered</button><div style="{place};top:10px;background:#fff"></div>'
        f'<button style="{place};top:40px">half</button><div style="{place};top:40px;width:40px;background:red"></div>'
        f'<button style="{place};top:70px;visibility:hidden">hidden</button>'
        f'<button style="{place};top:190px">low</button>'
        '<div style="position:absolute;top:100px;left:10px;width:100px;height:20px;overflow:hidden">'
        f'<button style="{tall}">shown</button><button style="{tall}">clipped</button></div>',
    )  # fmt: skip
    half, low, shown = (element for element in shot.elements if element.role == "button")
    assert (half.box, half.exposed) == ((10, 40, 70, 56), False)  # a click on its middle goes elsewhere
    assert (low.box, low.exposed) == ((10, 190, 70, 200), False)  # the visible part
    assert (shown.name, shown.exposed) == ("shown", True)
    assert [line.text for line in shot.text] == ["shown"]


def test_a_dialog_takes_the_clicks_but_its_veil_lets_text_through(run: Run, renderer: Renderer) -> None:
    shot = shoot(
        run, renderer,
        '<button style="position:absolute;left:5px;top:5px">Behind</button>'
        '<div style="position:fixed;inset:0;background:rgba(0,0,0,.4)">'
        '<div data-role="dialog" style="position:absolute;left:20px;top:60px;width:120px;background:#fff">'
        "<button>Yes</button></div></div>",
    )  # fmt: skip
    assert [e.name for e in shot.elements if e.role == "button"] == ["Yes"]
    assert {line.text for line in shot.text} == {"Behind", "Yes"}


def test_states_and_colours_are_noted(run: Run, renderer: Renderer) -> None:
    shot = shoot(
        run, renderer,
        '<input type="checkbox" checked aria-label="one"><input type="checkbox" aria-label="two">'
        '<button disabled>off</button><div data-role="tab" aria-selected="true">now</div>'
        '<button style="background:#e02020">danger</button><div aria-expanded="true" data-role="button">open</div>',
    )  # fmt: skip
    assert {name: named(shot, name).states for name in ("one", "two", "off", "now", "open")} == {
        "one": ("checked",), "two": (), "off": ("disabled",), "now": ("selected",), "open": ("expanded",),
    }  # fmt: skip
    assert named(shot, "danger").colour == "red"


# ------------------------------------------------------------------------------------------------------- characters


def test_characters_come_in_reading_order_with_boxes_from_the_layout(run: Run, renderer: Renderer) -> None:
    shot = shoot(
        run, renderer, '<p style="margin:0;width:60px">alpha <b>beta</b> gamma</p><p style="margin:0">delta</p>'
    )
    assert [line.text for line in shot.text] == ["alpha beta", "gamma", "delta"]
    first = shot.text.line(0)
    boxes = shot.text.boxes[first.start : first.stop]
    assert first.box[:2] == (0, 0)
    assert (np.diff(boxes[:, 0]) > 0).all()
    assert np.allclose(boxes[1:, 0], boxes[:-1, 2], atol=0.1)
    assert shot.text.line(1).box[1] == 12  # the line height


def test_text_that_is_cut_short_ends_in_the_ellipsis_that_is_drawn(run: Run, renderer: Renderer) -> None:
    style = "width:50px;overflow:hidden;white-space:nowrap;text-overflow:ellipsis"
    shot = shoot(run, renderer, f'<div style="{style}">alphabetical order</div>')
    (line,) = shot.text
    assert line.text.endswith("…")
    assert line.text[:-1] == "alphabetical order"[: len(line.text) - 1]
    assert line.box[2] <= 50.1


def test_fields_lists_and_cases_are_read_as_they_are_drawn(run: Run, renderer: Renderer) -> None:
    shot = shoot(
        run, renderer,
        '<input value="typed"><br><input placeholder="hint"><br><input type="password" value="abc"><br>'
        '<select><option>chosen<option>other</select><br><textarea style="white-space:pre">two\nlines</textarea><br>'
        '<input type="submit" value="Send"><div style="text-transform:uppercase">loud</div>',
    )  # fmt: skip
    assert [line.text for line in shot.text] == ["typed", "hint", "•••", "chosen", "two", "lines", "Send", "LOUD"]
    assert [e.value for e in shot.elements if e.role == "textbox"] == ["typed", "", "•••", "two\nlines"]  # no secrets
    for line in shot.text:
        if line.element >= 0:
            box = shot.elements[line.element].box
            assert box[0] <= line.box[0] <= line.box[2] <= box[2]


_NO_TEXT = """(() => {
  const sheet = document.createElement('style');
  sheet.textContent = `*, *::placeholder { -webkit-text-fill-color: transparent !important }
    svg text { fill: transparent !important }`;
  document.head.append(sheet);
})()"""
_NO_BULLETS = """(() => {
  const sheet = document.createElement('style');
  sheet.textContent = 'ul { list-style: none !important }';
  document.head.append(sheet);
})()"""


def test_every_letter_of_generated_pages_is_where_its_box_is(run: Run, renderer: Renderer) -> None:
    """Make all text transparent: the pixels that change are the text. Each box holds some; none lies outside a box."""

    async def picture(tab: Tab) -> np.ndarray:
        reply = await tab.send("Page.captureScreenshot", format="png")
        return np.array(Image.open(io.BytesIO(base64.b64decode(reply["data"]))).convert("RGB"))

    async def look(tab: Tab) -> tuple[Shot, np.ndarray, np.ndarray]:
        await tab.evaluate(_NO_BULLETS)  # drawn as text, but part of no text
        shot, drawn = await render.shoot(tab), await picture(tab)
        await tab.evaluate(_NO_TEXT)
        return shot, drawn, await picture(tab)

    async def main() -> list[tuple[float, float]]:
        found = []
        for index in range(16):
            page = make_page(Recipe(held_out=index % 5 == 0), 21, index)
            shot, drawn, blank = await on_tab(renderer, page, look)
            found.append(compare(shot.text, ink_of(drawn, blank), page.size.scale))
        return found

    empty, stray = np.array(run(main())).T
    assert empty.mean() < 0.003
    assert stray.mean() < 0.01
    assert empty.max() < 0.1


# ------------------------------------------------------------------------------------------------------ whole pages


def test_a_click_on_the_middle_of_a_box_reaches_its_element(run: Run, renderer: Renderer) -> None:
    """Asked of the browser again, point by point, by element name and role."""
    script = """(points) => JSON.stringify(points.map(([x, y, role]) => {
      const hit = document.elementFromPoint(x, y);
      const box = hit.closest('label')?.control ?? hit.closest(
        `[data-role="${role}"], [role="${role}"], a, button, input, select, textarea`);
      return box ? Object.values(box.getBoundingClientRect().toJSON()).slice(0, 4) : null;
    }))"""

    async def main() -> int:
        checked = 0
        for index in range(8):
            page = make_page(Recipe(episodes=0), 22, index)

            async def ask(tab: Tab) -> tuple[Shot, list[Any]]:
                shot = await render.shoot(tab)
                points = [[*e.centre, e.role] for e in shot.elements if e.clickable]
                return shot, json.loads(await tab.evaluate(f"({script})({json.dumps(points)})"))

            shot, boxes = await on_tab(renderer, page, ask)
            for element, box in zip([e for e in shot.elements if e.clickable], boxes, strict=True):
                assert box is not None, element
                x, y, width, height = box
                left, top, right, bottom = element.box
                assert x <= left + 0.02
                assert y <= top + 0.02
                assert right <= x + width + 0.02
                assert bottom <= y + height + 0.02
                checked += 1
        return checked

    assert run(main()) > 40


def test_painted_elements_have_their_colour_on_the_screenshot(run: Run, renderer: Renderer) -> None:
    recipe = Recipe(sizes=(Size(240, 240, 2),), episodes=0)
    pages = [make_page(recipe, 23, index) for index in range(300)]
    pages = [page for page in pages if {"shapes", "swatches"} & set(page.origin["blocks"])][:8]

    async def main() -> list[list[Shot]]:
        return await asyncio.gather(*map(renderer.render, pages))

    checked = 0
    for page, (shot,) in zip(pages, run(main()), strict=True):
        image = decode(shot.image)
        for element in shot.elements:
            if element.role in ("swatch", "shape") and element.exposed and len(element.name) != 1 and not element.text:
                x, y = (int(v * page.size.scale) for v in element.centre)
                assert colour_name(tuple(int(v) for v in image[y, x])) == element.colour, (page.id, element)
                checked += 1
    assert checked > 15


def test_the_same_page_gives_the_same_pixels_and_labels(run: Run, renderer: Renderer) -> None:
    pages = [make_page(Recipe(episodes=0.5), 24, index) for index in range(4)]

    async def main() -> tuple[list[list[Shot]], list[list[Shot]]]:
        first = [await renderer.render(page) for page in pages]
        async with Renderer(tabs=3) as another:
            second = await asyncio.gather(*(another.render(page) for page in reversed(pages)))
        return first, second[::-1]

    for one, two in zip(*run(main()), strict=True):
        assert len(one) == len(two)
        for a, b in zip(one, two, strict=True):
            assert np.array_equal(decode(a.image), decode(b.image))
            assert a.elements == b.elements
            assert a.text.characters == b.text.characters
            assert np.array_equal(a.text.boxes, b.text.boxes)
            assert a.action == b.action


def test_scale_of_earlier_pages_leaves_no_trace(run: Run, renderer: Renderer) -> None:
    """The same letters in device pixels at scale 1 and at scale 2: Chromium caches the font, and draws it two ways."""
    text = "<!doctype html><body style='font:{}px Liberation Sans'>Sphinx of black quartz, judge my vow 0123456789"
    pages = [
        MadePage("a", text.format(20), Size(400, 120, 1), {}),
        MadePage("b", text.format(10), Size(200, 60, 2), {}),
    ]

    async def draw(order: list[MadePage]) -> list[np.ndarray]:
        async with Renderer(tabs=1) as fresh:
            return [decode((await fresh.render(page))[0].image) for page in order]

    one, two = run(draw(pages)), run(draw(pages[::-1]))[::-1]
    assert np.array_equal(one[0], two[0])
    assert np.array_equal(one[1], two[1])


def test_stored_images_are_the_screenshot_to_the_pixel(run: Run, renderer: Renderer) -> None:
    page = make_page(Recipe(episodes=0), 25, 1)

    async def both(tab: Tab) -> tuple[Shot, bytes]:
        shot = await render.shoot(tab)
        return shot, base64.b64decode((await tab.send("Page.captureScreenshot", format="png"))["data"])

    shot, png = run(on_tab(renderer, page, both))
    assert np.array_equal(decode(shot.image), np.array(Image.open(io.BytesIO(png)).convert("RGB")))
    assert shot.size == Image.open(io.BytesIO(png)).size
    assert len(shot.image) < len(png)


# --------------------------------------------------------------------------------------------------------- episodes


def test_every_kind_of_episode_can_be_played(run: Run, renderer: Renderer) -> None:
    recipe = Recipe(sizes=(Size(240, 240, 2),), episodes=1.0)
    wanted: dict[str, MadePage] = {}
    for index in range(200):
        page = make_page(recipe, 26, index)
        wanted.setdefault(page.origin["layout"].removeprefix("episode/"), page)
    assert set(wanted) == set(FLOWS)

    async def main() -> dict[str, list[Shot]]:
        shots = await asyncio.gather(*map(renderer.render, wanted.values()))
        return dict(zip(wanted, shots, strict=True))

    played = run(main())
    for name, shots in played.items():
        moves = wanted[name].flow.moves  # type: ignore[union-attr]
        assert len(shots) == len(moves), name
        for shot, move in zip(shots, moves, strict=True):
            assert isinstance(shot.action, Write if move.kind == "write" else Click)
            target = next(e for e in shot.elements if e.key == move.key)
            if isinstance(shot.action, Click):
                assert target.box[0] <= shot.action.x <= target.box[2]
        screens = [decode(shot.image) for shot in shots]
        changed = [not np.array_equal(a, b) for a, b in pairwise(screens)]
        assert any(changed), name
    assert all(2 <= len(shots) <= 6 for shots in played.values())


def test_an_episode_that_does_not_end_as_expected_is_dropped(run: Run, renderer: Renderer) -> None:
    recipe = Recipe(sizes=(Size(240, 240, 2),), episodes=1.0)
    page = make_page(recipe, 27, 0)
    assert page.flow is not None
    wrong = replace(page, flow=replace(page.flow, outcome="something else"))
    missing = replace(page, flow=replace(page.flow, moves=(replace(page.flow.moves[0], key="nowhere"),)))
    for broken in (wrong, missing):
        (shot,) = run(renderer.render(broken))
        assert shot.action is None


def test_a_dying_browser_costs_a_retry_and_no_page(run: Run, renderer: Renderer) -> None:
    async def main() -> list[Shot]:
        async with Renderer(tabs=1) as fragile:
            page = make_page(Recipe(episodes=0), 28, 1)
            await fragile.render(page)
            async with fragile.slot(page) as slot:
                assert slot.lease is not None
                await slot.lease.browser.close()
            return await fragile.render(page)

    (shot,) = run(main())
    (expected,) = run(renderer.render(make_page(Recipe(episodes=0), 28, 1)))
    assert shot.elements == expected.elements
