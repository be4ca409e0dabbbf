"""The scripted MiniWoB++ solver: its pure parts by example and property, its tasks in real Chromium."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holotron.envs.miniwob import SUCCESS, MiniWobEnvironment, MiniWobPool, task_names
from holotron.errors import InputError, PolicyError
from holotron.suites.miniwob_solver import SOLVERS, Page, SolverPolicy, parse_page, solve
from holotron.suites.miniwob_solver.choosing import names_in
from holotron.suites.miniwob_solver.games import LINES, RINGS, best_square, next_guess, next_probe
from holotron.suites.miniwob_solver.limits import SOMETIMES, UNSOLVED
from holotron.suites.miniwob_solver.measure import measure, run_episode
from holotron.suites.miniwob_solver.moves import bring_into_view, check, click, complete, fill
from holotron.suites.miniwob_solver.page import Rect
from holotron.suites.miniwob_solver.shapes import corners
from holotron.suites.miniwob_solver.words import listed, ordinal, parse, quoted, rgb
from holotron.types import Action, Click, Drag, PressKeys, Scroll, Task, Write

# ------------------------------------------------------------------------------------------------------ reading goals


def test_words_of_goals() -> None:
    assert quoted('Enter "a b" and "c".') == ["a b", "c"]
    assert listed("x1, Yz") == ["x1", "Yz"]
    assert listed("nothing") == []
    assert [ordinal(word) for word in ("1st", "2nd", "3rd", "4th", "12th")] == [1, 2, 3, 4, 12]
    assert rgb("rgba(1, 20, 255, 0.5)") == (1, 20, 255)
    with pytest.raises(InputError, match="does not understand the goal"):
        parse("Dance.", r"Click (\w+)")


def test_names_with_commas_are_told_apart() -> None:
    options = pages(*(box("option", text=t) for t in ("Korea, Republic of", "Peru", "Korea"))).elements
    assert names_in("Korea, Republic of, Peru", list(options)) == {"Korea, Republic of", "Peru"}
    assert names_in("Korea, Republic of", list(options)) == {"Korea, Republic of"}


# --------------------------------------------------------------------------------------------------- moves on a page


def box(tag: str, x: float = 10, y: float = 60, w: float = 100, h: float = 20, **facts: Any) -> dict[str, Any]:
    """One element as the page reports it; `shown` and `point` default to all of it and its middle."""
    rect = [x, y, w, h]
    raw: dict[str, Any] = {
        "tag": tag, "id": "", "parent": -1, "classes": [], "text": "", "value": "", "checked": False, "disabled": False,
        "focused": False, "rect": rect, "shown": rect, "point": [x + w / 2, y + h / 2], "background": "",
        "attributes": {}, "scroll": None,
    }  # fmt: skip
    return raw | facts


def pages(*elements: dict[str, Any], scroll: tuple[float, float, float] = (0, 210, 210)) -> Page:
    dump = {"viewport": [160, 210], "elements": list(elements), "scroll": scroll, "answer": None}
    return parse_page(json.dumps(dump))


HIDDEN: dict[str, Any] = {"shown": None, "point": None}


def test_text_is_entered_by_clicking_and_then_typing() -> None:
    page = pages(box("input"))
    assert fill(page, page.elements[0], "hello") == Click(60, 70, element="input")
    page = pages(box("input", focused=True, value="something else"))
    assert fill(page, page.elements[0], "hello") == Write("hello")
    page = pages(box("input", focused=True, value="hello"))
    assert fill(page, page.elements[0], "hello") is None


def test_what_is_typed_says_what_it_was_read_from() -> None:
    """Where there is more to it than copying: sums, and words by their number."""
    form = (box("input", focused=True), box("button", text="Submit"))
    page = pages(*form, box("div", id="math-problem", text="x - 7 = 77"))
    assert solve("simple-algebra", "", page, {}) == Write("84", read="x - 7 = 77")
    page = pages(*form, box("p", text="Quam, augue tellus."))
    assert solve("find-word", "Find the 2nd word", page, {}) == Write("augue", read="1 Quam 2 augue")


def test_boxes_are_ticked_and_unticked() -> None:
    page = pages(box("input", checked=True))
    assert check(page, page.elements[0]) is None
    assert isinstance(check(page, page.elements[0], wanted=False), Click)


def test_what_is_out_of_view_is_scrolled_to_not_clicked() -> None:
    below = pages(
        box("div", x=0, y=50, w=160, h=150, scroll=[0, 900, 150]),
        box("button", y=700, parent=0, **HIDDEN),
    )
    assert click(below, below.elements[1]) == Scroll("down", 100, x=80, y=125)
    above = pages(
        box("div", x=0, y=50, w=160, h=150, scroll=[700, 900, 150]),
        box("button", y=-300, parent=0, **HIDDEN),
    )
    assert click(above, above.elements[1]) == Scroll("up", 100, x=80, y=125)
    window = pages(box("button", y=260, **HIDDEN), scroll=(0, 400, 210))
    assert click(window, window.elements[0]) == Scroll("down", 100, x=80, y=105)
    end = pages(box("button", y=215, **HIDDEN), scroll=(0, 210, 210))
    assert bring_into_view(end, end.elements[0]) is None  # nothing left to scroll


def test_what_is_covered_is_uncovered() -> None:
    page = pages(box("button", point=None))
    assert click(page, page.elements[0]) == PressKeys(("Escape",))


def test_proposals_are_typed_for_and_clicked() -> None:
    field, proposal = box("input", focused=True, value="Eg"), box("li", y=100, classes=["ui-menu-item"], text="Egypt")

    def fits(text: str) -> bool:
        return text == "Egypt"

    page = pages(field)
    assert complete(page, page.elements[0], "Eg", fits) == Write("Eg")
    page = pages(field, proposal)
    assert complete(page, page.elements[0], "Eg", fits) == Click(60, 110, element="Egypt")
    page = pages(field | {"value": "Egypt"})
    assert complete(page, page.elements[0], "Eg", fits) is None


# -------------------------------------------------------------------------------------------------------- thinking


@given(
    sides=st.integers(3, 7),
    turn=st.floats(0, 2 * math.pi),
    noise=st.lists(st.floats(-0.7, 0.7), min_size=360, max_size=360),
)
def test_corners_of_a_polygon_are_counted(sides: int, turn: float, noise: list[float]) -> None:
    def distance(degree: int) -> float:
        into_side = (math.radians(degree) + turn) % (2 * math.pi / sides) - math.pi / sides
        return 35 * math.cos(math.pi / sides) / math.cos(into_side)

    assert corners([distance(i) + noise[i] for i in range(360)]) == sides


@pytest.mark.parametrize("secret", range(10))
def test_guessing_halves(secret: int) -> None:
    guess, guesses = 5, 1
    while guess != secret:
        guess, guesses = next_guess(guess, higher=secret > guess), guesses + 1
    assert guesses <= 4


@settings(max_examples=40)
@given(x=st.integers(5, 154), y=st.integers(55, 164))
def test_hot_spot_is_found(x: int, y: int) -> None:
    plane = Rect(2, 52, 156, 127)
    heard: list[tuple[float, float, str]] = []
    for _ in range(16):
        px, py = next_probe(plane, heard)
        distance = math.hypot(px - x, py - y)
        signal = next(name for name, (near, far) in RINGS.items() if near <= distance < far)
        if signal == "HOT":
            return
        heard.append((px, py, signal))
    pytest.fail(f"not found after {heard}")


@given(st.text("XO ", min_size=9, max_size=9).filter(lambda b: abs(b.count("X") - b.count("O")) <= 1 and " " in b))
def test_a_win_at_hand_is_taken(board: str) -> None:
    wins = {i for line in LINES for i in line if board[i] == " " and all(board[j] == "X" for j in line if j != i)}
    if wins and not any(all(board[i] == who for i in line) for line in LINES for who in "XO"):
        assert best_square(board) in wins


def test_every_registered_task_is_solved_or_accounted_for() -> None:
    assert set(SOLVERS) | set(UNSOLVED) == set(task_names())
    assert not set(SOLVERS) & set(UNSOLVED)
    assert set(SOMETIMES) <= set(SOLVERS)


def test_errors_say_what_is_wrong() -> None:
    with pytest.raises(InputError, match="no scripted solver for the MiniWoB\\+\\+ task 'make-tea'"):
        solve("make-tea", "Make tea.", pages(), {})
    with pytest.raises(PolicyError, match="at a loss in click-test"):
        solve("click-test", "Click the button.", pages(), {})


# ------------------------------------------------------------------------------------------------- in real Chromium

SAMPLE = (
    "ascending-numbers", "bisect-angle", "book-flight", "choose-date", "choose-list", "click-checkboxes-large",
    "click-collapsible-2", "click-menu", "click-scroll-list", "click-shades", "click-tab-2-hard", "copy-paste",
    "count-sides", "daily-calendar", "drag-cube", "drag-items-grid", "drag-shapes-2", "email-inbox-nl-turk",
    "enter-date", "find-greatest", "guess-number", "highlight-text-2", "hot-cold", "login-user-popup", "multi-layouts",
    "navigate-tree", "phone-book", "read-table-2", "sign-agreement", "social-media-all", "terminal",
    "text-editor", "use-autocomplete", "use-colorwheel", "use-slider", "stock-market",
)  # fmt: skip


class Browser:
    """An event loop and a pool of environments, shared by the tests below."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self.run = runner.run
        self._pool = MiniWobPool(sessions=1, browsers=1, scale=1)
        self.environment: MiniWobEnvironment = self.run(self._pool.acquire())

    def close(self) -> None:
        self.run(self._pool.release(self.environment))
        self.run(self._pool.close())


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with asyncio.Runner() as runner:
        browser = Browser(runner)
        yield browser
        browser.close()


