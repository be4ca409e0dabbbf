"""Grammars that let a model reason first: anything may pass up to `</think>`, then the grammar takes hold."""

from __future__ import annotations

from holotron.engine.api import Grammar
from holotron.errors import InputError

_THINK = "think[lazy]: /(?s:.*)<\\/think>/\nGAP: /\\n{0,2}/\n"


def behind_reasoning(plain: Grammar, *, thinking: bool, opens_reasoning: bool) -> Grammar:
    """A grammar for what follows the reasoning, which is free."""
    if not thinking and not opens_reasoning:
        return plain
    return after_reasoning(f"body: {term_of(plain)}\n", thinking, opens_reasoning)


def after_reasoning(rules: str, thinking: bool, opens_reasoning: bool) -> Grammar:
    """`rules` define `body`."""
    if opens_reasoning:
        return Grammar.lark(f"start: think GAP body\n{_THINK}{rules}")
    if thinking:  # a model that opens the block itself
        return Grammar.lark(f'start: ("<think>" think GAP)? body\n{_THINK}{rules}')
    return Grammar.lark(f"start: body\n{rules}")


def term_of(plain: Grammar) -> str:
    """A schema or a regex as a term of a larger grammar."""
    import llguidance

    if plain.kind == "json_schema":
        return f"%json {plain.source}"
    try:
        return f"/{llguidance.regex_to_lark(plain.source)}/"
    except ValueError as error:
        raise InputError(f"the regex is malformed: {error}") from None
