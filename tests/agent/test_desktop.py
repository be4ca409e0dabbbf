"""The desktop dialect: every tool of the reference loop is read; what we can do is done, the rest refused in words."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holotron.agent.dialects import desktop_tools, make_dialect
from holotron.agent.dialects.base import Output
from holotron.agent.messages import Message, to_openai
from holotron.agent.policies.conversation import Conversation
from holotron.agent.profiles import profile_for
from holotron.types import (
    Answer,
    Click,
    Completion,
    DoubleClick,
    Hover,
    Observation,
    PressKeys,
    RightClick,
    Scroll,
    Task,
    Wait,
    Write,
)
from tests.agent.test_dialects import SCREENS, conversation

AT = {"element": "gear", "x": 500, "y": 250}
PLAN = {"tool_name": "update_plan", "goals": [{"title": "Open it", "status": "running"}]}
DIALECT = make_dialect("desktop")
VALIDATOR = jsonschema_rs.validator_for(DIALECT.output().json_schema)


def parse(call: object, dialect=DIALECT, **options):
    text = json.dumps({"note": None, "thought": "t", "tool_call": call})
    return dialect.parse(Completion(text=text), SCREENS[0], **options)


@pytest.mark.parametrize(
    ("call", "action"),
    [
        ({"tool_name": "click_desktop", **AT}, Click(501.5, 175.25, "gear")),
        ({"tool_name": "click_desktop", **AT, "button": "right"}, RightClick(501.5, 175.25, "gear")),
        ({"tool_name": "double_click_desktop", **AT}, DoubleClick(501.5, 175.25, "gear")),
        ({"tool_name": "move_to_desktop", **AT}, Hover(501.5, 175.25, "gear")),
        ({"tool_name": "scroll_desktop", **AT, "direction": "down"}, Scroll("down", 0.0, 501.5, 175.25)),
        (
            {"tool_name": "scroll_desktop", **AT, "direction": "up", "scroll_size": 3},
            Scroll("up", pytest.approx(210.3), 501.5, 175.25),
        ),
        ({"tool_name": "write_desktop", "content": "hi"}, Write("hi", overwrite=False)),
        (
            {"tool_name": "write_desktop", "content": "hi", "overwrite": True, "press_enter": True},
            Write("hi", press_enter=True),
        ),
        ({"tool_name": "hotkey_desktop", "keys": ["ctrl", "shift", "t"]}, PressKeys(("Control", "Shift", "t"))),
        ({"tool_name": "hotkey_desktop", "keys": ["pagedown"], "repeat_count": 1}, PressKeys(("PageDown",))),
        (
            {"tool_name": "hold_and_tap_key_desktop", "hold_keys": ["alt"], "tap_keys": ["left"]},
            PressKeys(("Alt", "ArrowLeft")),
        ),
        (PLAN, Wait(0.0)),
        ({"tool_name": "answer", "content": "42"}, Answer("42")),
    ],
)
def test_tools_become_actions(call, action):
    VALIDATOR.validate({"note": None, "thought": "t", "tool_call": call})
    reply = parse(call)
    assert reply.error == ""
    assert reply.action == action


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ({"tool_name": "drag_to_desktop", **AT}, "dragged from where the cursor is"),
        ({"tool_name": "key_down_desktop", "key": "shift"}, "cannot be held between steps"),
        ({"tool_name": "key_up_desktop", "key": "shift"}, "cannot be held between steps"),
        ({"tool_name": "click_desktop", **AT, "button": "middle"}, "no middle button"),
        ({"tool_name": "hotkey_desktop", "keys": ["tab"], "repeat_count": 5}, "pressed once in a step"),
        ({"tool_name": "hold_and_tap_key_desktop", "hold_keys": ["ctrl"], "tap_keys": ["a", "c"]}, "one key is tapped"),
    ],
)
def test_what_only_a_desktop_can_do_is_understood_and_refused(call, why):
    """The schema offers it, as it did in training; the model is told why nothing happened and what to do instead."""
    VALIDATOR.validate({"note": None, "thought": "t", "tool_call": call})
    reply = parse(call)
    assert reply.action is None
    assert f"{call['tool_name']} was understood, but" in reply.error
    assert why in reply.error
    assert "instead" in reply.error


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"tool_name": "click_desktop", "element": "x", "x": 1001, "y": 0}, "x: Input should be less than or equal"),
        ({"tool_name": "click_desktop", "x": 1, "y": 1}, "element is missing"),
        ({"tool_name": "click_desktop", **AT, "speed": 3}, "speed: Extra inputs"),
        ({"tool_name": "scroll_desktop", **AT, "direction": "sideways"}, "direction"),
        ({"tool_name": "hotkey_desktop", "keys": []}, "keys"),
        ({"tool_name": "hotkey_desktop", "keys": [""]}, "the keys are empty"),
        ({"tool_name": "click", "x": 1, "y": 1}, "there is no tool 'click'"),
        ({"tool_name": ["answer"]}, "there is no tool"),
        ("answer", "no tool_call"),
        (None, "no tool_call"),
    ],
)
def test_malformed_calls_come_back_with_an_explanation(call, message):
    reply = parse(call)
    assert reply.action is None
    assert message in reply.error


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
names = ["x", "y", "element", "keys", "content", "button", "goals", "direction", "scroll_size", "key"]
arguments = st.sampled_from(names)


@given(name=st.sampled_from(sorted(desktop_tools.TOOLS)), given_=st.dictionaries(arguments, json_values, max_size=5))
def test_no_arguments_break_it(name, given_):
    reply = parse({"tool_name": name, **given_})
    assert (reply.action is None) == bool(reply.error)


def test_all_twelve_tools_and_only_answers_at_the_end():
    assert len(desktop_tools.TOOLS) == 12
    offered = json.dumps(DIALECT.output().json_schema)
    assert all(f'"const": "{name}"' in offered for name in desktop_tools.TOOLS)
    assert "click_desktop" not in json.dumps(DIALECT.output(must_answer=True).json_schema)
    assert "use one of: answer" in parse({"tool_name": "click_desktop", **AT}, must_answer=True).error


def test_an_action_space_leaves_out_what_it_does_not_have():
    few = make_dialect("desktop", actions=["click", "write"])
    offered = json.dumps(few.output().json_schema)
    assert "double_click_desktop" not in offered
    assert "key_down_desktop" in offered  # refused everywhere here, and part of what the model learned
    assert "double_click is not available" in parse({"tool_name": "double_click_desktop", **AT}, few).error


# ---------------------------------------------------------------------------------------------- the reference loop

# What the public loop asked a server for when it was run (agent and runner, see fixtures/README.md) with a model that
# says `said`, and a desktop on which the middle button fails.
RECORDED = json.loads((Path(__file__).parent / "fixtures" / "holotron_3_nano_loop.json").read_text())


class Recorder:
    """A chat that says what was said to the reference, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[list[dict[str, Any]]] = []

    async def complete(self, messages: Sequence[Message], output: Output) -> Completion:
        self.asked.append([_flat(to_openai(message)) for message in messages])
        return Completion(text=f"<think>hm</think>\n{json.dumps(RECORDED['said'][len(self.asked) - 1], indent=2)}")

    async def close(self) -> None:
        pass


