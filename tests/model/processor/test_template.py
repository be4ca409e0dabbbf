from __future__ import annotations

import copy
import itertools
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holotron.errors import ConfigError, InputError
from holotron.model.processor import ChatTemplate, ImageConfig, Processor

SPECIAL = {"bos_token": "<s>", "eos_token": "<SPECIAL_12>", "unk_token": "<unk>"}
BUILTIN = ["nemotron-vl", "chatml"]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "click",
            "description": 'Click at a point, <b>not</b> elsewhere – "exactly" there.',
            "parameters": {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}},
        },
    },
    {"type": "function", "function": {"name": "answer", "parameters": {"type": "object", "properties": {}}}},
]
IMAGE, HELLO = {"type": "image"}, {"type": "text", "text": "Hello."}

# Strings only, reasoning toggled by words in the text: the convention of the text-only Nemotron Nano v2.
BY_WORDS = """
{%- set ns = namespace(think=true) -%}
{%- for m in messages if m['role'] != 'assistant' -%}
  {%- if '/think' in m['content'] %}{% set ns.think = true %}
  {%- elif '/no_think' in m['content'] %}{% set ns.think = false %}{% endif -%}
{%- endfor -%}
{%- for m in messages -%}
{{ '[' ~ m['role'] ~ '] ' + m['content'].replace('/think', '').replace('/no_think', '').strip() + '\n' }}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '[assistant] ' ~ ('<think>' if ns.think else '<think></think>') }}{% endif -%}
"""

# Everything a template may use, and the white space rules of the environment.
ALL_MEANS = """{% macro shout(text) %}{{ text | upper }}{% endmacro %}
{% for message in messages %}
    {% if message.role == 'system' %}{% continue %}{% endif %}
    {% if loop.index > 5 %}{% break %}{% endif %}
  {{ shout(message.role) }}: {% generation %}{{ message.content }}{% endgeneration %}

{% endfor %}
{{ tools | tojson(indent=2) if tools else 'no tools' }} {{ {'b': '<&>', 'a': 'é'} | tojson(sort_keys=True) }}
{{ strftime_now('%Y') | length }} {{ bos_token }}{{ eos_token }}{{ enable_thinking }}
"""


@cache
def builtin(name: str) -> ChatTemplate:
    return ChatTemplate.builtin(name, SPECIAL)


def conversations():
    text = st.text("abc </think>\n/no_think{}éあ", max_size=25)
    parts = st.lists(st.one_of(st.just(IMAGE), text.map(lambda t: {"type": "text", "text": t})), min_size=1, max_size=4)
    user = st.builds(lambda content: {"role": "user", "content": content}, st.one_of(text, parts))
    call = st.fixed_dictionaries(
        {"function": st.fixed_dictionaries({"name": st.just("click"), "arguments": st.just({"x": 1, "t": 'a"é'})})}
    )
    # A reply that ends reasoning it never began is text to us and an end of reasoning to the template.
    said = text.filter(lambda t: "</think>" not in t)
    assistant = st.fixed_dictionaries(
        {"role": st.just("assistant"), "content": said},
        optional={"tool_calls": st.lists(call, max_size=2), "reasoning_content": text},
    )
    tool = st.builds(lambda content: {"role": "tool", "content": content}, text)
    system = st.builds(lambda content: {"role": "system", "content": content}, text)
    turns = st.lists(st.one_of(user, assistant, tool), min_size=1, max_size=6)
    return st.one_of(turns, st.builds(lambda first, rest: [first, *rest], system, turns))


# -------------------------------------------------------------------------------- transformers' rendering is the oracle


@settings(max_examples=150, deadline=None)
@given(messages=conversations(), thinking=st.booleans(), tools=st.sampled_from([None, TOOLS]), prompt=st.booleans())
@pytest.mark.parametrize("name", BUILTIN)
def test_rendering_equals_transformers(oracle, name, messages, thinking, tools, prompt):
    template = builtin(name)
    expected = oracle.apply_chat_template(
        messages,
        chat_template=template.source,
        tools=tools,
        tokenize=False,
        add_generation_prompt=prompt,
        enable_thinking=thinking,
    )
    assert template.render(messages, tools=tools, thinking=thinking, add_generation_prompt=prompt) == expected


