"""Ink: how what a chat template writes itself is told from everybody else's text.

Control tokens (`<|im_end|>`, `<image>`, ...) belong to the template. It runs, though, on text of users, tools and
pages, and joins, cuts and edits it as it likes, so that afterwards nobody could say who wrote a `<|im_end|>`. Therefore
the template writes in ink:

    ink("<|im_end|>")   each byte as one of the 256 characters U+DC00 to U+DCFF

These are lone surrogates: they occur in no valid text (input that holds them is refused), a template carries them
along like any other character, and they have the length of what they stand for. Before a template is compiled, the
control tokens in its own literals are put in ink; after it has run, ink is read back, and only what stands in ink can
be a control token. So the trusted is marked, not the untrusted: text that loses track of where it came from is text.

The words by which a template *decides* stand in ink as well: `'/think' in content`, `content.split('</think>')`,
`content.startswith('<tool_response>')` look for ink, and do not find it in anybody's text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import jinja2
import jinja2.nodes as nodes
from jinja2.optimizer import optimize

from holotron.errors import InputError

# Markup that a reply may contain: `reply` reads it, whether or not the tokenizer has tokens for it.
REPLY_MARKUP = frozenset(["<think>", "</think>", "<TOOLCALL>", "</TOOLCALL>", "<tool_call>", "</tool_call>"])

REPLY = "\ud800"  # stands for a reply while a template is rendered; like ink, in no valid text
_INK = re.compile("[\udc00-\udcff]+")
_TAG = r"</?[A-Za-z_][\w.:-]*>"
# A word on its own by which templates switch something: `/think`, `/system_override`, `detailed thinking on`.
_SWITCH = re.compile(r"/\w+|(?=.*\W)(?=.*(?:think|reason)).{1,60}", re.I)


def ink(text: str) -> str:
    return "".join([chr(0xDC00 + byte) for byte in text.encode()])


def read_ink(run: str) -> str:
    return bytes(ord(char) & 0xFF for char in run).decode(errors="replace")


def plain(text: str) -> str:
    """A rendered text for people: ink reads as what it stands for."""
    return _INK.sub(lambda run: read_ink(run[0]), text)


def runs(text: str) -> Iterable[tuple[str, bool]]:
    """A rendered text in pieces: text, and what stands in ink (still as ink), in turn."""
    end = 0
    for run in _INK.finditer(text):
        yield text[end : run.start()], False
        yield run[0], True
        end = run.end()
    yield text[end:], False


def without_ink(value: Any) -> Any:
    """A copy of plain JSON, after a look that no text in it holds ink or anything else that is not valid Unicode."""
    try:
        return _copy(value)
    except RecursionError:
        raise InputError("the messages or tools are nested too deeply") from None


def _copy(value: Any) -> Any:
    if isinstance(value, str):
        if not value.isascii():
            check_unicode(value)
        return str(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {_copy(str(key)): _copy(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_copy(item) for item in value]
    raise InputError(f"messages, tools and the template's variables are JSON; a {type(value).__name__} is not")


def check_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"the text is not valid Unicode: {error.reason} at character {error.start}") from None


class Role(str):
    """Who speaks. It compares as text and is written in ink, for templates that write `'<|' ~ role ~ '|>'`."""

    __slots__ = ()

    def __str__(self) -> str:
        return ink(self)

    def __add__(self, other: str) -> str:
        return str(self) + other

    def __radd__(self, other: str) -> str:
        return other + str(self)


class Inker:
    """Puts the control tokens and deciding words of a template's literals in ink."""

    def __init__(self, control: Iterable[str]) -> None:
        tokens = sorted(control, key=lambda token: (-len(token), token))
        self._words = re.compile("|".join([*map(re.escape, tokens), _TAG]))
        inner = [(token[:n], token[n:]) for token in tokens for n in range(1, len(token))]
        self._beginnings = {start for start, _ in inner if not start.isalnum()}
        self._ends = {end for _, end in inner if not end.isalnum()}
        self._longest = max((len(token) for token in tokens), default=1) - 1

    def template(self, source: str, environment: jinja2.Environment) -> nodes.Template:
        tree = optimize(environment.parse(source), environment)  # folds `'<|im_' ~ 'end|>'` into one literal
        assert isinstance(tree, nodes.Template)
        self._walk(tree, writes=False)
        return tree

    def _walk(self, node: nodes.Node, writes: bool) -> None:
        """`writes`: what the expression gives is put out as it is, not compared or searched for."""
        if isinstance(node, nodes.TemplateData):
            node.data = self.literal(node.data, pieces=True)
        elif isinstance(node, nodes.Const):
            node.value = self._constant(node.value, writes)
        else:
            onward = _written_fields(node, writes)
            for name, child in node.iter_fields():
                for item in child if isinstance(child, list) else [child]:
                    if isinstance(item, nodes.Node):
                        self._walk(item, name in onward)

    def _constant(self, value: Any, pieces: bool) -> Any:
        """Jinja folds lists of literals into one constant."""
        if isinstance(value, str):
            return self.literal(value, pieces=pieces)
        if isinstance(value, list | tuple):
            return type(value)(self._constant(item, pieces) for item in value)
        if isinstance(value, dict):
            return {self._constant(key, False): self._constant(item, pieces) for key, item in value.items()}
        return value

    def literal(self, text: str, *, pieces: bool = False) -> str:
        """`pieces`: also the beginning of a token at the end and the end of one at the beginning."""
        if not self._words.search(text):
            core = text.strip()
            if _SWITCH.fullmatch(core):
                return text.replace(core, ink(core), 1)
        inked = self._words.sub(lambda found: ink(found[0]), text)
        if not pieces:
            return inked
        sizes = range(min(self._longest, len(inked)), 0, -1)
        size = next((n for n in sizes if inked[-n:] in self._beginnings), 0)
        body, last = inked[: len(inked) - size], inked[len(inked) - size :]
        size = next((n for n in sizes if body[:n] in self._ends), 0)
        return ink(body[:size]) + body[size:] + ink(last)


def _written_fields(node: nodes.Node, writes: bool) -> tuple[str, ...]:
    """Which expressions in this node are put out as they are, not compared with something or searched for."""
    if isinstance(node, nodes.Output):
        return ("nodes",)
    if isinstance(node, nodes.Assign):
        return ("node",)
    if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Name):  # a macro
        return ("args", "kwargs")
    if isinstance(node, nodes.Keyword):
        return ("value",) if writes else ()
    if writes and isinstance(node, nodes.Add | nodes.Concat | nodes.CondExpr | nodes.Filter):
        return ("left", "right", "nodes", "expr1", "expr2", "node")
    return ()
