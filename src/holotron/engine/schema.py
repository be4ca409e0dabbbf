"""JSON schemas as people write them, made ready to generate by.

A schema says what is *valid*; a generator also needs an end. Valid JSON may hold white space without end, an object any
number of properties that nobody asked for, an integer any number of digits: a small model can spend its whole reply on
each of them. So replies are compact (one blank at most after a comma or a colon: a model may keep the style it has
learned), an object that names its properties has no others unless its schema says `additionalProperties`, and integers
without bounds are those that every reader of JSON can hold (RFC 8259: up to 2^53 - 1 either way). Whatever is generated
is still valid by the schema as it was given.

    Grammar.json_schema(schema)                     # in this process; a server does the same with response_format
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from holotron.errors import InputError

# What the grammar knows. By JSON Schema's rules an unknown format is a remark that demands nothing: pydantic writes
# `password` for a secret, `path` for a path, `binary` for bytes.
FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"}
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames")
_MIXING = ("$ref", "allOf", "anyOf", "oneOf", "if", "patternProperties", "unevaluatedProperties")
_COMPACT = {"whitespace_flexible": False, "item_separator": ", ?", "key_separator": ": ?"}

_WIDEST = 2**53 - 1

Schema = Mapping[str, Any]


def to_generate(schema: Schema, *, strict: bool = True) -> dict[str, Any]:
    """`strict`: a keyword that cannot be held to is an error; otherwise it is passed over. `oneOf` becomes `anyOf`
    where its branches are not known to exclude each other. llguidance's `x-guidance` in the schema chooses other white
    space."""
    closes = not any(_mixes(part) for part in _parts(schema))
    whitespace = schema.get("x-guidance") or _COMPACT
    if not isinstance(whitespace, Mapping):
        raise InputError("x-guidance in a JSON schema is an object")
    return {**_ready(schema, closes), "x-guidance": {"coerce_one_of": True, "lenient": not strict, **whitespace}}


def _ready(schema: Any, closes: bool) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    ready = dict(schema)
    if not isinstance(format := ready.get("format"), str) or format not in FORMATS:
        ready.pop("format", None)
    if "min_items" in schema:  # browser-use's spelling: an agent that must act
        ready.setdefault("minItems", schema["min_items"])
    if closes and schema.get("properties") and "additionalProperties" not in schema:
        ready["additionalProperties"] = False
    if "integer" in _kinds(schema) and "multipleOf" not in schema:
        if not {"maximum", "exclusiveMaximum"} & set(schema):
            ready["maximum"] = _WIDEST
        if not {"minimum", "exclusiveMinimum"} & set(schema):
            ready["minimum"] = -_WIDEST
    for key, value in schema.items():
        if key in _NAMED and isinstance(value, Mapping):
            ready[key] = {name: _ready(part, closes) for name, part in value.items()}
        elif key in _LISTED and isinstance(value, list):
            ready[key] = [_ready(part, closes) for part in value]
        elif key in _SINGLE:
            ready[key] = _ready(value, closes)
    return ready


def _kinds(schema: Schema) -> list[Any]:
    kind = schema.get("type")
    return kind if isinstance(kind, list) else [kind]


def _parts(schema: Any) -> Iterator[Schema]:
    """A schema and all in it."""
    if not isinstance(schema, Mapping):
        return
    yield schema
    for key, value in schema.items():
        if key in _NAMED and isinstance(value, Mapping):
            inside = list(value.values())
        elif key in _LISTED and isinstance(value, list):
            inside = value
        else:
            inside = [value] if key in _SINGLE else []
        for part in inside:
            yield from _parts(part)


def _mixes(schema: Schema) -> bool:
    """An object described in several places at once: none of them knows all its properties."""
    several = isinstance(schema.get("allOf"), list) and len(schema["allOf"]) > 1
    return several or ("properties" in schema and any(key in schema for key in _MIXING))