@pytest.mark.parametrize("tools", [None, TOOLS])
def test_every_means_of_the_language_works_as_in_transformers(oracle, tools):
    messages = [{"role": role, "content": f"text {role}\n"} for role in ("system", "user", "assistant", "user")] * 2
    expected = oracle.apply_chat_template(
        messages, chat_template=ALL_MEANS, tools=tools, tokenize=False, enable_thinking=False
    )
    assert ChatTemplate(ALL_MEANS, SPECIAL).render(messages, tools=tools) == expected


CALL = {"id": "c1", "type": "function", "function": {"name": "click", "arguments": {"x": 1, "t": 'a"é', "z": [1, 2]}}}
ASKED, SAID = {"role": "user", "content": "1"}, {"role": "assistant", "content": "2"}
DONE = {"role": "tool", "content": "done"}
TALKS: dict[str, list[dict[str, Any]]] = {
    "a word": [{"role": "user", "content": "hi"}],
    "a picture": [{"role": "system", "content": "S"}, {"role": "user", "content": [IMAGE, HELLO]}],
    "pictures": [{"role": "user", "content": [HELLO, IMAGE, HELLO, IMAGE]}, SAID, {"role": "user", "content": [IMAGE]}],
    "turns": [{"role": "user", "content": "1"}, SAID, {"role": "user", "content": "2"}, SAID, ASKED],
    "reasoning": [ASKED, SAID | {"reasoning_content": "because"}, ASKED],
    "reasoning in the text": [ASKED, {"role": "assistant", "content": "<think>\nwhy\n</think>\n\n2"}, ASKED],
    "tools": [{"role": "system", "content": "S"}, ASKED, SAID | {"tool_calls": [CALL]}, DONE, ASKED],
    "two calls": [ASKED, {"role": "assistant", "content": "", "tool_calls": [CALL, CALL]}, DONE, DONE],
    "a tool that sees": [ASKED, SAID | {"tool_calls": [CALL]}, {"role": "tool", "content": [IMAGE, HELLO]}],
    "two questions": [ASKED, {"role": "user", "content": [IMAGE, HELLO]}],
    "a late system": [ASKED, {"role": "system", "content": "now"}, ASKED],
}
PUBLISHED = sorted(Path(os.environ.get("HOLOTRON_TEMPLATES", "none-given")).glob("*.jinja"))


@pytest.mark.skipif(not PUBLISHED, reason="HOLOTRON_TEMPLATES names no folder of chat templates")
@pytest.mark.parametrize("file", PUBLISHED, ids=lambda file: file.stem)
def test_published_templates_are_rendered_as_by_transformers(file: Path) -> None:
    from transformers.utils.chat_template_utils import render_jinja_template

    source = file.read_text()
    image = "<|image_pad|>" if "<|image_pad|>" in source else "<image>"
    template = ChatTemplate(source, SPECIAL, image)
    # Templates that look for /think in texts are left to their default.
    thinks = (None,) if template.toggles_thinking_by_text else (None, True, False)
    for messages, thinking, tools, prompt in itertools.product(TALKS.values(), thinks, (None, TOOLS), (True, False)):
        # Of templates that take only texts, the texts.
        given = messages if template.takes_parts else [m | {"content": _flat(m["content"], image)} for m in messages]
        said = {} if thinking is None else {"enable_thinking": thinking, "thinking": thinking}
        options: dict[str, Any] = {"tools": tools, "add_generation_prompt": prompt}
        try:
            ((expected,), _) = render_jinja_template([given], chat_template=source, **options, **SPECIAL, **said)
        except (jinja2.TemplateError, TypeError):
            with pytest.raises(InputError):
                template.render(messages, thinking=thinking, **options)
        else:
            assert template.render(messages, thinking=thinking, **options) == expected


def _flat(content: Any, image: str) -> str:
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return "".join(part["text"] if part["type"] == "text" else f"{image}\n" for part in parts)


# ---------------------------------------------------------------------------------------------------- the built-in ones


def test_the_measured_render_of_the_published_template():
    messages = [{"role": "user", "content": [IMAGE, {"type": "text", "text": "Read the line."}]}]
    assert ChatTemplate.builtin("nemotron-vl", SPECIAL).render(messages) == (
        "<s><SPECIAL_10>System\n\n<SPECIAL_11>User\n<image>\nRead the line.\n<SPECIAL_11>Assistant\n<think></think>"
    )


