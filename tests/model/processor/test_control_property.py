"""Whatever strings stand in a conversation, the sequence of its control tokens is that of a harmless one.

For all templates: ours, the conventions of published ones, and some with every bad habit that came to mind. With a
folder of published templates (HOLOTRON_TEMPLATES, as in test_template) for these, too, with all tokens that they write.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holotron.errors import ConfigError, InputError
from holotron.model.processor import ChatTemplate, ImageConfig, Processor, Tokenizer, byte_tokenizer
from holotron.model.processor.ink import REPLY, ink
from tests.model.processor.test_template import BY_WORDS, PUBLISHED

UNFLAGGED = [
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<TOOLCALL>",
    "</TOOLCALL>",
    "[INST]",
]
FLAGGED = [*(f"<SPECIAL_{n}>" for n in range(10, 13)), "<|end|>", "<|tool|>", "<｜Sentence｜>"]

# What the published template of Nemotron Nano v2 does with words in messages.
DELETES_WORDS = """
{%- set ns = namespace(on=true) -%}
{%- for m in messages if m.role in ('user', 'system') -%}
  {%- if '/think' in m.content.replace('</think>', '') %}{% set ns.on = true %}
  {%- elif '/no_think' in m.content %}{% set ns.on = false %}{% endif -%}
{%- endfor -%}
{{ bos_token }}{%- for m in messages -%}
  <SPECIAL_11>{{ m.role | capitalize }}
  {% set text = m.content.replace('</think>', '<_end_think>').replace('/think', '').replace('/no_think', '') -%}
  {{ text.replace('<_end_think>', '</think>').strip() }}<SPECIAL_12>
{% endfor -%}
<SPECIAL_11>Assistant
{{ '<think>\n' if ns.on else '<think></think>' }}"""

# What Qwen3's does: it looks for tool results among the user's texts, and takes past reasoning apart.
LOOKS_FOR_TAGS = """
{%- if tools %}<|im_start|>system
{% if messages[0].role == 'system' %}{{ messages[0].content + '\n\n' }}{% endif %}<tools>
{%- for tool in tools %}{{ tool | tojson }}{% endfor %}</tools><|im_end|>{% endif -%}
{%- set ns = namespace(multi=true, last=messages | length - 1) -%}
{%- for m in messages[::-1] -%}
  {%- set index = messages | length - 1 - loop.index0 -%}
  {%- if ns.multi and m.role == 'user' and m.content is string and
         not (m.content.startswith('<tool_response>') and m.content.endswith('</tool_response>')) -%}
    {%- set ns.multi = false %}{% set ns.last = index -%}
  {%- endif -%}
{%- endfor -%}
{%- for m in messages -%}
  {%- set content = m.content if m.content is string else '' -%}
  {%- if m.role == 'assistant' -%}
    {%- set reasoning = m.reasoning_content if m.reasoning_content is string else '' -%}
    {%- if not reasoning and '</think>' in content -%}
      {%- set reasoning = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') -%}
      {%- set content = content.split('</think>')[-1].lstrip('\n') -%}
    {%- endif -%}
    <|im_start|>{{ m.role }}
    {%- if loop.index0 > ns.last and reasoning %}<think>{{ reasoning.strip() }}</think>{% endif -%}
    {{ content }}
    {%- for call in m.tool_calls or [] -%}
      <tool_call>{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}</tool_call>
    {%- endfor -%}<|im_end|>
  {%- elif m.role == 'tool' -%}
    <|im_start|>user<tool_response>{{ content }}</tool_response><|im_end|>
  {%- else -%}
    {{ '<|im_start|>' + m.role + '\n' + content + '<|im_end|>' }}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}{% endif -%}"""

# Tokens from pieces, as Phi has them; and a name in brackets, which must not become one.
FROM_PIECES = """
{%- set open = '<|im_' -%}
{%- for m in messages -%}
  {{ '<|' + m.role + '|>' }}{{ m.content }}<{{ m.name }}><|{{ m.name }}|><|im_{{ m.tool_call_id }}|>{{ open ~ 'end|>' }}
{%- endfor -%}{{ '<|' ~ 'assistant' ~ '|>' }}"""

DECIDES_BY_TEXT = """
{%- for m in messages -%}<|im_start|>
  {%- if '<|im_end|>' in m.content %}<|im_end|>{% endif -%}
  {%- if m.content.startswith('<think>') or m.content.endswith('/no_think') %}<think>{% endif -%}
  {%- if 'detailed thinking on' in m.content %}</think>{% endif -%}
  {%- for piece in m.content.split('<image>') %}{% if not loop.first %}<img>{% endif %}{{ piece }}{% endfor -%}
  {%- if m.content.count('[INST]') or m.content.find('</s>') >= 0 %}<s>{% endif -%}
  {%- if m.content in ['/think', '<s>', '<|user|>'] %}<|user|>{% endif -%}
{%- endfor -%}"""

EDITS = """
{%- for m in messages -%}<|im_start|>{{ m.role }}
  {{ m.content | lower }}{{ m.content | reverse }}{{ m.content[1:] }}{{ m.content[:-1] }}{{ m.content[::2] }}
  {{ m.content | replace('x', '') | replace('_', '') }}{{ m.content.split() | join }}{{ m.content | trim('x/') }}
  {{ m.content.replace('</b>', '') }}{{ m.content | list | join }}{{ '%s|%s' | format(m.content, m.name) }}
  {{ '<|{}|>'.format(m.name) }}{{ '<' ~ m.content | upper ~ '>' }}{{ m.content | title }}{{ m.content | striptags }}
  {{ m.content | escape }}{{ m.content | wordwrap(5) }}{{ m.content | indent }}
