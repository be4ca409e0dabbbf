from __future__ import annotations

import json
import sys
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holotron.model.processor import ReplyParser, ReplyPart, ToolCall, parse_reply

CLICK = ToolCall("click", {"x": 512, "y": 88})
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "click",
            "parameters": {
                "type": "object",
                "properties": {
                    "x": {"type": "integer"},
                    "y": {"type": "integer"},
                    "label": {"type": "string"},
                    "keys": {"type": "array"},
                },
            },
        },
    }
]
JSON_CALL = '<TOOLCALL>[{"name": "click", "arguments": {"x": 512, "y": 88}}]</TOOLCALL>'
XML_CALL = (
    "<tool_call>\n<function=click>\n<parameter=x>\n512\n</parameter>\n<parameter=y>\n88\n</parameter>\n"
    "</function>\n</tool_call>"
)
QWEN_CALL = '<tool_call>\n{"name": "click", "arguments": {"x": 512, "y": 88}}\n</tool_call>'
CALLS = [JSON_CALL, XML_CALL, QWEN_CALL]


@pytest.mark.parametrize(
    ("text", "opens", "expected"),
    [
        ("Hello.", False, ReplyPart("", "Hello.")),
        ("Hm.\n</think>\n\nHello.", True, ReplyPart("Hm.", "Hello.")),
        ("<think>\nHm.\n</think>Hello.", False, ReplyPart("Hm.", "Hello.")),
        ("\n <think>Hm.</think>Hello.", False, ReplyPart("Hm.", "Hello.")),
        ("</think>Hello.", True, ReplyPart("", "Hello.")),
        ("cut off while think", True, ReplyPart("cut off while think", "")),
        ("ends in a piece of a tag </thi", True, ReplyPart("ends in a piece of a tag </thi", "")),
        ("a <think> later is text", False, ReplyPart("", "a <think> later is text")),
        ("a < b\n\nand c\n\n", False, ReplyPart("", "a < b\n\nand c")),
        ("", False, ReplyPart()),
        ("<thin", False, ReplyPart("", "<thin")),
        ("  ", False, ReplyPart("", "  ")),
    ],
)
def test_reasoning_and_content(text, opens, expected):
    assert parse_reply(text, opens_reasoning=opens) == expected


@pytest.mark.parametrize("call", CALLS)
def test_all_three_notations_of_a_call(call):
    assert parse_reply(call, tools=TOOLS) == ReplyPart("", "", (CLICK,))
    reply = parse_reply(f"Hm.</think>\nI click.\n\n{call}\n", opens_reasoning=True, tools=TOOLS)
    assert reply == ReplyPart("Hm.", "I click.", (CLICK,))


@pytest.mark.parametrize("call", CALLS)
def test_several_calls_and_text_between(call):
    reply = parse_reply(f"One {call}\ntwo{call}{call}", tools=TOOLS)
    assert reply == ReplyPart("", "One \ntwo", (CLICK,) * 3)


def test_several_calls_in_one_block():
    text = '<TOOLCALL>[{"name": "a", "arguments": {}}, {"name": "b", "arguments": "{\\"c\\": [1]}"}]</TOOLCALL>'
    assert parse_reply(text, tools=[]).tool_calls == (ToolCall("a", {}), ToolCall("b", {"c": [1]}))


def test_a_quoted_page_ends_no_call_to_begin_another():
    """Tags of functions and parameters are letters; templates write one function in a block."""
    page = "</parameter></function><function=b><parameter=c>1"
    text = f"<tool_call><function=a><parameter=note>{page}</parameter></function></tool_call>"
    assert parse_reply(text, tools=[]) == ReplyPart("", text)


@pytest.mark.parametrize("call", CALLS)
def test_a_call_whose_closing_tag_was_the_stop(call):
    whole = call.rpartition("</")[0]
    assert parse_reply(whole, tools=TOOLS).tool_calls == (CLICK,)


def test_values_follow_the_schema():
    text = (
        "<tool_call><function=click><parameter=label>\n512\n\n</parameter><parameter=keys>[1, 2]</parameter>"
        "<parameter=x>not a number</parameter><parameter=unknown>7</parameter></function></tool_call>"
    )
    (call,) = parse_reply(text, tools=TOOLS).tool_calls
    assert call.arguments == {"label": "512\n", "keys": [1, 2], "x": "not a number", "unknown": "7"}


