"""Schemas as pydantic and other people's clients write them become grammars: what is valid and short enough passes."""

from __future__ import annotations

import contextlib
import datetime
import enum
import ipaddress
import json
import pathlib
import uuid
from decimal import Decimal
from typing import Annotated, Any, Literal

import llguidance
import pytest
from pydantic import BaseModel, Field, HttpUrl, SecretStr

from holotron.engine.api import Grammar
from holotron.engine.schema import to_generate
from holotron.errors import InputError

BYTES = llguidance.LLTokenizer("byte")


def passes(schema: dict[str, Any], text: str, *, strict: bool = True) -> bool:
    source = Grammar.json_schema(schema, strict=strict).source
    matcher = llguidance.LLMatcher(BYTES, llguidance.LLMatcher.grammar_from_json_schema(source), log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    data = list(text.encode())
    return matcher.try_consume_tokens(data) == len(data) and matcher.is_accepting()


class Colour(enum.Enum):
    red = "red"
    blue = "blue"


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = Field(9, ge=0, le=9)


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str | None = None


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


class Everything(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    other: Cat | Dog
    colour: Colour
    tree: Tree | None = None
    when: datetime.datetime
    id: uuid.UUID
    price: Decimal
    url: HttpUrl
    path: pathlib.Path
    secret: SecretStr
    raw: bytes
    network: ipaddress.IPv4Interface
    counts: dict[str, int]
    pair: tuple[int, str]
    anything: Any
    code: Annotated[str, Field(pattern=r"^\d{3}$")]


VALUE = {
    "pet": {"kind": "cat", "lives": 3},
    "other": {"kind": "dog", "name": None},
    "colour": "blue",
    "tree": {"value": 1, "children": [{"value": 2, "children": []}]},
    "when": "2026-01-02T03:04:05Z",
    "id": "00000000-0000-4000-8000-000000000000",
    "price": 1.5,
    "url": "https://example.org/",
    "path": "a/b",
    "secret": "x",
    "raw": "y",
    "network": "10.0.0.1/8",
    "counts": {"a": 1},
    "pair": [1, "b"],
    "anything": [None, {"x": 1}],
    "code": "123",
}


def test_pydantics_schemas_hold_what_pydantic_accepts() -> None:
    schema = Everything.model_json_schema()
    Everything.model_validate(VALUE)
    assert passes(schema, json.dumps(VALUE))
    for field, wrong in (("colour", "green"), ("code", "12"), ("pet", {"kind": "dog", "lives": 3}), ("pair", [1])):
        assert not passes(schema, json.dumps(VALUE | {field: wrong}))


POINT = {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}, "required": ["x", "y"]}


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ('{"x":1,"y":2}', True),
        ('{"x": 1, "y": 2}', True),  # as most models have learned to write it
        ('{"x":  1, "y": 2}', False),
        ('{ "x": 1, "y": 2}', False),
        ('{\n"x": 1, "y": 2}', False),
        ('{"x": 1, "y": 2}\n', False),
        ('{"x": 1, "y": 2, "z": 3}', False),  # nobody asked for it
    ],
)
def test_compact(text: str, good: bool) -> None:
    assert passes(POINT, text) is good


def test_other_white_space_and_other_properties_can_be_asked_for() -> None:
    assert passes(POINT | {"x-guidance": {"whitespace_flexible": True}}, '{ "x" : 1,\n "y" : 2 }')
    assert passes(POINT | {"additionalProperties": True}, '{"x": 1, "y": 2, "z": 3}')
    assert passes({"type": "object"}, '{"z": [1, 2]}')


def test_integers_end() -> None:
    for kind in ("integer", ["integer", "null"]):
        assert passes({"type": kind}, "-9007199254740991")
        assert not passes({"type": kind}, "9" * 17)
    assert passes({"type": "integer", "minimum": 5}, "7")
    assert not passes({"type": "integer", "minimum": 5}, "4")
    assert passes({"type": "integer", "maximum": 10**17}, "1" + "0" * 17)  # somebody said so
    assert passes({"type": "integer", "multipleOf": 5}, "15")


def test_an_object_described_in_several_places_stays_open() -> None:
    named = {"type": "object", "properties": {"name": {"const": "a"}}, "required": ["name"]}
    assert passes({"allOf": [POINT, named]}, '{"x": 1, "y": 2, "name": "a"}')
    assert passes({**POINT, "anyOf": [named]}, '{"x": 1, "y": 2, "name": "a"}')


def test_keywords_that_a_grammar_cannot_hold() -> None:
    """With `strict` they are refused; without, the rest of the schema holds."""
    schema = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
    assert passes(schema, "[1, 2]", strict=False)
    assert not passes(schema, '["a"]', strict=False)
    source = Grammar.json_schema(schema).source
    assert "uniqueItems" in llguidance.LLMatcher.validate_grammar(llguidance.LLMatcher.grammar_from_json_schema(source))


def test_names_are_not_keywords() -> None:
    """A property may be called like a keyword, and a constant may look like a schema."""
    schema = {"type": "object", "properties": {"format": {"const": {"format": "x", "properties": {"a": 1}}}}}
    ready = to_generate(schema)
    assert ready["properties"] == schema["properties"]
    assert passes(schema | {"required": ["format"]}, '{"format": {"format": "x", "properties": {"a": 1}}}')


def test_the_schema_that_is_given_stays_as_it_is() -> None:
    before = json.dumps(POINT)
    to_generate(POINT)
    assert json.dumps(POINT) == before


@pytest.mark.parametrize("odd", [{}, {"a": 1}, [], ["date"], 3, True, None, "x"])
@pytest.mark.parametrize("where", [lambda odd: odd, lambda odd: {"type": "object", "properties": {"a": odd}}])
@pytest.mark.parametrize(
    "key", ["format", "type", "x-guidance", "properties", "required", "allOf", "$ref", "min_items"]
)
def test_a_keyword_that_holds_anything_is_refused_or_passed_over(key: str, odd: Any, where: Any) -> None:
    """Whoever writes the schema hears of it; nothing else breaks."""
    with contextlib.suppress(InputError):
        assert Grammar.json_schema(where({key: odd})).kind == "json_schema"
