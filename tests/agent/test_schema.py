"""Untrusted JSON becomes an action or an error that tells the model what to do; schemas compile and agree with both."""

from __future__ import annotations

import json

import jsonschema_rs
import llguidance
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holotron.actions import (
    ACTIONS,
    DESCRIPTIONS,
    InvalidAction,
    action_from_json,
    action_schema,
    action_to_json,
    check_action_names,
    first_json_object,
    split_reasoning,
    union_schema,
)
from holotron.agent.coordinates import Frame, frame_schema
from holotron.errors import InputError
from holotron.keys import normalise_keys
from holotron.types import Click, PressKeys, Scroll, Wait, Write
from tests.agent.actions import actions

SHORT = actions((1000, 700))


@given(action=SHORT, defaults=st.booleans())
def test_actions_survive_json(action, defaults):
    assert action_from_json(json.loads(json.dumps(action_to_json(action, defaults=defaults)))) == action


@given(action=SHORT)
def test_written_actions_satisfy_their_schema(action):
    schema = action_schema(action.tool_name, {"type": "number"})
    assert jsonschema_rs.is_valid(schema, action_to_json(action, defaults=True))
    assert list(schema["properties"]) == list(action_to_json(action, defaults=True))  # decoders write in this order


def test_every_action_is_described():
    assert set(DESCRIPTIONS) == set(ACTIONS)
    assert len(ACTIONS) == 17


@pytest.mark.parametrize("frame", list(Frame))
def test_schema_compiles_for_constrained_decoding(frame):
    schema = union_schema(tuple(ACTIONS), frame_schema(frame))
    assert llguidance.LLMatcher.validate_grammar(llguidance.LLMatcher.grammar_from_json_schema(schema)) == ""


def test_element_is_named_before_it_is_pointed_at():
    assert list(action_schema("click", {"type": "integer"})["properties"]) == ["tool_name", "element", "x", "y"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"tool_name": "clik", "x": 1, "y": 2}, "did you mean click"),
        ({"x": 1, "y": 2}, "no tool_name"),
        ([1, 2], "must be a JSON object"),
        ({"tool_name": "click", "x": 1}, "y is missing"),
        ({"tool_name": "click", "x": "left", "y": 2}, "x: .*number.*'left'"),
        ({"tool_name": "click", "x": float("inf"), "y": 2}, "finite"),
        ({"tool_name": "write", "content": "a", "x": 3}, "both x and y"),
        ({"tool_name": "wait", "seconds": 11}, "between 0 and 10"),
        ({"tool_name": "press_keys", "keys": []}, "empty"),
        ({"tool_name": "scroll", "direction": "sideways"}, "direction"),
    ],
)
def test_mistakes_are_explained(value, message):
    with pytest.raises(InvalidAction, match=message):
        action_from_json(value)


def test_actions_outside_the_action_space_are_refused():
    with pytest.raises(InvalidAction, match=r"no action 'goto'\. Use one of: click"):
        action_from_json({"tool_name": "goto", "url": "http://a"}, allowed=("click",))
    with pytest.raises(InputError, match="unknown action 'clack'"):
        check_action_names(["click", "clack"])


def test_lenient_where_nothing_is_lost():
    assert action_from_json({"tool_name": "click", "x": "12", "y": 3, "element": None}) == Click(12, 3)
    assert action_from_json({"tool_name": "scroll", "direction": "up", "x": None, "y": None}) == Scroll("up")
    assert action_from_json({"tool_name": "write", "content": "a", "press_enter": None}) == Write("a")
    assert action_from_json({"tool_name": "wait"}) == Wait(1.0)
    assert action_from_json({"tool_name": "press_keys", "keys": "ctrl+shift+T"}) == PressKeys(("Control", "Shift", "T"))


@pytest.mark.parametrize(
    ("keys", "chord"),
    [
        (("ESC",), ("Escape",)),
        (("cmd+c",), ("Meta", "c")),
        (("Control++",), ("Control", "+")),
        (("ctrl + a",), ("Control", "a")),
        ((" Enter ",), ("Enter",)),
        (("Control", "Shift", "+"), ("Control", "Shift", "+")),
        (("return",), ("Enter",)),
        ((" ",), ("Space",)),
        (("a",), ("a",)),
        (("A",), ("A",)),
    ],
)
def test_key_names(keys, chord):
    assert normalise_keys(keys) == chord


@pytest.mark.parametrize(
    "text",
    [
        '{"a": {"b": "}"}}',
        '```json\n{"a": {"b": "}"}}\n```',
        'Sure! Here is the action:\n{"a": {"b": "}"}} and that is it',
    ],
)
def test_json_is_found_in_chatter(text):
    assert first_json_object(text) == {"a": {"b": "}"}}


@pytest.mark.parametrize(
    ("text", "message"), [("I would click", "no JSON object"), ('{"a": ', "not valid JSON"), ("", "no JSON")]
)
def test_no_json_is_explained(text, message):
    with pytest.raises(InvalidAction, match=message):
        first_json_object(text)


@given(st.text(max_size=200))
def test_any_text_gives_an_object_or_an_explanation(text):
    try:
        value = first_json_object(text)
    except InvalidAction:
        return
    assert isinstance(value, dict)


def test_reasoning_is_split_off():
    assert split_reasoning("<think>hm\nhm</think>\n{}") == ("hm\nhm", "{}")
    assert split_reasoning("hm</think>{}") == ("hm", "{}")  # the opening tag is part of the prompt
    assert split_reasoning('{"content": "</think>"}') == ("", '{"content": "</think>"}')
    assert split_reasoning("click 1 2") == ("", "click 1 2")
