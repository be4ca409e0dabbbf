"""New weights at the entrance: handed to all replicas, and to those that come later."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from holotron.engine import OnUpdate
from holotron.fleet.replicas import Replica, Replicas
from holotron.fleet.upstream import Broken, Refused
from holotron.fleet.weights import Chain, kept
from holotron.server.errors import ApiError, invalid
from holotron.server.moving import FleetBody
from holotron.server.weights import Announced, SharedTensor

log = logging.getLogger("holotron.fleet")

SECONDS = 600.0


class Broadcast(FleetBody):
    host: str
    port: int
    backend: str
    tensors: tuple[Announced, ...]
    replicas: tuple[str, ...] = Field(description="that take part, in the order of their ranks from 1 on")


class Publication(FleetBody):
    on_update: OnUpdate = "keep"
    changes_version: int | None = None  # that it tells differences from
    file: str | None = Field(default=None, pattern=r"^[0-9a-f]{32}\.weights$")
    shared: tuple[SharedTensor, ...] | None = None
    gpu: str | None = None
    group: Broadcast | None = None


class Updates:
    def __init__(self, replicas: Replicas, folder: Path, here: Callable[[Replica], str]) -> None:
        """`here`: where a replica on another machine finds the files in `folder`."""
        self._replicas, self._here = replicas, here
        self._chain = Chain(folder)
        self._one = asyncio.Lock()
        self.version = 0

    async def publish(self, told: Any) -> int:
        """To everybody who lives. Who fails is behind, and is looked after."""
        try:
            order = Publication.model_validate(told)
        except ValidationError as error:
            raise invalid(error.errors(include_url=False, include_input=False, include_context=False)) from None
        async with self._one:
            if order.changes_version not in (None, self.version):
                message = f"these are changes to version {order.changes_version}; here is version {self.version}"
                raise ApiError(409, message, code="other_version")
            version = self.version + 1
            alive = [one for one in self._replicas.all() if one.alive and one.stage != "other"]
            if order.group is not None:
                alive = [one for one in alive if one.name in order.group.replicas]
            if not alive:
                raise ApiError(409, "no replica is there to receive the weights", code="no_replica")
            body: dict[str, Any] = {"version": version, "on_update": order.on_update}
            if order.changes_version is not None:
                body["changes_version"] = order.changes_version
            if order.file is not None:
                body["file"] = order.file
            if order.shared is not None:
                body |= {"shared": [tensor.model_dump() for tensor in order.shared], "gpu": order.gpu}
            bodies = [{**body, "at": self._here(one), **self._rank(order, one)} for one in alive]
            results = await asyncio.gather(
                *(one.ask("POST", "/fleet/weights", each, SECONDS) for one, each in zip(alive, bodies, strict=True)),
                return_exceptions=True,
            )
            fine = [one for one, result in zip(alive, results, strict=True) if not isinstance(result, BaseException)]
            if not fine:
                if order.file is not None:
                    (self._chain.folder / order.file).unlink(missing_ok=True)
                raise next(result for result in results if isinstance(result, BaseException))
            self.version = version
            if order.file is not None:
                self._chain.add(kept(self._chain.folder, order.file, version, order.on_update))
            else:
                names = order.shared or (order.group.tensors if order.group is not None else ())
                self._chain.gap(version, (tensor.name for tensor in names))
            for one, result in zip(alive, results, strict=True):
                if isinstance(result, BaseException):
                    log.warning("replica %s did not take version %d: %s", one.name, version, result)
                    one.stage = "behind" if one.stage == "ready" else one.stage
                else:
                    one.told["version"] = version
                    if one.stage == "behind":
                        one.stage = "ready"
            return version

    @staticmethod
    def _rank(order: Publication, replica: Replica) -> dict[str, Any]:
        if (group := order.group) is None:
            return {}
        told = group.model_dump(exclude={"replicas"})
        return {"group": told | {"rank": group.replicas.index(replica.name) + 1, "size": len(group.replicas) + 1}}

    async def catch_up(self, replica: Replica) -> None:
        """Before it serves: it has the weights that all have."""
        async with self._one:
            if replica.version > self.version:  # this entrance was started later than its replicas
                self.version = replica.version
                self._chain.gap(self.version, ())
                for other in self._replicas.serving():
                    other.stage = "behind"
            if replica.version == self.version:
                replica.stage = "ready"
                return
            missing = self._chain.after(replica.version)
            if not missing:
                return  # until the next update
            for one in missing:
                body = {"version": one.version, "on_update": one.on_update, "file": one.file}
                body["at"] = self._here(replica)
                try:
                    await replica.ask("POST", "/fleet/weights", body, SECONDS)
                except (Refused, Broken) as error:
                    log.error("replica %s cannot catch up and is started again: %s", replica.name, error)
                    replica.dead()
                    return
            replica.told["version"] = self.version
            replica.stage = "ready"
            log.info("replica %s has caught up with version %d", replica.name, self.version)

    def close(self) -> None:
        self._chain.close()
