"""Structured logs: one JSON object per line, every line of a request with its id."""

from __future__ import annotations

import json
import logging
import sys
import time
from contextvars import ContextVar
from typing import Any, Literal

from starlette.requests import Request

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (id := request_id.get()) is not None:
            line["request_id"] = id
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)  # ASCII: a terminal takes orders from other letters too


class PlainLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = " ".join(f"{key}={_field(value)}" for key, value in getattr(record, "fields", {}).items())
        message = printable(record.getMessage())
        lines = [f"{time.strftime('%H:%M:%S')} {record.levelname.lower():7} {message} {fields}".rstrip()]
        if record.exc_info:
            lines += [f"    | {printable(line)}" for line in self.formatException(record.exc_info).splitlines()]
        return "\n".join(lines)


def printable(text: str) -> str:
    """On one line, and nothing in it that a terminal obeys: what a client sent must not look like a line of ours."""
    return "".join(letter if letter.isprintable() else _escaped(letter) for letter in text)


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape", "backslashreplace").decode()


def _field(value: Any) -> str:
    """Quoted where it could be taken for several fields."""
    text = str(value)
    return json.dumps(text) if any(letter in ' "=\\' or not letter.isprintable() for letter in text) else text


def set_up(format: Literal["json", "text"], level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if format == "json" else PlainLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.getLogger("httpcore").setLevel(logging.WARNING)


def note(http: Request, **fields: Any) -> None:
    """Something worth a place in the request's own log line."""
    http.scope.setdefault("notes", {}).update({key: value for key, value in fields.items() if value is not None})
