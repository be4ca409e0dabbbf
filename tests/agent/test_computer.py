"""Our actions as the computer tool's and back, in every dialect."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from holotron.actions import InvalidAction
from holotron.agent.computer import ComputerUser, Episode, read_actions, write_action
from holotron.agent.profiles import Profile
from holotron.errors import InputError
from holotron.types import (
    Action,
    Answer,
    Click,
    DoubleClick,
    Drag,
    GoBack,
    Hover,
    PressKeys,
    RightClick,
    Scroll,
    Wait,
    Write,
)

SCREEN = (640, 480)
DIALECTS = ("holotron", "desktop", "surfer", "tools", "compact")
x = st.integers(0, SCREEN[0] - 1).map(float)
y = st.integers(0, SCREEN[1] - 1).map(float)
words = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=20)
keys = st.sampled_from(
    [("Enter",), ("Control", "a"), ("Shift", "Tab"), ("Escape",), ("ArrowDown",), ("x",), ("Meta", "F5")]
)
actions: st.SearchStrategy[Action] = st.one_of(
    st.builds(Click, x, y),
    st.builds(DoubleClick, x, y),
    st.builds(RightClick, x, y),
    st.builds(Hover, x, y),
    st.builds(Drag, x, y, x, y),
    st.builds(PressKeys, keys),
    st.builds(Scroll, st.sampled_from(["up", "down", "left", "right"]), st.integers(1, 900).map(float), x, y),
    st.builds(Write, words, x, y, overwrite=st.booleans(), press_enter=st.booleans()),
    st.builds(Write, words, overwrite=st.booleans(), press_enter=st.booleans()),
)


@given(actions)
def test_what_is_written_reads_the_same(action: Action) -> None:
    written = write_action(action, SCREEN)
    json.dumps(written)
    assert read_actions(written) == [action]


def test_what_has_no_counterpart() -> None:
    assert write_action(Wait(0), SCREEN) == [{"type": "screenshot"}]
    assert write_action(Wait(3), SCREEN) == [{"type": "wait"}]
    assert write_action(Write("", 1, 2), SCREEN)[1:] == [
        {"type": "keypress", "keys": ["CTRL", "a"]},
        {"type": "keypress", "keys": ["BACKSPACE"]},
    ]
    down = {"type": "scroll", "x": 320, "y": 240, "scroll_x": 0, "scroll_y": 384}  # most of a page, in its middle
    assert write_action(Scroll("down"), SCREEN) == [down]
    with pytest.raises(InputError):
        write_action(GoBack(), SCREEN)
    assert read_actions([{"type": "screenshot"}]) == []
    for wrong in (
        {"type": "click", "x": 1},
        {"type": "click", "button": "back", "x": 1, "y": 1},
        {"type": "click", "button": "left", "x": 1, "y": 1, "keys": ["SHIFT"]},
        {"type": "drag", "path": [{"x": 1, "y": 1}]},
        {"type": "keypress"},
        {"type": "keypress", "keys": []},
        {"type": "click", "x": float("inf"), "y": 1},
        {},
    ):
        with pytest.raises(InvalidAction):
            read_actions([wrong])


def png(size: tuple[int, int] = SCREEN) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, "white").save(buffer, "PNG")
    return buffer.getvalue()


def begun(dialect: str, history: str = "append", **how: object) -> Episode:
    user = ComputerUser(Profile(dialect=dialect, history=history))
    return user.begin(**how).told("Do it").saw(png(), "image/png", SCREEN)  # type: ignore[arg-type]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_model_acts_in_its_own_words(dialect: str) -> None:
    episode = begun(dialect)
    question = episode.question()
    assert "Do it" in json.dumps(question.messages)
    said = episode.dialect.render(Click(320, 240), episode.turns[-1].screen, thought="There.")
    after, move = episode.replied(said)
    (action,) = move.actions
    assert action["type"] == "click"
    assert abs(action["x"] - 320) <= 1
    assert abs(action["y"] - 240) <= 1
    assert move.thought == ("" if dialect == "compact" else "There.")
    # The same, told by a client that kept the conversation itself.
    told = episode.acted([action], move.thought)
    _, again = episode.replied(told.turns[-1].said)
    assert again.thought == move.thought
    assert abs(again.actions[0]["x"] - action["x"]) <= 1
    assert abs(again.actions[0]["y"] - action["y"]) <= 1
    next = after.saw(png(), "image/png", SCREEN)
    new = next.question().since(question)
    if dialect == "surfer":  # one message that is written anew each time
        assert new is None
    else:
        assert new is not None
        assert 1 <= len(new) < len(next.question().messages)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_answer_ends_the_task(dialect: str) -> None:
    episode = begun(dialect)
    said = episode.dialect.render(Answer("42"), episode.turns[-1].screen)
    after, move = episode.replied(said)
    assert (move.actions, move.answer) == ((), "42")
    assert after.over
    assert episode.answered("42").turns[-1].said == said
    again = after.told("And now this").saw(png(), "image/png", SCREEN)
    assert "Do it" not in json.dumps(again.question().messages)
    # One who has to act is not offered it.
    _, move = begun(dialect, must_act=True).replied(said)
    assert move.actions == ({"type": "screenshot"},)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_reply_that_is_no_action_is_told_why(dialect: str) -> None:
    after, move = begun(dialect).replied("I would rather not")
    assert move.actions == ({"type": "screenshot"},)
    problem = after.feedback
    assert problem
    next = after.saw(png(), "image/png", SCREEN)
    assert problem[:10] in json.dumps(next.question().messages, ensure_ascii=False).replace('\\"', '"')


def test_coordinates_are_the_displays_where_one_is_declared() -> None:
    for display, expected in ((None, (640, 480)), ((320, 240), (320, 240))):
        user = ComputerUser(Profile(dialect="compact", history="append"))
        episode = user.begin(display).told("x").saw(png((1280, 960)), "image/png", (1280, 960))
        _, move = episode.replied("click 500 500")
        factor = 2 if display is None else 1
        half = expected[0] * factor // 2, expected[1] * factor // 2
        assert (move.actions[0]["x"], move.actions[0]["y"]) == half


def test_turns_that_do_not_fit_are_folded() -> None:
    episode = begun("compact")
    for n in range(5):
        episode, _ = episode.replied(f"click 100 {n}00")
        episode = episode.saw(png(), "image/png", SCREEN)
    whole, folded, most = (episode.question(fold).messages for fold in (0, 3, 5))
    pictures = [json.dumps(messages).count('image_url": {') for messages in (whole, folded, most)]
    assert pictures == [6, 3, 1]
    assert "click 100 200" in json.dumps(most)


def test_several_actions_of_others_are_several_turns() -> None:
    moves = [{"type": "move", "x": 5, "y": 5}, {"type": "click", "button": "left", "x": 5, "y": 5}]
    episode = begun("compact").acted(moves)
    assert [turn.said.split()[0] for turn in episode.turns] == ["hover", "click"]
    # What a dialect cannot say at once, it says in pieces: compact has no "write here and press Enter".
    typed = write_action(Write("hi", 5, 5, press_enter=True), SCREEN)
    assert [turn.said.split()[0] for turn in begun("compact").acted(typed).turns] == ["click", "key", "insert", "key"]
    with pytest.raises(InputError):
        ComputerUser(Profile(dialect="compact")).begin().told("x").acted(moves)  # nothing was shown
