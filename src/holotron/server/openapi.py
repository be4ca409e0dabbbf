"""The OpenAPI document. Bodies are read by `bodies`, which FastAPI does not see, so their schemas are put in here."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from holotron.server.responses.wire import ResponsesRequest
from holotron.server.wire import (
    AppendToSession,
    ChatRequest,
    CompactSession,
    CompletionRequest,
    DetokenizeRequest,
    ForkSession,
    OpenSession,
    RewindSession,
    TokenizeRequest,
)

BODIES: tuple[type[BaseModel], ...] = (
    ChatRequest,
    CompletionRequest,
    OpenSession,
    ForkSession,
    RewindSession,
    AppendToSession,
    CompactSession,
    TokenizeRequest,
    DetokenizeRequest,
)

ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}


def takes(model: type[BaseModel], *, required: bool = True) -> dict[str, Any]:
    """For a route: it reads this model from the body."""
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"requestBody": {"required": required, "content": {"application/json": {"schema": schema}}}}


def document(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        bodies: list[type[BaseModel]] = [*BODIES, ResponsesRequest]
        _, models = models_json_schema(
            [(model, "validation") for model in bodies],
            ref_template="#/components/schemas/{model}",
        )
        schemas = schema.setdefault("components", {}).setdefault("schemas", {})
        schemas.update(models["$defs"])
        schemas["Error"] = ERROR
        error = {
            "description": "An error",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
        }
        for path in schema["paths"].values():
            for operation in path.values():
                responses = operation.setdefault("responses", {})
                responses.pop("422", None)
                responses["4XX"] = responses["5XX"] = error
        app.openapi_schema = schema
    return app.openapi_schema