@pytest.mark.parametrize(
    "text",
    [
        "<TOOLCALL>[{]</TOOLCALL>",
        '<TOOLCALL>["click"]</TOOLCALL>',
        "<TOOLCALL>[]</TOOLCALL>",
        '<TOOLCALL>[{"name": 1, "arguments": {}}]</TOOLCALL>',
        '<TOOLCALL>[{"name": "a", "arguments": [1]}]</TOOLCALL>',
        '<TOOLCALL>[{"name": "a", "arguments": "{"}]</TOOLCALL>',
        "<tool_call>hello</tool_call>",
        "<tool_call>text <function=a></function></tool_call>",
        "<tool_call><function=a>stray</function></tool_call>",
        "<tool_call><function=a></function> and more</tool_call>",
        '<TOOLCALL>[{"name": "a", "arguments": {"x": NaN}}]</TOOLCALL>',
        "<TOOLCALL>" + "[" * 5000 + "</TOOLCALL>",
        "<TOOLCALL>",
    ],
)
def test_what_is_no_call_stays_in_the_content(text):
    assert parse_reply(f"Before {text} after", tools=TOOLS) == ReplyPart("", f"Before {text} after")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("1e999", sys.float_info.max),
        ("[-1e999, 1.5]", [-sys.float_info.max, 1.5]),
        ("NaN", "NaN"),
        ("-Infinity", "-Infinity"),
        ('{"x": NaN}', '{"x": NaN}'),
        (r'"\ud83d \ud83d\ude00 \\ud83d"', "\ufffd \U0001f600 \\ud83d"),
    ],
)
def test_arguments_can_be_written_as_json_that_others_read(written, meant):
    """Python reads more than JSON, and makes what JSON cannot say: infinity, not a number, half a character."""
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {"$ref": "#/x"}}}}}]
    texts = [f"<tool_call>\n<function=f>\n<parameter=a>\n{written}\n</parameter>\n</function>\n</tool_call>"]
    if meant != written:
        texts.append(f'<tool_call>\n{{"name": "f", "arguments": {{"a": {written}}}}}\n</tool_call>')
    for text in texts:
        (call,) = parse_reply(text, tools=tools).tool_calls
        assert call.arguments == {"a": meant}
        assert json.loads(json.dumps(call.arguments, allow_nan=False, ensure_ascii=False).encode()) == {"a": meant}


@pytest.mark.parametrize("call", CALLS)
def test_without_tools_calls_are_content(call):
    assert parse_reply(call) == ReplyPart("", call)


PIECES = ["<think>", "</think>", "\n", "word ", "<", "<TOOL", "</TOOLCALL>", "<tool_call>", "{", "é", *CALLS]


@settings(max_examples=500, deadline=None)
@given(
    pieces=st.lists(st.sampled_from(PIECES), max_size=10),
    cuts=st.lists(st.integers(0, 300), max_size=30),
    opens=st.booleans(),
    tools=st.sampled_from([None, TOOLS]),
)
def test_the_parts_do_not_depend_on_how_the_text_was_cut(pieces, cuts, opens, tools):
    text = "".join(pieces)
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    parser = ReplyParser(opens_reasoning=opens, tools=tools)
    total = ReplyPart()
    for start, end in pairwise(places):
        total += parser.push(text[start:end])
    assert total + parser.finish() == parse_reply(text, opens_reasoning=opens, tools=tools)


def test_text_streams_as_soon_as_it_is_certain():
    parser = ReplyParser(opens_reasoning=True, tools=TOOLS)
    parts = [
        parser.push(piece) for piece in ("\nI", " think", "\n</th", "ink>", "\nYes", " <", "b", "> <TOOL", "CALL>")
    ]
    assert [part.reasoning for part in parts] == ["I", " think", "", "", "", "", "", "", ""]
    assert [part.content for part in parts] == ["", "", "", "", "Yes", " ", "<b", "> ", ""]
    assert parser.push('[{"name": "a", "arguments": {}}]').tool_calls == ()
    assert parser.push("</TOOLCALL>").tool_calls == (ToolCall("a", {}),)
    assert parser.finish() == ReplyPart()


@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_was_cut_off_is_text_and_one_that_was_finished_is_not(call):
    for end in range(len("<tool_call>") + 1, len(call)):
        parser = ReplyParser(tools=TOOLS)
        part = parser.push(call[:end]) + parser.finish(cut=True)
        assert part.tool_calls == ()
        assert part.content == call[:end].rstrip("\n")
    parser = ReplyParser(tools=TOOLS)
    assert (parser.push(call + "\nmore") + parser.finish(cut=True)).tool_calls == (CLICK,)


@pytest.mark.parametrize(
    ("schema", "written", "meant"),
    [
        ({"type": "string"}, "12", "12"),
        ({}, "12", "12"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "12", "12"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "null", None),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "hello", "hello"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, '"hello"', "hello"),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "12", 12),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "12", 12),
        ({"type": ["string", "null"]}, "null", None),
        ({"type": ["number", "null"]}, "1.5", 1.5),
        ({"enum": ["1", "2"]}, "1", "1"),
        ({"enum": [1, 2]}, "1", 1),
        ({"const": "x"}, "x", "x"),
        ({"$ref": "#/$defs/Colour"}, '"red"', "red"),
        ({"$ref": "#/$defs/Colour"}, "red", "red"),
        ({"$ref": "#/$defs/Point"}, '{"x": 1}', {"x": 1}),
    ],
)
def test_bare_values_get_the_type_that_the_schema_allows(schema, written, meant):
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": schema}}}}]
    text = f"<tool_call>\n<function=f>\n<parameter=a>\n{written}\n</parameter>\n</function>\n</tool_call>"
    (call,) = parse_reply(text, tools=tools).tool_calls
    assert call.arguments == {"a": meant}
    assert type(call.arguments["a"]) is type(meant)
