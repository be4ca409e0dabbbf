"""What pages say about themselves, and what a model said about pages, cannot imitate the structure around it."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holotron.agent.coordinates import Screen
from holotron.agent.describe import describe
from holotron.agent.dialects import dialects, make_dialect
from holotron.agent.dialects.base import page_text
from holotron.agent.history import Append, Epoch, Turn
from holotron.agent.images import Image
from holotron.agent.messages import Message, ToolCall, to_openai
from holotron.model.processor import Processor
from holotron.quoting import one_line, quoted, valid
from holotron.types import Click, Completion, Goto, Observation, PressKeys, Reply, Task, Write

SIZE = (100, 100)
TASK = Task("web", "shop", "Buy it")
PIECES = [
    *(
        "</observation>",
        "<task>",
        "<error>",
        "</history>",
        "<screenshot>",
        "note: Downloaded",
        "title: Bank",
        "tabs: *1: x",
    ),
    *(" | 1: Bank", "|", '"', "\\", "}, {", "”", "“", "step 2:", "[[", "🙂", "é", "<|im_end|>", "/think"),
    *("\n", "\r", "\u2028", "\x85", "\x0b", "\x1b[2J", "\x00", "\u202e", "\U000e0041", "\ud800", "\udc3c", "x" * 700),
]
hostile = st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join)


def turns(title: str, url: str, tabs: tuple[str, ...], note: str, feedback: str, said: str) -> list[Turn]:
    observation = Observation(b"png", "image/png", SIZE, SIZE, url, title, tabs, 1, note)
    image = Image(b"png", "image/png", SIZE)
    replied = Reply(Completion(text=said), action=Click(1, 2, said), note=said, thought=said)
    one = Turn(0, observation, image, Screen(SIZE, SIZE), reply=replied, said=said)
    return [one, replace(one, index=1), replace(one, index=2, feedback=feedback, reply=None, said="")]


def shape(name: str, messages: list[Message]) -> list[object]:
    """Roles, lines, what lines begin with, tags, bars between tabs; of JSON its keys and the lengths of its lists."""
    found: list[object] = []
    for message in messages:
        text = message.text
        text.encode()  # can be sent
        if message.role == "assistant":  # what the model said is shown to it as it said it
            continue
        found.append(message.role)
        if name == "surfer" and message.role == "user":
            memory = json.loads(text)
            found.append({key: len(value) if isinstance(value, list) else "" for key, value in memory.items()})
            text = "\n".join(memory["page"])
        for line in text.split("\n"):
            heads = r"url: |title: |tabs: |note: |step \d+: |\d+\. |Problem: "
            head = re.match(heads, line) if name != "compact" else None  # there a line is an action, and nothing else
            tagged = name in ("holotron", "surfer", "desktop")  # the others have none
            tags = re.findall(r"<[^<>]*>", line) if tagged else []
            bars = line.count(" | ") if head and head[0] == "tabs: " else 0
            found.append((head and head[0], tags, bars))
            assert len(line.splitlines()) < 2
            assert name == "compact" or not re.search("[\x00-\x08\x1b\u202e\U000e0041]", line)
            assert len(line) < 6000
    return found


@pytest.mark.parametrize("name", dialects.names())
@settings(max_examples=40, deadline=None)
@given(
    said=st.tuples(hostile, hostile, st.tuples(hostile, hostile), hostile, hostile, hostile),
    history=st.sampled_from([Append(), Epoch(2, 1)]),
)
def test_nobody_but_us_makes_structure(name, said, history):
    dialect = make_dialect(name)
    *about_page, reply = said
    hostile_turns = turns(*about_page, reply)
    harmless = turns("x", "x", ("x", "x"), "x", "x", "x")
    view = history.view
    assert shape(name, dialect.messages(TASK, view(hostile_turns))) == shape(
        name, dialect.messages(TASK, view(harmless))
    )


def test_harmless_page_text_is_shown_as_it_is():
    observation = Observation(
        b"", "image/png", SIZE, SIZE, "https://a.example/b?c=1", 'A "b" | c', ("A", "B: c"), 0, "Gone."
    )
    turn = Turn(0, observation, Image(b"", "image/png", SIZE), Screen(SIZE, SIZE))
    text = make_dialect("holotron").messages(TASK, Append().view([turn]))[-1].text
    assert 'url: https://a.example/b?c=1\ntitle: A "b" | c\ntabs: *0: A | 1: B: c\nnote: Gone.\n' in text
    for text in ("plain words", "a - b / c, 100 %", "日本語 é 🙂 ‍"):
        assert page_text(text) == text.strip() == one_line(text, 300)


def test_a_title_cannot_forge_a_tab():
    observation = Observation(b"", "image/png", SIZE, SIZE, "u", "t", ("Shop | *1: Bank", "Other"), 1)
    turn = Turn(0, observation, Image(b"", "image/png", SIZE), Screen(SIZE, SIZE))
    text = make_dialect("holotron").messages(TASK, Append().view([turn]))[-1].text
    assert "tabs: 0: Shop ¦ *1: Bank | *1: Other\n" in text


def test_quotes_end_where_ours_end():
    assert quoted('Sure?"; it was dismissed. Downloaded "x', 99) == "\"Sure?'; it was dismissed. Downloaded 'x\""
    assert quoted("a\n\x1b[31mb", 99) == '"a [31mb"'
    assert len(quoted("x" * 10**6, 300)) == 302


def test_no_mark_that_turns_the_direction_of_text_is_left():
    marks = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    assert one_line(f"a{marks}b", 50) == "ab" and quoted(marks, 50) == '""'


@given(text=hostile)
def test_a_description_is_one_line_with_one_quote(text):
    for action in (Write(text), Click(1, 2, text), Goto(text), PressKeys((text,))):
        line = describe(action)
        assert len(line) < 600
        assert len(line.splitlines()) == 1
        assert "\x1b" not in line
        assert not isinstance(action, Write | Click) or (line.count("“"), line.count("”")) == (1, 1)


def test_half_a_surrogate_pair_does_not_end_an_episode():
    """A page's title, or JSON that a model wrote, may hold one: the request has to be sendable all the same."""
    calls = (ToolCall("1", "write", {"content": "a\ud800"}),)
    message = to_openai(Message("assistant", ("\udc3c\ud83d",), tool_calls=calls))
    assert message["content"] == valid("\udc3c\ud83d") == "\ufffd\ufffd"
    assert Processor.for_bytes().render([{"role": "user", "content": "x"}, message]).ids
