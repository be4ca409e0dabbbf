"""What holds for every app: the same each time, apart from each other, frozen looks, exact checks."""

from __future__ import annotations

import subprocess
import sys

import pytest

from holotron.errors import ConfigError
from holotron.sites.answers import matches, numbers, says_impossible
from holotron.sites.checks import Added, Answered, Changed, Removed, judge
from holotron.sites.looks import HELD_OUT_HASH, LAYOUTS, THEMES, held_out_hash
from holotron.sites.state import State
from holotron.sites.tasks import find_template, sites_tasks, templates
from holotron.sites.variation import Variation
from holotron.sites.words import COMMON, LANGUAGES
from tests.sites.visitor import Visitor

NAMES = [template.name for template in templates()]


def test_held_out_looks_are_frozen() -> None:
    assert held_out_hash() == HELD_OUT_HASH


def test_splits_share_no_look_and_all_else() -> None:
    for seed in range(40):
        train, held_out = (Variation.draw(NAMES[0], seed, split) for split in ("train", "heldout"))  # type: ignore[arg-type]
        assert not train.theme.held_out and not train.layout.held_out
        assert held_out.theme.held_out and held_out.layout.held_out
        same = ("language", "density", "viewport", "today", "trouble")
        assert all(getattr(train, name) == getattr(held_out, name) for name in same)
    assert len({theme.name for theme in THEMES}) == len(THEMES) and len({lay.name for lay in LAYOUTS}) == len(LAYOUTS)


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_gives_the_same_episode_twice(name: str) -> None:
    first, second, other = Visitor(name, 5), Visitor(name, 5), Visitor(name, 6)
    assert first.episode.goal == second.episode.goal
    assert first.episode.state.dump() == second.episode.state.dump() != other.episode.state.dump()
    start = first.episode.assignment.start
    assert first.get(start) == second.get(start) != other.get(other.episode.assignment.start)
    assert not first.done() and first.episode.state.changes() == []


def test_data_without_anything_to_ask_for_are_drawn_again() -> None:
    """In the first mailbox that this seed draws, nothing has a star that could be removed."""
    first, second = (Visitor("mail-star", 230_027).episode for _ in range(2))
    assert first.goal == second.goal and not first.verdict().final


def test_episodes_do_not_share_state() -> None:
    one, two = Visitor(NAMES[0], 5), Visitor(NAMES[0], 5)
    one.episode.state.run("update users set name = 'Somebody Else'")
    assert one.episode.state.changes() and not two.episode.state.changes()


def test_importable_on_a_bare_machine() -> None:
    code = (
        "import sys; from holotron.sites import episode, server, tasks; tasks.templates();"
        "print([m for m in ('torch', 'PIL', 'playwright', 'pydantic', 'fastapi') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_app_has_every_word() -> None:
    tables = [COMMON, *{template.find_app().name: template.find_app().words for template in templates()}.values()]
    assert all(len(texts) == len(LANGUAGES) and all(texts) for table in tables for texts in table.values())


def test_names_of_tasks() -> None:
    assert len(sites_tasks("all", range(3))) == 3 * len(NAMES)
    assert {task.name for task in sites_tasks("shop", [1])} == {n for n in NAMES if n.startswith("shop-")}
    assert all(find_template(task.name).length == "short" for task in sites_tasks("short", [1]))
    with pytest.raises(ConfigError, match="shop-wish"):
        sites_tasks("shop-wihs", [1])
    with pytest.raises(ConfigError, match="split"):
        Variation.draw(NAMES[0], 1, "test")  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------------------ checks


@pytest.fixture
def state() -> State:
    made = State("create table things (id integer primary key, name text, size int);")
    made.add("things", name="lamp", size=3)
    made.add("things", name="rug", size=9)
    made.mark()
    return made


def test_success_needs_exactly_the_wanted_changes(state: State) -> None:
    wanted = (Added("things", name="pot"), Changed("things", 1, size=4), Removed("things", 2))
    state.add("things", name="pot", size=1)
    assert judge(wanted, state.changes(), None).partial == pytest.approx(1 / 3)
    state.run("update things set size = 4 where id = 1")
    state.run("delete from things where id = 2")
    assert judge(wanted, state.changes(), None).success
    state.add("things", name="pot", size=1)  # once too often
    late = judge(wanted, state.changes(), None)
    assert not late.success and "side effect" in late.reason and late.partial == 1.0 and not late.final
    assert judge(wanted, state.changes(), None, irrevocable=frozenset({"things"})).final


def test_a_near_miss_says_what_is_wrong(state: State) -> None:
    state.run("update things set size = 5, name = 'lamp ' where id = 1")
    verdict = judge((Changed("things", 1, size=5),), state.changes(), None)
    assert not verdict.success and "otherwise as it was" in verdict.reason
    verdict = judge((Changed("things", 1, size=4),), state.changes(), None)
    assert not verdict.success and "size 5" in verdict.reason
    verdict = judge((Changed("things", 2, size=5),), state.changes(), None)
    assert not verdict.success and "things 1 was changed, not 2" in verdict.reason


def test_an_answer_does_not_excuse_a_side_effect(state: State) -> None:
    wanted = (Answered("rug"),)
    assert judge(wanted, state.changes(), None).reason == "there is no answer yet"
    assert judge(wanted, state.changes(), "It is the rug.").success
    state.run("delete from things where id = 1")
    assert not judge(wanted, state.changes(), "rug").success


@pytest.mark.parametrize(
    ("answer", "expected", "kind", "others", "right"),
    [
        ("It costs $1,049.50.", "1049.50", "number", (), True),
        ("1.049,50 €", "1049.50", "number", (), True),
        ("1\u202f049,50 €", "1049.50", "number", (), True),
        ("1049.5", "1049.50", "number", (), True),
        ("1049", "1049.50", "number", (), False),
        ("either 12 or 13", "12", "number", ("13",), False),
        ("Order 4512 has 12 items", "12", "number", ("13",), True),
        ("The Oslo Lamp", "Oslo Lamp", "text", ("Bergen Lamp",), True),
        ("Oslo Lamp or Bergen Lamp", "Oslo Lamp", "text", ("Bergen Lamp",), False),
        ("Oslo Lamp Shade", "Oslo Lamp", "text", ("Oslo Lamp Shade",), False),
        ("oslo  lamp!", "Oslo Lamp", "text", (), True),
        ("Oslo", "Oslo Lamp", "text", (), False),
        ("Käthe Weiß", "Kathe Weiss", "text", (), True),
        ("", "Oslo Lamp", "text", (), False),
    ],
)
def test_answers(answer: str, expected: str, kind: str, others: tuple[str, ...], right: bool) -> None:
    assert matches(answer, expected, kind, others) is right  # type: ignore[arg-type]


def test_saying_that_it_cannot_be_done() -> None:
    for answer in ("impossible", "This cannot be done.", "It is sold out", "not possible: out of stock"):
        assert says_impossible(answer)
    for answer in ("done", "I have put it into the cart", "possible", "impossible " * 40):
        assert not says_impossible(answer)


def test_numbers() -> None:
    assert numbers("3 of 12, v2, 1,200 and 4,50") == [3.0, 12.0, 1200.0, 4.5]
