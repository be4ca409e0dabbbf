"""Pages as HTML: the same seed gives the same page, and the held-out side of the split never shows up in training."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from holotron.data.fonts import HELD_OUT, families_for, installed_families
from holotron.data.pages import icons
from holotron.data.pages.blocks import BLOCKS
from holotron.data.pages.flows import FLOWS
from holotron.data.pages.frames import FRAMES
from holotron.data.pages.make import Recipe, Size, make_page
from holotron.data.pages.style import THEMES
from holotron.data.pages.words import LANGUAGES, Words, alphabet
from holotron.errors import ConfigError

PAGES = 400


@pytest.fixture(scope="module")
def train() -> list:
    return [make_page(Recipe(), 3, index) for index in range(PAGES)]


@pytest.fixture(scope="module")
def held_out() -> list:
    return [make_page(Recipe(held_out=True, episodes=0), 3, index) for index in range(PAGES)]


def test_a_page_depends_on_its_seed_and_number_alone(train: list) -> None:
    for index in (399, 7, 0):  # in any order
        again = make_page(Recipe(), 3, index)
        assert (again.html, again.size, again.origin) == (train[index].html, train[index].size, train[index].origin)
    assert make_page(Recipe(), 4, 0).html != train[0].html


def test_pages_are_distinct_and_diverse(train: list) -> None:
    assert len({page.html for page in train}) == PAGES
    for what, least in (("theme", 12), ("layout", 20), ("language", 12), ("voice", 3), ("size", 10)):
        assert len({page.origin[what] for page in train}) >= least, what
    used = Counter(block for page in train for block in page.origin["blocks"])
    assert set(used) == {name for name, block in BLOCKS.items() if not block.held_out}


def test_training_never_uses_what_is_held_out(train: list, held_out: list) -> None:
    def seen(pages: list, what: str) -> set[str]:
        return {page.origin[what] for page in pages}

    def blocks(pages: list) -> set[str]:
        return {block for page in pages for block in page.origin["blocks"]}

    def frames(pages: list) -> set[str]:
        return {page.origin["layout"].split("+")[0] for page in pages} & set(FRAMES)

    for name in ("theme", "font"):
        assert not seen(train, name) & seen(held_out, name)
    assert not blocks(train) & blocks(held_out)
    assert not frames(train) & frames(held_out)
    assert seen(held_out, "theme") == {theme.name for theme in THEMES.values() if theme.held_out}
    assert seen(held_out, "font") <= HELD_OUT
    assert blocks(held_out) == {block.name for block in BLOCKS.values() if block.held_out}


def test_held_out_pages_share_more_words(train: list, held_out: list) -> None:
    def shared(pages: list) -> float:
        shares = []
        for page in pages:
            words = re.findall(r"\w{4,}", re.sub(r"<[^>]*>", " ", page.html.partition("<body")[2]))
            shares.append(1 - len(set(words)) / max(1, len(words)))
        return sum(shares) / len(shares)

    assert shared(held_out) > shared(train)


def test_sizes_are_read_and_checked() -> None:
    assert Size.parse("160x210@2.5") == Size(160, 210, 2.5)
    assert str(Size.parse("1280x800")) == "1280x800@1"
    for wrong in ("160", "160x", "20x20", "160x160@9", "axb"):
        with pytest.raises(ConfigError, match=r"160x160@2|64 to 4096"):
            Size.parse(wrong)


def test_only_the_sizes_asked_for_are_made() -> None:
    recipe = Recipe(sizes=(Size(160, 160, 2),))
    assert {str(make_page(recipe, 1, index).size) for index in range(20)} == {"160x160@2"}


def test_fonts_are_on_one_side_of_the_split() -> None:
    training, reserved = families_for(held_out=False), families_for(held_out=True)
    assert {family.name for family in reserved} <= HELD_OUT
    assert not {family.name for family in training} & HELD_OUT
    assert len(training) + len(reserved) == len(installed_families())


def test_labels_of_a_page_are_distinct_and_share_words() -> None:
    import random

    words = Words(random.Random(1), "en", "real", sharing=0.6)
    labels = [words.label() for _ in range(60)]
    assert len({label.lower() for label in labels}) == 60
    assert len({word for label in labels for word in label.split()}) < sum(len(label.split()) for label in labels)


def test_every_language_has_words_of_its_own_letters() -> None:
    import random

    for language in LANGUAGES:
        for voice in ("real", "invented", "random"):
            words = Words(random.Random(2), language, voice)  # type: ignore[arg-type]
            letters = {letter for _ in range(200) for letter in words.word() if letter.isalpha()}
            assert letters & set(alphabet(language))
    assert "ж" in alphabet("ru")
    assert "ß" in alphabet("de")


def test_every_icon_can_be_drawn_and_named() -> None:
    assert len(icons.NAMES) >= 60
    for name in icons.NAMES:
        assert re.search(r"<(path|circle|rect) ", icons.svg(name, 16))
        assert icons.words_for(name)[0]


def test_small_pages_get_every_kind_of_episode_over_time() -> None:
    recipe = Recipe(sizes=(Size(240, 240, 2),), episodes=1.0)
    kinds = {make_page(recipe, 1, index).origin["layout"].removeprefix("episode/") for index in range(150)}
    assert kinds == set(FLOWS)