def test_several_images_are_numbered_and_come_first():
    messages = [{"role": "user", "content": [{"type": "text", "text": "Compare."}, IMAGE, IMAGE]}]
    text = ChatTemplate.builtin("nemotron-vl", SPECIAL).render(messages)
    assert "User\n<image 1><image> <image 2><image>\nCompare.\n" in text


def test_a_conversation_in_the_format_of_holotron_12b():
    messages = [
        {"role": "system", "content": "You act."},
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": "<think>\nHm.\n</think>\nGone."},
        {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]},
        {"role": "tool", "content": "one"},
        {"role": "tool", "content": "two"},
    ]
    template = ChatTemplate.builtin("nemotron-vl", SPECIAL)
    turns = (
        "<s><SPECIAL_10>System\nYou act.\n<SPECIAL_11>User\nGo.\n"
        "<SPECIAL_11>Assistant\n{reply}\n<SPECIAL_12>\n"
        '<SPECIAL_11>Assistant\n<TOOLCALL>[{{"name": "f", "arguments": {{"a": 1}}}}]</TOOLCALL>\n<SPECIAL_12>\n'
        "<SPECIAL_11>User\n<TOOL_RESPONSE>[one, two]</TOOL_RESPONSE>\n<SPECIAL_11>Assistant\n<think>\n"
    )
    assert template.render(messages, thinking=True) == turns.format(reply="Gone.")
    kept = template.render(messages, thinking=True, truncate_history_thinking=False)
    assert kept == turns.format(reply="<think>\nHm.\n</think>\nGone.")


def test_tools_stand_in_the_system_turn():
    text = ChatTemplate.builtin("nemotron-vl", SPECIAL).render([{"role": "user", "content": "Hi"}], tools=TOOLS)
    system, _, _ = text.partition("<SPECIAL_11>")
    listed = system.split("<AVAILABLE_TOOLS>")[1].split("</AVAILABLE_TOOLS>")[0]
    assert json.loads(listed) == [tool["function"] for tool in TOOLS]


def test_chatml():
    messages = [
        {"role": "system", "content": "You act."},
        {"role": "user", "content": [IMAGE, HELLO]},
        {"role": "assistant", "content": "Hi."},
        {"role": "user", "content": "Bye."},
    ]
    assert ChatTemplate.builtin("chatml", {}).render(messages, thinking=True) == (
        "<|im_start|>system\nYou act.<|im_end|>\n<|im_start|>user\n<image>\nHello.<|im_end|>\n"
        "<|im_start|>assistant\n<think></think>Hi.<|im_end|>\n<|im_start|>user\nBye.<|im_end|>\n"
        "<|im_start|>assistant\n<think>\n"
    )


def test_an_unknown_builtin_is_named():
    with pytest.raises(ConfigError, match="nope"):
        ChatTemplate.builtin("nope")


# ------------------------------------------------------------------------------------------------------------ reasoning


@pytest.mark.parametrize("source", [BY_WORDS, *(ChatTemplate.builtin(name).source for name in BUILTIN)])
@pytest.mark.parametrize("thinking", [True, False])
@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "content": "Hi"}],
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
        [{"role": "system", "content": "/think"}, {"role": "user", "content": "Hi"}],
        [{"role": "system", "content": "Now. /no_think"}, {"role": "user", "content": "Hi"}],
        [{"role": "user", "content": "/no_think Hi"}],
        [{"role": "system", "content": "/think"}, {"role": "user", "content": "Hi /no_think"}],
    ],
)
def test_the_argument_decides_on_reasoning_and_words_are_text(source, thinking, messages):
    text = ChatTemplate(source, SPECIAL).render(messages, thinking=thinking)
    assert text.rstrip().endswith("<think>") == thinking
    assert text.endswith("<think></think>") != thinking
    said = text.replace("</think>", "")
    for word in ("/think", "/no_think", "Hi"):
        assert said.count(word) == sum(message["content"].count(word) for message in messages)