<|im_end|>
{%- endfor -%}<|im_start|>"""

PRINTS_ALL = """<|im_start|>{{ messages | tojson }}{{ tools | tojson(indent=2) }}{{ tools }}{{ messages }}
{%- for tool in tools or [] %}
{%- for key, value in tool.function.parameters | dictsort %}{{ key }}{{ value }}{% endfor -%}
{{ tool.function | xmlattr }}<tool_call>{% endfor -%}<|im_end|>{{ mood }}{{ bos_token }}"""

SOURCES = {
    "by words": BY_WORDS,
    "deletes words": DELETES_WORDS,
    "looks for tags": LOOKS_FOR_TAGS,
    "from pieces": FROM_PIECES,
    "decides by text": DECIDES_BY_TEXT,
    "edits": EDITS,
    "prints all": PRINTS_ALL,
}
OURS = ["chatml", "nemotron-vl", "turns", *SOURCES]
PUBLISHED_SOURCES = {file.stem: file.read_text() for file in PUBLISHED}
_WRITTEN = re.compile(r"<\|[^|<>\s'\"]{1,40}\|?>|<｜[^｜<>]{1,40}｜>|</?[A-Za-z_][\w:.-]{0,30}>|\[/?[A-Z_]{2,30}\]")
WRITTEN = {token for source in PUBLISHED_SOURCES.values() for token in _WRITTEN.findall(source)}
SOURCES |= PUBLISHED_SOURCES
NAMES = ["chatml", "nemotron-vl", "turns", *SOURCES]


@cache
def tokenizer() -> Tokenizer:
    backend = byte_tokenizer().backend
    backend.add_special_tokens([*FLAGGED, *sorted(token for token in WRITTEN if "|" in token)])
    backend.add_tokens([*UNFLAGGED, *sorted(token for token in WRITTEN if "|" not in token)])
    return Tokenizer(backend, special={"bos_token": "<s>", "eos_token": "<|im_end|>"})


@cache
def processor(name: str) -> Processor:
    known = tokenizer()
    template = (
        ChatTemplate(SOURCES[name], known.special) if name in SOURCES else ChatTemplate.builtin(name, known.special)
    )
    return Processor(known, template, ImageConfig(tile_size=32, patch_size=8))


# --------------------------------------------------------------------------------------------------------- strings


def fragments(token: str) -> list[str]:
    return [token[:n] for n in range(1, len(token))] + [token[n:] for n in range(1, len(token))]


TOKENS = sorted(tokenizer().control)
WORDS = ["/think", "/no_think", "</b>", "<b>", "detailed thinking on", "user", "image", "im_end", "s", "x", "_", "\\"]
ODD = [
    " ",
    "\n",
    '"',
    "'",
    "é",
    "🙂",
    "\U000f0000",
    "\U000f0001",
    "\ufffd",
    "\uf8ff",
    "\u2028",
    "\x00",
    "&lt;",
    "%s",
    "{{",
]
strings = st.lists(
    st.one_of(
        st.sampled_from(TOKENS),
        st.sampled_from([piece for token in TOKENS for piece in fragments(token)]),
        st.sampled_from(WORDS + ODD),
    ),
    max_size=5,
).map("".join)
names = strings.map(lambda text: text or "f")


leaves = strings | st.integers(0, 9) | st.none()
objects = st.dictionaries(
    strings, leaves | st.lists(strings, max_size=2) | st.dictionaries(strings, leaves, max_size=2), max_size=2
)


def harmless(text: str) -> str:
    return re.sub(r"\S", "x", text)


def tame(value: Any) -> Any:
    """The same shape with nothing in it."""
    if isinstance(value, str):
        return harmless(value)
    if isinstance(value, dict):
        return {f"k{n}": tame(item) for n, item in enumerate(value.values())}
    return [tame(item) for item in value] if isinstance(value, list) else value


# ---------------------------------------------------------------------------- conversations, and the same made harmless


def as_parts(texts: list[str]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text} for text in texts]


def reasoned(reasoning: str, answer: str) -> tuple[str, str]:
    """A past reply with its reasoning in front: there the tags are structure."""
    inside = "x" if "</think>" in reasoning else reasoning
    return f"<think>{inside}</think>{answer}", f"<think>{harmless(inside)}</think>{harmless(answer)}"


def begins_with_reasoning(content: Any) -> bool:
    first = content if isinstance(content, str) else content[0]["text"]
    return first.lstrip().startswith("<think>") and "</think>" in first


named = names.map(lambda text: (text, harmless(text)))
contents = strings.map(lambda text: (text, harmless(text))) | st.lists(strings, min_size=1, max_size=4).map(
    lambda texts: (as_parts(texts), as_parts([harmless(text) for text in texts]))
)
replies = contents.filter(lambda both: not begins_with_reasoning(both[0])) | st.builds(reasoned, strings, strings)


@st.composite
def messages(draw: st.DrawFn, roles: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    role = draw(st.sampled_from(roles))
    said = draw(replies if role == "assistant" else contents)
    both = tuple({"role": role, "content": content} for content in said)
    for key in ("name", "tool_call_id"):
        for message, text in zip(both, draw(named), strict=True):
            message[key] = text
    if role == "assistant" and draw(st.booleans()):
        for message, text in zip(both, draw(named), strict=True):
            message["reasoning_content"] = text
    if role == "assistant" and draw(st.booleans()):
        name, arguments = draw(names), draw(objects)
        calls = [{"name": name, "arguments": arguments}, {"name": harmless(name), "arguments": tame(arguments)}]
        as_text = draw(st.booleans())
        for message, call in zip(both, calls, strict=True):
            given = json.dumps(call["arguments"]) if as_text else call["arguments"]
            message["tool_calls"] = [{"function": call | {"arguments": given}}]
    return both


@st.composite
def tools(draw: st.DrawFn) -> tuple[Any, Any]:
    if draw(st.booleans()):
        return None, None
    name, description, parameters = draw(names), draw(strings), draw(objects)
    return tuple(
        [{"type": "function", "function": {"name": n, "description": d, "parameters": p}}]
        for n, d, p in (
            (name, description, parameters),
            (harmless(name), harmless(description), tame(parameters)),
        )
    )


def conversations(*roles: str) -> st.SearchStrategy[tuple[list[dict], list[dict]]]:
    return st.lists(messages(roles), min_size=1, max_size=4).map(lambda both: tuple(map(list, zip(*both, strict=True))))


def control(prompt: Any) -> list[int]:
    return [index for index in prompt.ids if index in tokenizer().control_ids]


ANY, NEXT, described = conversations("user", "assistant", "tool", "system"), conversations("user", "tool"), tools()


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=60, deadline=None)
@given(
    said=ANY,
    described=described,
    thinking=st.sampled_from([True, False, None]),
    mood=strings,
)
def test_strings_do_not_change_the_control_tokens(name, said, described, thinking, mood):
    prompts = []
    for messages, tools, word in zip(said, described, (mood, harmless(mood)), strict=True):
        try:
            prompts.append(processor(name).render(messages, tools, thinking, mood=word, eos_token=word))
        except (InputError, ConfigError):  # some want turns in a certain order
            assert name in PUBLISHED_SOURCES
            return
    hostile, tame = prompts
    assert control(hostile) == control(tame)
    assert hostile.opens_reasoning == tame.opens_reasoning
    assert tokenizer().decode(hostile.ids, skip_control=False) == hostile.text


@pytest.mark.parametrize("name", [name for name in OURS if name != "prints all"])  # it prints no turns
@settings(max_examples=40, deadline=None)
@given(said=NEXT, described=described, thinking=st.booleans())
def test_nor_do_they_in_a_sessions_next_turn(name, said, described, thinking):
    prompts = [
        processor(name).bridge(messages, after=[5], tools=tools, thinking=thinking)
        for messages, tools in zip(said, described, strict=True)
    ]
    assert control(prompts[0]) == control(prompts[1])
    assert tokenizer().decode(prompts[0].ids, skip_control=False) == prompts[0].text


@pytest.mark.parametrize("name", ["chatml", "turns"])
@settings(max_examples=60, deadline=None)
@given(text=strings)
def test_text_arrives_as_it_was_sent(name, text):
    assert text in processor(name).render([{"role": "user", "content": text}]).text


def test_templates_from_pieces_do_write_control_tokens():
    """The test above would hold for a template that writes none."""
    assert (
        processor("from pieces").render([{"role": "user", "content": "x", "name": "n"}]).text.startswith("<|user|>x<n>")
    )
    names = {tokenizer().token_id(token): token for token in TOKENS}
    for name in OURS:
        ids = control(processor(name).render([{"role": "user", "content": "x", "name": "n", "tool_call_id": "c"}]))
        assert ids, name
    prompt = processor("from pieces").render([{"role": "user", "content": "x", "name": "user", "tool_call_id": "end"}])
    assert [names[index] for index in control(prompt)] == ["<|user|>", "<|im_end|>", "<|assistant|>"]


@pytest.mark.parametrize("stolen", [ink("<|im_end|>"), REPLY, "a\ud801", "\udfff"])
@pytest.mark.parametrize(
    "place",
    [
        lambda text: {"messages": [{"role": "user", "content": text}]},
        lambda text: {"messages": [{"role": "user", "content": [{"type": "text", "text": text}]}]},
        lambda text: {"messages": [{"role": "assistant", "content": "x", "reasoning_content": text}]},
        lambda text: {"messages": [{"role": "user", "content": "x", "name": text}]},
        lambda text: {"messages": [{"role": "tool", "content": "x", "tool_call_id": text}]},
        lambda text: {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": text}}]}]},
        lambda text: {
            "messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {text: 1}}}]}]
        },
        lambda text: {"messages": [{"role": "user", "content": "x"}], "tools": [{"name": "f", "description": text}]},
        lambda text: {"messages": [{"role": "user", "content": "x"}], "mood": {"a": [text]}},
    ],
)
def test_ink_is_refused_wherever_it_stands(stolen, place):
    for name in ("chatml", "prints all"):
        with pytest.raises(InputError, match="Unicode"):
            processor(name).render(**place(stolen))
        if "tools" not in place(stolen):
            with pytest.raises(InputError, match="Unicode"):
                processor("chatml").bridge(after=[], **place(stolen))


def test_a_template_whose_tokens_cannot_be_seen_is_refused():
    hidden = "{% for m in messages %}{{ ['<|im_', 'end|>'] | join }}{{ m.content }}{% endfor %}"
    with pytest.raises(ConfigError, match="from pieces"):
        Processor(tokenizer(), ChatTemplate("{% set s = 'start' %}{{ '<|im_' ~ s ~ '|>' ~ messages[0].content }}"))
    assert Processor(tokenizer(), ChatTemplate(hidden)).render([{"role": "user", "content": "x"}]).ids[0] == 260
