"""What the routes share: the engine, its processor, the sessions, and how far the server is in its life."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

from holotron.engine import Engine
from holotron.model.processor import Deltas, Processor, Transcript
from holotron.server.errors import ApiError, unavailable
from holotron.server.images import ImageFetcher
from holotron.server.metrics import Metrics
from holotron.server.served import ServedSessions
from holotron.server.settings import Settings

Stage = Literal["loading", "ready", "draining", "failed"]
T = TypeVar("T")


class Loaded:
    """Everything that exists once the model does."""

    def __init__(
        self, engine: Engine, processor: Processor, name: str, max_marks: int = 4, deltas: int | None = None
    ) -> None:
        """`deltas`: sessions tell screenshots as changes to the one before, with this tolerance."""
        self.engine = engine
        self.processor = processor
        self.name = name
        begins = Transcript(deltas=None if deltas is None else Deltas(deltas))
        self.sessions = ServedSessions(engine, max_marks, begins)

    @property
    def sees(self) -> bool:
        return self.processor.images is not None


class Service:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.stage: Stage = "loading"
        self.problem = ""  # why it failed
        self.created = int(time.time())
        self.metrics = Metrics()
        self.fetcher = ImageFetcher(settings.images)
        self.in_flight = 0  # requests being answered
        self._loaded: Loaded | None = None

    def become_ready(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self.settings = self.settings.model_copy(update={"reply": self.settings.reply.filled(loaded.processor)})
        self.stage = "ready"

    @property
    def loaded(self) -> Loaded | None:
        return self._loaded

    def serving(self, model: str | None = None) -> Loaded:
        """The model, or the reason why there is none to be had now."""
        if self._loaded is None:
            raise unavailable("the model is still being loaded", "loading", retry_after=10.0)
        if self.stage == "draining":
            raise unavailable("the server is shutting down", "shutting_down")
        if model is not None and model != self._loaded.name:
            raise ApiError(
                404,
                f"there is no model {model!r} here; this server has {self._loaded.name!r}",
                code="model_not_found",
                param="model",
            )
        return self._loaded

    async def on_worker(self, work: Callable[[], T]) -> T:
        """Slow work without a GPU (images, templates, grammars) belongs on the engine's worker threads."""
        return await self.serving().engine.aio.on_worker(work)

    async def with_images(self, messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Messages whose image addresses have been fetched. Data URLs stay as they are: decoding is for a worker."""
        parts = [
            part for message in messages if isinstance(message.get("content"), list) for part in message["content"]
        ]
        shown = [part for part in parts if "image_url" in part]
        if len(shown) > (limit := self.settings.images.max_per_request):
            raise ApiError(400, f"the request has {len(shown)} images; the limit is {limit}", param="messages")
        remote = [part for part in shown if _address(part)[:5].lower() != "data:"]
        pictures = await asyncio.gather(*(self.fetcher.fetch(_address(part)) for part in remote))
        for part, picture in zip(remote, pictures, strict=True):
            part.clear()
            part.update({"type": "image", "image": picture})
        return list(messages)


def _address(part: dict[str, Any]) -> str:
    address = part["image_url"]
    url: str = address["url"] if isinstance(address, dict) else address
    return url