@pytest.mark.browser
@pytest.mark.slow
def test_a_sample_of_every_family_is_solved() -> None:
    results = asyncio.run(measure(SAMPLE, range(40, 42)))
    assert {r.name: [e for e in r.episodes if not e.solved] for r in results if r.success < 1} == {}
    assert all(len(r.episodes) == 2 for r in results)


@pytest.mark.browser
def test_coordinates_count_from_the_cropped_observation() -> None:
    names = ("click-button", "circle-center", "email-inbox", "highlight-text", "hot-cold", "use-slider")
    results = asyncio.run(measure(names, range(50, 52), crop=True))
    assert [r.name for r in results if r.success < 1] == []


@pytest.mark.browser
def test_steps_and_verdict_of_one_demonstration(browser: Browser) -> None:
    episode = browser.run(run_episode(browser.environment, "enter-text", 7))
    assert (episode.reward, episode.steps, episode.problem) == (1.0, 3, "")  # click, type, submit


async def follow(
    environment: MiniWobEnvironment, name: str, seed: int, stray: list[Action]
) -> tuple[float, list[Action]]:
    """The reward and the actions when somebody else does the `stray` actions first, while the solver looks on."""
    observation = await environment.reset(Task("miniwob", name, seed=seed))
    session = await SolverPolicy().start(environment.task, environment)
    done: list[Action] = []
    for step in range(40):
        action = (await session.act(observation)).action
        assert action == (await session.act(observation)).action  # the state decides, not how often it was asked
        assert action is not None
        done.append(stray[step] if step < len(stray) else action)
        result = await environment.step(done[-1])
        if result.done:
            return result.reward, done
        observation = result.observation
    return 0.0, done


