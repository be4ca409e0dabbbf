"""Environments by name: `web`, `miniwob`, and whatever other packages offer (entry points `holotron.environments`).

@environments.register("desktop")
def open_desktops(request: PoolRequest) -> EnvironmentPool: ...

pool = environments.get("web")(PoolRequest(sessions=8, view=View(width=1280, height=720)))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from holotron.envs.base import EnvironmentPool
from holotron.registry import Registry
from holotron.view import View


@dataclass(frozen=True, slots=True)
class PoolRequest:
    """What a pool of environments is asked for."""

    sessions: int = 1  # at most, at the same time
    view: View = field(default_factory=View)
    options: Mapping[str, Any] = field(default_factory=dict)  # an environment's own; see its module


EnvironmentFactory = Callable[[PoolRequest], EnvironmentPool[Any]]

environments: Registry[EnvironmentFactory] = Registry(
    "environment", "holotron.environments", {"web": "holotron.envs.web", "miniwob": "holotron.envs.miniwob"}
)
