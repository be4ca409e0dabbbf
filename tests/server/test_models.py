"""A server announces what its model wants from whoever drives it as an agent."""

from __future__ import annotations

import asyncio

import httpx
import openai

from holotron.engine import Engine
from holotron.server.app import create_app
from holotron.server.service import Loaded, Service
from holotron.server.settings import Settings
from tests.engine.support import byte_model, settings

AGENT = {
    "dialect": "compact",
    "frame": "cells",
    "history": "append",
    "views": {"miniwob": {"scale": 2, "crop": True, "format": "png"}},
    "sampling": {"temperature": 0.0},
}


def test_the_agent_profile_comes_with_the_model() -> None:
    model, processor = byte_model()
    service = Service(Settings())
    app = create_app(service, agent=AGENT)

    async def ask() -> list[openai.types.Model]:
        async with openai.AsyncOpenAI(
            base_url="http://micro/v1",
            api_key="none",
            http_client=httpx.AsyncClient(transport=httpx.ASGITransport(app)),
        ) as client:
            (listed,) = (await client.models.list()).data
            return [listed, await client.models.retrieve("micro")]

    with Engine(model, processor, settings()) as engine:
        service.become_ready(Loaded(engine, processor, "micro"))
        for model_object in asyncio.run(ask()):
            assert (model_object.id, model_object.owned_by) == ("micro", "holotron")
            assert model_object.model_dump()["agent"] == AGENT
    schema = app.openapi()["components"]["schemas"]["ModelObject"]
    assert "agent" in schema["properties"]
    assert "agent" not in schema["required"]
