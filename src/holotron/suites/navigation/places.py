"""Where navigation tasks are played: the live web, or a copy of it at an address of your own.

    holotron eval webvoyager:data/webvoyager --policy ...                          the live sites
    holotron eval webvoyager:data/webvoyager@http://localhost:8080 --policy ...    http://localhost:8080/www.bbc.com/news/

With `@ADDRESS` every start page lies below that address, in a folder named after its host, and nothing else can be
reached. A figure from a copy is no figure of the benchmark: the manifest names the address.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from holotron.addresses import in_url
from holotron.envs.base import EnvironmentPool
from holotron.envs.chromium import browser_version
from holotron.envs.network import NetworkPolicy
from holotron.envs.registry import PoolRequest, environments
from holotron.errors import ConfigError
from holotron.types import Task
from holotron.view import View

VIEW = View(width=1280, height=720, scale=1.0, format="jpeg")


@dataclass(frozen=True, slots=True)
class Place:
    files: str  # where the tasks are
    base: str = ""  # the address of a copy; none: the live web
    wanted: NetworkPolicy | None = None  # where the user lets browsers go, on the live web

    @classmethod
    def parse(cls, argument: str, wanted: NetworkPolicy | None = None) -> Place:
        """`FILES` or `FILES@http://host:port`."""
        files, at, rest = argument.partition("@http")
        if not at:
            return cls(argument, wanted=wanted)
        base = f"http{rest}".rstrip("/")
        try:
            parts = urlsplit(base)
            sound = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or True)
        except ValueError:
            sound = False
        if not sound:
            raise ConfigError(f"{base!r} is no web address; write FILES@http://host:port")
        if wanted is not None:
            raise ConfigError(f"a copy is reached at {base} and nothing else is: leave out which sites may be visited")
        return cls(files, base)

    def of(self, task: Task) -> Task:
        """The task with its start page where it is played."""
        if not self.base or task.start_url is None:
            return task
        parts = urlsplit(task.start_url)
        query = f"?{parts.query}" if parts.query else ""
        return replace(task, start_url=f"{self.base}/{parts.hostname}{parts.path or '/'}{query}")

    @property
    def facts(self) -> dict[str, Any]:
        """For manifests."""
        return {"base": self.base or "live", "browser": browser_version()}

    @property
    def network(self) -> NetworkPolicy:
        if not self.base:
            return self.wanted or NetworkPolicy()
        parts = urlsplit(self.base)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        host = parts.hostname or ""
        return NetworkPolicy(allow=(f"{in_url(host)}:{port}",))

    def open(self, sessions: int, view: View) -> EnvironmentPool[Any]:
        return environments.get("web")(PoolRequest(sessions, view, {"network": self.network}))
