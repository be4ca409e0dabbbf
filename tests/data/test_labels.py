"""Labels: lines, words, the grid of characters, colours by name, and the way into JSON and back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holotron.data.colours import NAMES, UNCLEAR, colour_name, contrast, hsl, legible, parse_css
from holotron.data.labels import Element, Text, elements_from_json, elements_to_json


def boxes(text: str, x: float, y: float, width: float = 5, height: float = 10) -> list[tuple[float, ...]]:
    return [(x + width * i, y, x + width * (i + 1), y + height) for i in range(len(text))]


def some_text() -> Text:
    return Text.of([("ab cd", boxes("ab cd", 2, 3), -1), ("é", boxes("é", 40, 20), 0)])


def test_lines_and_words_know_their_text_and_place() -> None:
    text = some_text()
    assert text.characters == "ab cdé"
    assert [(line.text, line.element) for line in text] == [("ab cd", -1), ("é", 0)]
    words = list(text.words())
    assert [word.text for word in words] == ["ab", "cd", "é"]
    assert words[1].box == (17, 3, 27, 13)
    assert text.characters[words[1].start : words[1].stop] == "cd"


def test_text_may_be_empty() -> None:
    text = Text.of([])
    assert list(text) == []
    assert text.boxes.shape == (0, 4)


elements = st.builds(
    Element,
    role=st.sampled_from(["button", "link", "cell"]),
    box=st.tuples(*[st.floats(0, 2000, width=32)] * 4),
    name=st.text(max_size=20),
    value=st.text(max_size=5),
    states=st.lists(st.sampled_from(["checked", "disabled"]), max_size=2).map(tuple),
    exposed=st.booleans(),
)


@given(st.lists(elements, max_size=5))
def test_elements_survive_json(some: list[Element]) -> None:
    assert elements_from_json(elements_to_json(some)) == tuple(some)


def test_colours_have_the_names_people_use() -> None:
    named = {"#ff0000": "red", "#ffa500": "orange", "#ffff00": "yellow", "#008000": "green", "#0000ff": "blue",
             "#800080": "purple", "#ff69b4": "pink", "#8b4513": "brown", "#000000": "black", "#ffffff": "white",
             "#808080": "grey", "#00ffff": "cyan"}  # fmt: skip
    for code, name in named.items():
        rgb = tuple(int(code[i : i + 2], 16) for i in (1, 3, 5))
        found = colour_name(rgb)  # type: ignore[arg-type]
        assert found in (name, UNCLEAR), (code, found)
    assert colour_name((255, 0, 0)) == "red"
    assert colour_name((0, 0, 255)) == "blue"
    assert colour_name((255, 90, 0)) == UNCLEAR  # red or orange?


@given(st.tuples(*[st.integers(0, 255)] * 3))
def test_every_colour_has_at_most_one_known_name(rgb: tuple[int, int, int]) -> None:
    assert colour_name(rgb) in {*NAMES, UNCLEAR, ""}


@given(st.floats(0, 360), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_legible_colours_can_be_read(hue: float, saturation: float, a: float, b: float) -> None:
    ink, ground = hsl(hue, saturation, a), hsl(hue + 40, saturation, b)
    assert contrast(legible(ink, ground, 4.0), ground) >= 4.0


def test_css_colours_are_read() -> None:
    assert parse_css("rgb(1, 2, 3)") == ((1, 2, 3), 1.0)
    assert parse_css("rgba(1, 2, 3, 0.25)") == ((1, 2, 3), 0.25)
    assert parse_css("none") is None
