"""What the outer parts of a server need to know of what is inside: one model (`service.Service`), or the router of
several (`holotron.fleet.entrance`). Both have the same doors: connections, keys, quotas, ids, draining."""

from __future__ import annotations

import asyncio
from typing import Literal, Protocol

from holotron.server.quotas import Quotas
from holotron.server.settings import Settings

Stage = Literal["loading", "ready", "draining", "failed"]


class Answered(Protocol):
    def answered(self, route: str, status: int) -> None: ...


class Door(Protocol):
    settings: Settings
    stage: Stage
    in_flight: int  # requests being answered
    cut: asyncio.Event  # the time to finish is over
    keys: tuple[str, ...]
    quotas: Quotas

    @property
    def metrics(self) -> Answered: ...

    @property
    def to_be_moved(self) -> bool: ...
