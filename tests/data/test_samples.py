"""Instructions: unambiguous, answerable, and refusals about things that really are not there."""

from __future__ import annotations

import random
import re

import pytest

from holotron.data.describing import ORDINALS, DescribedScreen, normal
from holotron.data.drawn import Painter
from holotron.data.labels import NOT_THERE, Element, Page, Sample, Text, contains, middle
from holotron.data.pages.make import Size
from holotron.data.samples import make_samples
from holotron.data.targets import draw_targets
from holotron.types import Answer, Click

PAGES = 200


@pytest.fixture(scope="module")
def drawn() -> list[tuple[Page, list[Sample]]]:
    painter = Painter(sizes=(Size(160, 160, 2), Size(320, 320, 2)))
    pages = [painter.paint(5, index) for index in range(PAGES)]
    return [(page, make_samples(page.elements, page.text, random.Random(n))) for n, page in enumerate(pages)]


def by_kind(drawn: list[tuple[Page, list[Sample]]], kind: str, by: str = "") -> list[tuple[Page, Sample]]:
    return [(page, s) for page, samples in drawn for s in samples if s.kind == kind and by in ("", s.by)]


def quoted(sample: Sample) -> list[str]:
    return re.findall(r'"([^"]*)"', sample.instruction)


def element(role: str, name: str, x: float, y: float, **more: object) -> Element:
    return Element(role, (x, y, x + 40, y + 12), name=name, text=name, **more)  # type: ignore[arg-type]


def test_all_kinds_are_made(drawn: list) -> None:
    for kind in ("click", "absent", "find", "read"):
        assert len(by_kind(drawn, kind)) > PAGES / 2, kind
    ways = {s.by for _, s in by_kind(drawn, "click")}
    assert ways >= {"text", "part", "order", "place", "colour", "role", "value", "state"}
    assert {s.by for _, s in by_kind(drawn, "read")} >= {
        "line at",
        "word at",
        "cell",
        "below",
        "count",
        "state",
        "value",
    }


def test_what_stands_beside_the_target_is_named_with_its_place(drawn: list) -> None:
    beside = [(page, s) for page, s in by_kind(drawn, "click") if s.anchor is not None]
    assert {s.by for _, s in beside} >= {"text", "place"}  # a box to tick has its name beside it
    assert all(s.anchor is not None for _, s in by_kind(drawn, "click", "place"))
    for page, sample in beside:
        (line,) = {line.text for line in page.text if line.box == sample.anchor}
        assert normal(line).removesuffix(":") in {normal(text).removesuffix(":") for text in quoted(sample)}
        assert not contains(sample.box, *middle(sample.anchor))


def test_small_things_that_are_easily_mistaken_are_asked_for_first() -> None:
    large = [Element("button", (0, 60 * n, 300, 60 * n + 50), name=f"Large {n}") for n in range(5)]
    small = [element("link", f"Old news {n}", 10 + 60 * n, 300) for n in range(3)]
    screen = DescribedScreen([*large, *small], Text.of([]))
    for seed in range(20):
        drawn = draw_targets(screen, random.Random(seed), 6)
        assert set(drawn[:3]) == set(small)
        assert len(set(drawn)) == 6
    assert len(draw_targets(DescribedScreen(large, Text.of([])), random.Random(0), 6)) == 5


def test_a_click_goes_to_the_middle_of_an_element_that_can_be_clicked(drawn: list) -> None:
    for page, sample in by_kind(drawn, "click"):
        target = next(e for e in page.elements if e.box == sample.box)
        assert target.clickable
        action = sample.action()
        assert isinstance(action, Click)
        assert contains(target.box, action.x, action.y)


def test_named_targets_are_the_only_ones_of_that_name(drawn: list) -> None:
    for page, sample in by_kind(drawn, "click", "text"):
        (name,) = quoted(sample)
        screen = DescribedScreen(page.elements, page.text)
        named = [e for e in screen.rivals if normal(e.name) == normal(name)]
        target = next(e for e in named if e.box == sample.box)
        assert sum(e.role == target.role for e in named) == 1


def test_parts_of_names_fit_one_element(drawn: list) -> None:
    tests = {"starts with": str.startswith, "ends with": str.endswith, "contains": str.__contains__}
    for page, sample in by_kind(drawn, "click", "part"):
        (part,) = quoted(sample)
        test = next(test for words, test in tests.items() if words in sample.instruction)
        target = next(e for e in page.elements if e.box == sample.box)
        rivals = DescribedScreen(page.elements, page.text).of_role(target.role)
        assert [e for e in rivals if test(normal(e.name), normal(part))] == [target]


def test_ordinals_count_in_reading_order(drawn: list) -> None:
    for page, sample in by_kind(drawn, "click", "order"):
        target = next(e for e in page.elements if e.box == sample.box)
        ordered = DescribedScreen(page.elements, page.text).in_order(target.role)
        word = next((w for w in ORDINALS if f"the {w} " in sample.instruction), "last")
        assert ordered[-1 if word == "last" else ORDINALS.index(word)] == target