def _flat(message: dict[str, Any]) -> dict[str, Any]:
    """A message as text with its pictures in it: parts are put together before a model sees them."""
    content = message["content"]
    parts = [content] if isinstance(content, str) else content
    return {"role": message["role"], "content": "".join(_text(part) for part in parts)}


def _text(part: Any) -> str:
    if isinstance(part, str):
        return part
    if "image" in part:  # as it is recorded
        return f"[{part['image']}]"
    if part["type"] == "text":
        return str(part["text"])
    return f"[{base64.b64decode(part['image_url']['url'].partition(',')[2]).decode()}]"


def test_a_whole_conversation_is_the_reference_loops_own() -> None:
    """Message by message, in every request: task, observations, what was understood of replies, results and errors
    of tools, plans that have none, and the line for an old screenshot. The system prompt is in our words."""
    recorder = Recorder()

    async def play() -> None:
        profile = profile_for("Hcompany/Holotron-3-Nano")
        talk = Conversation(Task("", "", "Buy the blue one"), profile.make_dialect(), profile.make_history(), recorder)
        for n, said in enumerate(RECORDED["said"]):
            seen = Observation(b"screen-%d" % (n + 1), "image/png", (1920, 1080), (1920, 1080))
            failed = n and RECORDED["said"][n - 1]["tool_call"].get("button") == "middle"
            reply = await talk.act(seen, feedback="no such button" if failed else "")
            assert bool(reply.error) == (said["tool_call"].get("button") == "middle")

    asyncio.run(play())
    for mine, theirs in zip(recorder.asked, RECORDED["asked"], strict=True):
        assert mine[0]["role"] == "system"
        assert mine[1:] == [_flat(message) for message in theirs]


def test_sampling_and_tools_are_the_reference_loops_own() -> None:
    profile, sampling = profile_for("Hcompany/Holotron-3-Nano"), RECORDED["sampling"]
    assert {name: getattr(profile, name) for name in ("temperature", "top_p", "max_tokens")} == {
        name: value for name, value in sampling.items() if name != "reasoning_effort"
    }
    assert list(desktop_tools.TOOLS) == list(RECORDED["tools"])
    for name, schema in RECORDED["tools"].items():
        assert _bare(desktop_tools.tool_schema(name)) == schema


def _bare(schema: Any) -> Any:
    """A schema without its words."""
    if isinstance(schema, list):
        return [_bare(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _bare(item) for name, item in value.items()} if key == "properties" else _bare(value)
        for key, value in schema.items()
        if key not in ("title", "description", "default")
    }


def test_a_reply_that_cannot_be_read_stands_as_it_was() -> None:
    for said in ("no JSON at all", '{"tool_call": {"tool_name": "fly"}}', '{"thought": 3, "tool_call": {}}'):
        turn = replace(conversation("desktop", 2)[0], said=said)
        assert DIALECT.replied(turn).text == said


@pytest.mark.parametrize("name", ["Hcompany/Holotron-3-Nano", "holotron4-30b-a3b"])
def test_its_models_speak_it(name):
    profile = profile_for(name)
    assert (profile.dialect, profile.history, profile.temperature) == ("desktop", "window:3", 0.8)
    assert profile.thinking is True
