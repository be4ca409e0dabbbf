"""`holotron serve --replicas`: the entrance and its replicas, until a signal ends them."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr

from holotron.addresses import in_url
from holotron.errors import ConfigError
from holotron.fleet.entrance import Entrance
from holotron.fleet.launching import Launcher, LocalLauncher, shares
from holotron.fleet.weights import clear_folder, signed_folder
from holotron.server import logs
from holotron.server.connections import QuietAccept
from holotron.server.keys import api_keys
from holotron.server.run import Server, listen, uvicorn_config, warn_if_open
from holotron.server.settings import FleetSettings, QuotaSettings, Settings

log = logging.getLogger("holotron.fleet")

MOST_REPLICAS = 1000  # one entrance asks each of them how it is, once a second


def serve_fleet(
    settings: Settings,
    agent: Any,
    replicas: int | Sequence[str],
    *,
    ray: str | None = None,
    said: Sequence[str] = (),
) -> None:
    """`replicas`: how many to start, or addresses of those that run already. `ray`: start them on this cluster. `said`:
    settings that were given by somebody, and so are not ours to choose."""
    sys.setswitchinterval(0.0005)
    logs.set_up(settings.server.log_format, settings.server.log_level)
    count = replicas if isinstance(replicas, int) else len(replicas)
    if count < 1:
        raise ConfigError("--replicas wants at least one")
    if count > MOST_REPLICAS:
        raise ConfigError(f"--replicas {count}: one entrance has at most {MOST_REPLICAS}, see docs/scale.md")
    watched = Addresses(replicas) if not isinstance(replicas, int) else None
    if watched is not None and ray is not None:
        raise ConfigError("--ray starts replicas, and those at addresses run already: leave out one of the two")
    if watched is not None and settings.fleet.key is None:
        raise ConfigError("replicas that run already have a fleet.key; say it here too")
    places = shares(count, settings.model.device) if isinstance(replicas, int) and ray is None else []
    listener = listen(settings.server.host, settings.server.port)
    host, port = listener.getsockname()[:2]
    key = settings.fleet.key.get_secret_value() if settings.fleet.key is not None else secrets.token_urlsafe(32)
    server = settings.server.model_copy(update={"port": port})
    settings = with_folders(settings.model_copy(update={"server": server}), port, said)
    launcher: Launcher
    if watched is not None:
        launcher = watched
    elif ray is not None:
        from holotron.fleet.ray_cluster import RayLauncher

        launcher = RayLauncher(ray, replica_settings(settings, key), agent)
    else:
        launcher = LocalLauncher(replica_settings(settings, key), agent, places)
    try:
        signed_folder(settings.fleet.folder)
    except OSError as error:
        raise ConfigError(f"fleet.folder: {settings.fleet.folder} cannot be written: {error.strerror}") from None
    entrance = Entrance(settings, launcher, count, key)
    fields = {"url": f"http://{in_url(host)}:{port}/v1", "port": port, "replicas": count}
    log.info("listening", extra={"fields": fields})
    if settings.fleet.journal is not None and watched is None:
        log.info("logs of sessions are kept", extra={"fields": {"folder": str(settings.fleet.journal)}})
    warn_if_open(entrance, host)

    class Entry(Server):
        async def startup(self, sockets: Any = None) -> None:
            asyncio.get_running_loop().set_exception_handler(QuietAccept())
            await super().startup(sockets)

    try:
        Entry(uvicorn_config(entrance.app(), settings), entrance).run(sockets=[listener])
    finally:
        clear_folder(settings.fleet.folder)
        for name, folder in (("fleet.folder", settings.fleet.folder), ("fleet.journal", settings.fleet.journal)):
            if folder is not None and name not in said:  # it is we who made it
                _remove_if_empty(folder)
    if entrance.failure is not None:
        raise entrance.failure


def _remove_if_empty(folder: Path) -> None:
    """A journal without sessions has folders of keys, and its name."""
    if any(path.is_file() and path.name != "folder.json" for path in folder.rglob("*")):
        return
    shutil.rmtree(folder, ignore_errors=True)


def with_folders(settings: Settings, port: int, said: Sequence[str]) -> Settings:
    """Where sessions lie while they move, and where their logs are kept, unless somebody has said."""
    fleet: dict[str, Any] = {}
    if "fleet.folder" not in said:
        memory = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else Path(tempfile.gettempdir())
        fleet["folder"] = memory / f"holotron-fleet-{os.getuid()}-{port}"
    if "fleet.journal" not in said:
        state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
        fleet["journal"] = state / "holotron" / f"fleet-{port}"
    return settings.model_copy(update={"fleet": settings.fleet.model_copy(update=fleet)})


def replica_settings(settings: Settings, key: str) -> Settings:
    """Of every replica: as the entrance's, but that it has no doors of its own. Only the router may talk to it."""
    secret = SecretStr(key)
    server = settings.server.model_copy(
        update={
            "host": "127.0.0.1",
            "port": 0,
            "api_keys": (secret,),
            "api_key_file": None,
            "open": False,
            "metrics_key": secret,
            "share_prefix_cache": settings.server.share_prefix_cache or len(api_keys(settings.server)) < 2,
        }
    )
    fleet = FleetSettings(
        key=secret,
        folder=settings.fleet.folder,
        journal=settings.fleet.journal,
        journal_bytes=settings.fleet.journal_bytes,
    )
    router_only = settings.connections.model_copy(update={"max_open": 8192, "max_per_address": None})
    quota = QuotaSettings(memory_bytes=settings.quota.memory_bytes)  # of responses' sessions; else at the entrance
    return settings.model_copy(update={"server": server, "fleet": fleet, "connections": router_only, "quota": quota})


class Addresses:
    """Replicas that somebody else starts, and starts again: they are only watched."""

    ours = False

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = [urlsplit(url if "//" in url else f"http://{url}") for url in urls]
        for url in self._urls:
            if url.scheme != "http" or url.hostname is None or url.port is None or url.path not in ("", "/"):
                raise ConfigError(f"{url.geturl()} is not the address of a replica: http://HOST:PORT")
        if twice := [url.netloc for url in self._urls if [other.netloc for other in self._urls].count(url.netloc) > 1]:
            raise ConfigError(f"{twice[0]} is named twice; each replica has an address of its own")

    async def start(self, n: int) -> Watched:
        url = self._urls[n]
        assert url.hostname is not None and url.port is not None
        return Watched(url.hostname, url.port)

    async def close(self) -> None:
        return


class Watched:
    hopeless = False

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self._over = asyncio.Event()

    async def ended(self) -> str:
        await self._over.wait()
        return f"{self.host}:{self.port} does not answer"

    def kill(self) -> None:
        self._over.set()

    async def stop(self) -> None:
        return