def test_colours_are_unmistakable() -> None:
    clear = [element("button", "a", 0, 0, colour="red"), element("button", "b", 60, 0, colour="blue")]
    unclear = [*clear, element("button", "c", 0, 30, colour="unclear")]
    for elements, expected in ((clear, True), (unclear, False)):
        samples = [s for seed in range(40) for s in make_samples(elements, Text.of([]), random.Random(seed))]
        assert any(s.by == "colour" and s.kind == "click" for s in samples) == expected


def test_two_things_of_one_name_are_told_apart_by_their_rows() -> None:
    text = Text.of(
        [(name, [(x, y, x + 5, y + 9) for x in range(len(name))], -1) for name, y in (("Ann", 0), ("Bob", 30))]
    )
    rows = [element("button", "Edit", 60, y, within=who) for who, y in (("Ann", 0), ("Bob", 30))]
    samples = [s for seed in range(40) for s in make_samples(rows, text, random.Random(seed)) if s.kind == "click"]
    assert samples
    assert not any(s.by == "text" for s in samples)
    for sample in samples:
        if sample.by == "within":
            assert ("Ann" in sample.instruction) == (sample.box == rows[0].box)


def test_bare_icons_are_not_counted_as_buttons() -> None:
    named = [element("button", name, 0, 20 * n) for n, name in enumerate(("One", "Two", "Three"))]
    heart = Element("button", (60, 0, 70, 10), name="like", icon="heart")
    for buttons, counted in ((named, True), ([*named, heart], False)):
        samples = [s for seed in range(60) for s in make_samples(buttons, Text.of([]), random.Random(seed))]
        assert any(s.by == "order" for s in samples if s.kind == "click") == counted


def test_a_name_that_cannot_be_read_on_the_screen_is_not_used() -> None:
    text = Text.of([(name, [(x, 0, x + 5, 9) for x in range(len(name))], -1) for name in ("Send", "to Ann")])
    known = element("button", "Send to Ann", 0, 20)  # written in two lines
    secret = Element("textbox", (0, 40, 80, 52), name="Castle pencil")
    samples = [s for seed in range(40) for s in make_samples([known, secret], text, random.Random(seed))]
    clicks = [s for s in samples if s.kind == "click"]
    assert any("Send to Ann" in s.instruction for s in clicks)
    assert any(s.box == secret.box for s in clicks)
    assert not any("astle" in s.instruction or "penci" in s.instruction for s in clicks)


def test_what_is_refused_is_not_on_the_page(drawn: list) -> None:
    refused = by_kind(drawn, "absent")
    for page, sample in refused:
        assert sample.box is None
        assert sample.action() == Answer(NOT_THERE)
        everything = normal(" ".join([line.text for line in page.text] + [e.name for e in page.elements]))
        for name in quoted(sample):
            assert normal(name) not in everything
        if sample.by == "colour":
            colour = sample.instruction.split("the ")[1].split()[0]
            role = next(r for r in ("button", "shape") if r in sample.instruction)
            assert colour not in {e.colour for e in page.elements if e.role == role}
    assert len({sample.by for _, sample in refused}) >= 2


def test_refusals_sound_like_the_page(drawn: list) -> None:
    """Half of them or more share a word with something that is there, so that wording gives nothing away."""
    named = by_kind(drawn, "absent", "text")
    sharing = [
        any(set(normal(name).split()) & set(normal(e.name).split()) for e in page.elements)
        for page, sample in named
        for name in quoted(sample)
    ]
    assert sum(sharing) >= 0.3 * len(sharing)


def test_reading_answers_are_what_is_written(drawn: list) -> None:
    for page, sample in by_kind(drawn, "read", "line at"):
        assert sample.point is not None
        line = next(line for line in page.text if contains(line.box, *sample.point))
        assert sample.answer == line.text
        worded = sample.worded(lambda x, y: f"{x:.0f} {y:.0f}")
        assert f"{sample.point[0]:.0f} {sample.point[1]:.0f}" in worded
        assert "{" not in worded.replace(sample.answer, "")
    for page, sample in by_kind(drawn, "read", "cell"):
        cell = next(e for e in page.elements if e.box == sample.box)
        assert sample.answer == cell.text
        assert cell.name in sample.instruction
        assert cell.within in sample.instruction
    for _, sample in by_kind(drawn, "read", "count"):
        assert 1 <= int(sample.answer) <= 12
        assert sample.action() == Answer(sample.answer)


def test_text_to_find_is_in_its_box_and_nowhere_else(drawn: list) -> None:
    for page, sample in by_kind(drawn, "find"):
        (text,) = quoted(sample)
        written = "\n".join(normal(line.text) for line in page.text)
        assert written.count(normal(text)) == 1
        assert sample.box is not None
        centres = (page.text.boxes[:, :2] + page.text.boxes[:, 2:]) / 2
        inside = [c for c, (x, y) in zip(page.text.characters, centres, strict=True) if contains(sample.box, x, y)]
        assert "".join(inside).replace(" ", "") == text.replace(" ", "")


def test_the_same_stream_gives_the_same_samples(drawn: list) -> None:
    page, samples = drawn[3]
    assert make_samples(page.elements, page.text, random.Random(3)) == samples


def test_an_empty_page_gives_no_samples() -> None:
    assert make_samples((), Text.of([]), random.Random(0)) == []
