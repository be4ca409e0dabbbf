"""The same fleet as a Ray Serve application, for those whose services all live there.

    from ray import serve
    from holotron.fleet.ray_serve import application

    serve.run(application("Hcompany/Holotron-12B", replicas=8), name="holotron", route_prefix="/")

or in a Serve config file, `import_path: holotron.fleet.ray_serve:application` with `args: {model: ..., replicas: 8}`.

Serve's proxy is the address, its controller keeps the entrance alive. The entrance, one Serve replica, places the
model's replicas on the cluster and routes to them as always, because Serve itself does not know sessions. Each request
so goes through Serve's proxy as well, which costs about ten milliseconds (docs/fleet.md): `holotron serve --ray` does
without.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from holotron.errors import ConfigError, MissingDependency
from holotron.fleet.serving import Addresses, replica_settings, with_folders
from holotron.server.layers import Value, resolve

PORT = 8000  # of Serve's proxy; folders are called after it


def application(
    args: Mapping[str, Any] | str | None = None,
    replicas: int | Sequence[str] = 1,
    settings: Mapping[str, Any] | None = None,
) -> Any:
    """`args`: the model, or everything at once as Serve hands it over from a config file. `replicas`: how many, or
    addresses of those that run already. `settings`: by their dotted names, as for `holotron serve`:
    {"server.api_key_file": ..., "memory.context": 32768}."""
    try:
        from ray import serve
    except ImportError:
        raise MissingDependency.extra("ray[serve]", "ray") from None
    told: dict[str, Any] = dict(args) if isinstance(args, Mapping) else {"model": args}
    replicas = told.pop("replicas", replicas)
    settings = {**dict(settings or {}), **dict(told.pop("settings", {}))}
    model = told.pop("model", None)
    if told:
        raise ConfigError(f"unknown argument {min(told)!r}: there are model, replicas and settings")
    entry = serve.deployment(
        name="holotron-entrance", num_replicas=1, max_ongoing_requests=4096, ray_actor_options={"num_cpus": 0.1}
    )(serve.ingress(lambda: _entrance(model, replicas, settings))(_Entry))
    return entry.bind()


class _Entry:
    pass


def _entrance(model: str | None, replicas: int | Sequence[str], given: Mapping[str, Any]) -> Any:
    """In Serve's process: an ASGI application."""
    from holotron.agent.policies.registry import announced_profile
    from holotron.fleet.entrance import Entrance
    from holotron.fleet.ray_cluster import RayLauncher
    from holotron.fleet.weights import signed_folder
    from holotron.model.bundled import BUNDLED

    layer = {key: Value(value, "application()") for key, value in given.items()}
    if model is not None:
        layer["model.source"] = Value(model, "application()")
    profile = announced_profile(model or BUNDLED)
    declared = {} if profile.deltas is None else {"sessions.deltas": Value(profile.deltas, "the model")}
    resolved = resolve(declared, layer)
    settings = with_folders(resolved.settings, PORT, list(resolved.origins))
    signed_folder(settings.fleet.folder)
    key = settings.fleet.key.get_secret_value() if settings.fleet.key is not None else secrets.token_urlsafe(32)
    if not isinstance(replicas, int):
        return Entrance(settings, Addresses(replicas), len(replicas), key).app()
    launcher = RayLauncher("auto", replica_settings(settings, key), profile.to_json())
    return Entrance(settings, launcher, replicas, key).app()