@pytest.mark.parametrize("name", BUILTIN)
def test_only_reasoning_at_the_beginning_of_a_past_reply_is_taken_off(name):
    def rendered(content: object) -> str:
        messages = [{"role": "user", "content": "Go."}, {"role": "assistant", "content": content}]
        return builtin(name).render(messages, add_generation_prompt=False)

    for taken in ("<think>Hm.</think>Gone.", "\n<think>\nHm.\n</think>\n\nGone."):
        assert rendered(taken) == rendered("Gone.") == rendered([{"type": "text", "text": taken}])
    quoted = "<think>Hm.</think>It says <think>no</think>."
    assert rendered(quoted) == rendered("It says <think>no</think>.")
    for kept in ("Hm.</think>Gone.", "It says <think>no</think>.", "<think>Hm. Gone."):
        assert kept in rendered(kept)


def test_the_caller_is_not_written_to():
    messages = [{"role": "system", "content": [HELLO]}, {"role": "user", "content": [IMAGE, HELLO]}]
    before = copy.deepcopy(messages)
    ChatTemplate(BY_WORDS, SPECIAL).render(messages, thinking=True)
    assert messages == before


# -------------------------------------------------------------------------------------------------------------- content


def test_templates_that_take_only_strings_get_the_placeholder_in_place():
    template = ChatTemplate(BY_WORDS, SPECIAL)
    assert not template.takes_parts
    text = template.render([{"role": "user", "content": [{"type": "text", "text": "First "}, IMAGE, HELLO]}])
    assert "[user] First <image>\nHello.\n" in text


@pytest.mark.parametrize("name", BUILTIN)
def test_ours_take_parts(name):
    assert ChatTemplate.builtin(name).takes_parts


def test_a_template_that_prints_parts_as_python_does_not_take_them():
    assert not ChatTemplate("{% for m in messages %}{{ m.content }}{% endfor %}").takes_parts


# --------------------------------------------------------------------------------------------------------------- errors


def test_a_template_that_does_not_parse_is_a_config_error():
    with pytest.raises(ConfigError, match="line 2"):
        ChatTemplate("ok\n{% if %}")


def test_what_the_template_refuses_is_an_input_error():
    template = ChatTemplate("{{ raise_exception('roles must alternate') }}")
    with pytest.raises(InputError, match="roles must alternate"):
        template.render([{"role": "user", "content": "x"}])


@pytest.mark.parametrize(
    "source", ["{{ messages[0].content + 1 }}", "{{ messages[7].content.x }}", "{{ 1 // 0 }}", "{{ messages | sum }}"]
)
def test_failures_inside_the_template_are_input_errors(source):
    with pytest.raises(InputError, match="chat template"):
        ChatTemplate(source).render([{"role": "user", "content": "x"}])


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ raise_exception.__globals__['json'] }}",
        "{% set ns = namespace(__html__='{0.__class__}'.format) %}",
        "{% set ns = namespace() %}{% set ns.__html__ = '{0.__class__}'.format %}",
        "{% for i in range(10**9) %}x{% endfor %}",
    ],
)
def test_the_sandbox_holds(source):
    with pytest.raises((ConfigError, InputError)):
        ChatTemplate(source + "{{ 1 }}").render([{"role": "user", "content": "x"}])


def test_turns_spends_one_token_per_change_of_speaker():
    processor = Processor.for_bytes(ImageConfig(tile_size=64, patch_size=16, max_tiles=1), template="turns")
    screen = {"type": "image", "image": np.zeros((64, 64, 3), np.uint8)}
    first = processor.render([{"role": "user", "content": [{"type": "text", "text": "go\n"}, screen]}])
    assert first.text == "<|user|>go\n<img><image></img><|assistant|>"
    reply = [*processor.encode_text("click 001 002"), *processor.tokenizer.eos_ids]
    after = processor.bridge([{"role": "user", "content": [screen]}], after=first.ids + reply)
    assert after.text == "<|im_end|><|user|><img><image></img><|assistant|>"
    whole = processor.render(
        [
            {"role": "user", "content": [{"type": "text", "text": "go\n"}, screen]},
            {"role": "assistant", "content": "click 001 002"},
            {"role": "user", "content": [screen]},
        ]
    )
    assert first.ids + reply + after.ids == whole.ids
