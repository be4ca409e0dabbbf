"""GET /docs: the OpenAPI document as one page to read, without scripts and without other hosts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
code { background: #f3f3f3; padding: .1em .3em; border-radius: 3px } table { border-collapse: collapse; width: 100% }
td { border-top: 1px solid #ddd; padding: .3em .6em .3em 0; vertical-align: top } summary { cursor: pointer }
.verb { font-weight: 600; display: inline-block; min-width: 4.5em; color: #06609e }
details { border: 1px solid #ddd; border-radius: 6px; padding: .5em .8em; margin: .4em 0 }
"""
HEADERS = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"}


def page(document: Mapping[str, Any]) -> str:
    info = document["info"]
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        f"<title>{escape(info['title'])} {escape(info['version'])}</title><style>{STYLE}</style>",
        f"<h1>{escape(info['title'])} <small>{escape(info['version'])}</small></h1>",
        f"<p>{escape(info.get('description', ''))} For programs: <a href=openapi.json>openapi.json</a>.</p>",
    ]
    tags: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for verb, operation in operations.items():
            tag = (operation.get("tags") or ["other"])[0]
            tags.setdefault(tag, []).append("".join(_operation(path, verb, operation, document)))
    for tag, entries in tags.items():
        parts += [f"<h2>{escape(tag)}</h2>", *entries]
    return "".join(parts)


def _operation(path: str, verb: str, operation: Mapping[str, Any], document: Mapping[str, Any]) -> Iterator[str]:
    yield f"<details><summary><span class=verb>{verb.upper()}</span> <code>{escape(path)}</code></summary>"
    if text := operation.get("description"):
        yield f"<p>{escape(text)}</p>"
    content = operation.get("requestBody", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    fields = _resolved(schema, document)
    required = fields.get("required", [])
    rows = [
        f"<tr><td><code>{escape(name)}</code>{' (required)' if name in required else ''}"
        f"<td>{escape(_kind(field))}<td>{escape(field.get('description', ''))}"
        for name, field in fields.get("properties", {}).items()
    ]
    yield f"<table>{''.join(rows)}</table></details>" if rows else "</details>"


def _resolved(schema: Mapping[str, Any], document: Mapping[str, Any]) -> Mapping[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    return document["components"]["schemas"][name] if name else schema


def _kind(field: Mapping[str, Any]) -> str:
    """A type in a few words."""
    if "$ref" in field:
        return str(field["$ref"]).rpartition("/")[2]
    if "const" in field:
        return f"{field['const']!r}"
    if "enum" in field:
        return " | ".join(f"{value!r}" for value in field["enum"])
    for key in ("anyOf", "oneOf"):
        if key in field:
            return " | ".join(kind for part in field[key] if (kind := _kind(part)) != "null") or "null"
    if field.get("type") == "array":
        return f"list of {_kind(field.get('items', {}))}"
    return str(field.get("type", "anything"))
