"""What the routes share: the engine, its processor, the sessions, and how far the server is in its life."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from holotron.engine import Engine
from holotron.model.processor import Deltas, Processor, Transcript
from holotron.server.door import Stage
from holotron.server.errors import ApiError, unavailable
from holotron.server.images import ImageFetcher
from holotron.server.journal import Journal
from holotron.server.keys import api_keys
from holotron.server.metrics import Metrics
from holotron.server.pictures import SentPicture, cut_pictures
from holotron.server.quotas import Quotas
from holotron.server.responses.files import ResponseFiles
from holotron.server.responses.store import ResponseStore
from holotron.server.routed import Said
from holotron.server.served import ServedSessions
from holotron.server.settings import Settings
from holotron.server.tokenising import TextGauge, unlock
from holotron.server.workers import Workers


@dataclass(frozen=True)
class Caller:
    """Whose request it is."""

    owner: str  # what a key opened belongs to it
    turn: str  # who waits for his turn on the workers
    scope: bytes  # with whom prefixes are shared


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
        self.responses = ResponseStore(ServedSessions(engine, 0, begins), engine.config.max_sessions)
        unlock(processor.tokenizer)
        self.gauge = TextGauge(processor.tokenizer, engine.context_limit)

    @property
    def sees(self) -> bool:
        return self.processor.images is not None


class Service:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.stage: Stage = "loading"
        self.created = int(time.time())
        self.metrics = Metrics()
        self.fetcher = ImageFetcher(settings.images)
        self.in_flight = 0  # requests being answered
        self.cut = asyncio.Event()  # the time to finish is over: what still runs ends with an error
        self.keys = api_keys(settings.server)
        self.quotas = Quotas(settings.quota, keys=len(self.keys), buffered_bytes=settings.server.max_buffered_bytes)
        self.workers = Workers(settings.limits.workers)
        self.said: dict[str, Said] = {}  # what clients have heard of replies that are about to be repeated here
        self.has_router = False  # that has asked for something
        self.journal: Journal | None = None
        fleet = settings.fleet
        if fleet.journal is not None:
            self.journal = Journal(
                fleet.journal.expanduser(),
                fleet.journal_bytes,
                self.workers,
                ttl=settings.sessions.ttl_seconds,
                responses_ttl=settings.responses.ttl_seconds,
            )
        self.metrics.journal = self.journal
        self._loaded: Loaded | None = None

    def become_ready(self, loaded: Loaded) -> None:
        self._loaded = loaded
        engine = loaded.engine.config
        self.quotas.size(engine.max_running + engine.max_waiting)
        loaded.sessions.quotas = self.quotas
        loaded.sessions.keeper = self.journal
        if self.journal is not None:
            loaded.responses.files = ResponseFiles(self.journal.folder)
        loaded.responses.limit(self.settings.responses, self.quotas)
        self.settings = self.settings.model_copy(update={"reply": self.settings.reply.filled(loaded.processor)})
        self.stage = "ready"

    @property
    def loaded(self) -> Loaded | None:
        return self._loaded

    def loaded_now(self) -> Loaded:
        """The model, even while the server is about to stop: then its sessions are moved elsewhere."""
        if self._loaded is None:
            raise unavailable("the model is still being loaded", "loading", retry_after=10.0)
        return self._loaded

    @property
    def to_be_moved(self) -> bool:
        """Something is here that a router, if there is one, will have moved elsewhere before the server ends."""
        if self.settings.fleet.key is None or not self.has_router or self._loaded is None:
            return False
        return bool(self._loaded.sessions.everybodys()) or self._loaded.responses.count > 0

    def serving(self, model: str | None = None) -> Loaded:
        """The model, or the reason why there is none to be had now."""
        loaded = self.loaded_now()
        if self.stage == "draining":
            raise unavailable("the server is shutting down", "shutting_down")
        if model is not None and model != loaded.name:
            raise ApiError(
                404,
                f"there is no model {model!r:.200} here; this server has {loaded.name!r}",
                code="model_not_found",
                param="model",
            )
        return loaded

    def caller(self, http: Request) -> Caller:
        owner: str = http.scope["owner"]
        several = len(self.keys) > 1 or "routed" in http.scope  # a router says whose requests they are
        scope = owner.encode() if several and not self.settings.server.share_prefix_cache else b""
        return Caller(owner, http.scope.get("turn", owner), scope)

    async def cut_pictures(self, messages: list[dict[str, Any]], caller: Caller) -> list[SentPicture]:
        """Put tiles in the place of the pictures that messages name."""
        return await cut_pictures(
            messages,
            owner=caller.turn,
            scope=caller.scope,
            processor=self.serving().processor,
            settings=self.settings.images,
            fetcher=self.fetcher,
            workers=self.workers,
        )

    def close(self) -> None:
        self.workers.close()
        if self.journal is not None:
            self.journal.close()
            if self._loaded is not None:
                self._loaded.responses.remove_files()