STRAYING: list[tuple[str, list[Action]]] = [
    ("click-checkboxes", [Click(13, 66), Click(13, 80)]),
    ("enter-text", [Click(60, 75), Write("nonsense")]),
    ("login-user", [Click(60, 75), Write("nonsense"), Click(60, 115), Write("more of it")]),
    ("drag-single-shape", [Drag(80, 110, 20, 70), Drag(20, 70, 130, 140)]),
    ("draw-line", [Drag(20, 70, 130, 150)]),
    ("text-editor", [Drag(18, 100, 90, 100), Click(46, 66), Click(74, 66)]),
    ("email-inbox-reply", [Click(50, 100), Click(108, 178)]),
    ("choose-date", [Click(93, 62), Click(80, 140)]),
    ("daily-calendar", [Drag(87, 90, 87, 150)]),
    ("order-food", [Scroll("down", 100, x=80, y=130), Scroll("down", 100, x=80, y=130)]),
    ("click-tab-2-hard", [Click(40, 70), Click(60, 70)]),
]


@pytest.mark.browser
@pytest.mark.parametrize(("name", "stray"), STRAYING, ids=[name for name, _ in STRAYING])
def test_it_goes_on_from_where_a_learner_went(browser: Browser, name: str, stray: list[Action]) -> None:
    reward, done = browser.run(follow(browser.environment, name, 3, stray))
    assert len(done) > len(stray), "the stray actions ended the episode: choose others"
    assert reward >= SUCCESS, done


@pytest.mark.browser
def test_hidden_things_are_looked_for_in_order(browser: Browser) -> None:
    """A link in the last tab is found by opening one tab after the other, never by going straight to it."""
    walks = []
    for seed in range(6):
        reward, done = browser.run(follow(browser.environment, "click-tab-2-hard", seed, []))
        assert reward == 1.0
        walks.append([a.element for a in done[:-1] if isinstance(a, Click)])
    assert any(len(walk) >= 2 for walk in walks)
    assert all(walk == [str(i) for i in range(2, 2 + len(walk))] for walk in walks)
