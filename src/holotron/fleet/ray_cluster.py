"""Replicas on a Ray cluster: Ray finds a machine with a free GPU (or cores) for each, and starts it there.

    holotron serve MODEL --replicas 16 --ray auto            # on a node of the cluster; or HEAD:6379

For each replica there is an actor that holds the GPU and starts the replica beside itself, as a process of its own,
just as `launching` does on one machine; when the actor or its node dies, so does the replica, and the supervisor has
another one placed. Requests do not go through Ray: the router talks to each replica directly, over HTTP with the
fleet's key. The same version of this package must be installed on all nodes.

`--ray local` starts a cluster of one node, to try it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from holotron.fleet.launching import LocalLauncher, LocalProcess, Share, StartFailed, with_secrets
from holotron.fleet.ray_place import connect, ray_module
from holotron.server.settings import Settings

log = logging.getLogger("holotron.fleet")

WAITING_SECONDS = 30.0  # after which it is said that nothing is free


class RayLauncher:
    ours = True

    def __init__(self, address: str, settings: Settings, agent: Any, threads: int = 1) -> None:
        """`threads`: cores of a replica without a GPU."""
        self._connected = not ray_module().is_initialized()  # by us
        self._ray = connect(address)
        device = settings.model.device
        gpus = device.startswith("cuda") if device is not None else self._ray.cluster_resources().get("GPU", 0) > 0
        self._threads = None if gpus else threads
        options = {"num_gpus": 1, "num_cpus": 1} if gpus else {"num_cpus": threads}
        self._actor = self._ray.remote(**options, max_restarts=0)(ReplicaActor)
        self._order = {"settings": with_secrets(settings), "agent": agent}

    async def start(self, n: int) -> RayReplica:
        actor = self._actor.remote()
        started = asyncio.ensure_future(_awaited(actor.start.remote(self._order, self._threads, n)))
        try:
            while not started.done():
                await asyncio.wait({started}, timeout=WAITING_SECONDS)
                if not started.done():
                    free = self._ray.available_resources()
                    told = {name: free.get(name, 0) for name in ("GPU", "CPU")}
                    log.warning("replica %d waits for its place in the cluster", n, extra={"fields": {"free": told}})
            told = started.result()
        except self._ray.exceptions.RayError as error:
            raise StartFailed(f"Ray could not start it: {error}") from None
        except asyncio.CancelledError:
            self._ray.kill(actor)
            raise
        if "failed" in told:
            self._ray.kill(actor)
            raise StartFailed(told["failed"], hopeless=told["hopeless"])
        return RayReplica(self._ray, actor, told["host"], told["port"])

    async def close(self) -> None:
        if self._connected:  # ends the cluster, too, if it is one of our own
            await asyncio.to_thread(self._ray.shutdown)


async def _awaited(reference: Any) -> Any:
    return await reference


class RayReplica:
    def __init__(self, ray: Any, actor: Any, host: str, port: int) -> None:
        self.host, self.port, self.hopeless = host, port, False
        self._ray, self._actor = ray, actor

    async def ended(self) -> str:
        try:
            told = await self._actor.ended.remote()
        except self._ray.exceptions.RayError as error:
            return f"its actor is gone: {type(error).__name__}"
        self.hopeless = told["hopeless"]
        self._ray.kill(self._actor)
        return str(told["said"])

    def kill(self) -> None:
        self._ray.kill(self._actor)

    async def stop(self) -> None:
        try:
            await self._actor.stop.remote()
        except self._ray.exceptions.RayError:
            return
        self._ray.kill(self._actor)


class ReplicaActor:
    """On the replica's node."""

    def __init__(self) -> None:
        self._running: LocalProcess | None = None

    async def start(self, order: dict[str, Any], threads: int | None, n: int) -> dict[str, Any]:
        host = ray_module().util.get_node_ip_address()
        settings = Settings.model_validate(order["settings"])
        server = settings.server.model_copy(update={"host": host})
        launcher = LocalLauncher(settings.model_copy(update={"server": server}), order["agent"], [Share(None, threads)])
        try:
            self._running = await launcher.start(0, called=n)
        except StartFailed as error:
            return {"failed": str(error), "hopeless": error.hopeless}
        return {"host": host, "port": self._running.port}

    async def ended(self) -> dict[str, Any]:
        assert self._running is not None
        return {"said": await self._running.ended(), "hopeless": self._running.hopeless}

    async def stop(self) -> None:
        if self._running is not None:
            await self._running.stop()
