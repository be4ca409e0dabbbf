"""A policy from a word, as people give it on the command line.

    random, random:7                chance, by seed
    scripted, scripted:0.15         the solver that comes with the suite; with a share of mistakes, which it mends
    http://localhost:8000/v1        any OpenAI-compatible server
    holotron-mini, runs/x, org/name a model, in an engine of this process: bundled, a folder, a hub id, a preset
    my_file.py:make, module:make    your own: a function from a `PolicyRequest` to a `Policy`

Other packages offer theirs by name through entry points (`holotron.policies`).
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

from holotron.actions import ACTIONS
from holotron.agent.policies.base import Policy
from holotron.agent.profiles import FILE as AGENT_FILE
from holotron.agent.profiles import Profile, profile_for
from holotron.errors import CheckpointError, ConfigError
from holotron.registry import Registry

MAX_TOKENS = 1024  # of one reply, where neither the user nor the model says


@dataclass(frozen=True, slots=True)
class PolicyRequest:
    """What the user said, and where the policy will play. None: what the model declares, or its family is known for."""

    spec: str
    model: str | None = None  # which of a server's models
    dialect: str | None = None
    frame: str | None = None
    history: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    constrained: bool = True
    thinking: bool | None = None
    device: str | None = None
    actions: tuple[str, ...] = tuple(ACTIONS)  # of the suite it will play in
    solver: Callable[[], Policy] | None = None  # of that suite
    argument: str = ""  # what followed the policy's name

    def wishes(self, declared: Profile) -> Profile:
        """What the model declares, with the user's choices on top."""
        profile = declared.with_wishes(dialect=self.dialect, frame=self.frame, history=self.history)
        said = {name: getattr(self, name) for name in ("temperature", "max_tokens", "thinking")}
        return replace(profile, **{name: value for name, value in said.items() if value is not None})


PolicyFactory = Callable[[PolicyRequest], "Policy | Awaitable[Policy]"]

policies: Registry[PolicyFactory] = Registry(
    "policy",
    "holotron.policies",
    {
        "random": "holotron.agent.policies.random",
        "openai": "holotron.agent.policies.openai_api",
        "engine": "holotron.agent.policies.engine",
    },
)


async def make_policy(request: PolicyRequest) -> Policy:
    name, argument = route(request.spec)
    made = policies.get(name)(replace(request, argument=argument))
    return await made if inspect.isawaitable(made) else made


async def declared_profile(request: PolicyRequest) -> Profile:
    """What the model says of itself, wherever it runs, or its family is known for; known before anything is loaded."""
    name, argument = route(request.spec)
    if name == "openai":
        from holotron.agent.policies.openai_api import served_profile

        return await served_profile(argument, request.model)
    if name == "engine":
        return await asyncio.to_thread(local_profile, argument)
    return Profile()


def local_profile(source: str) -> Profile:
    """Of a model that runs in this process."""
    return profile_for(source, _small_files(source))


def _small_files(source: str) -> Path | None:
    """The folder of a checkpoint, of a hub repository with its small files only; None for a preset, and where there is
    no network: then the model's name has to do."""
    from holotron.model.loading import resolve
    from holotron.model.weights.hub import looks_like_hub_id, snapshot

    if not looks_like_hub_id(source) or Path(source).is_dir():
        found = resolve(source)
        return found if isinstance(found, Path) else None
    try:
        return snapshot(source, ["config.json", "generation_config.json", AGENT_FILE])
    except CheckpointError:
        return None


def announced_profile(source: str) -> Profile:
    """What a server says of the model it serves: also what the model leaves to its files, because whoever asks by
    address does not see those. As in this process, that is its publishers' sampling, or else the likeliest token."""
    from holotron.model.processor import SamplingDefaults

    folder = _small_files(source)
    profile = profile_for(source, folder)
    own = SamplingDefaults.of_folder(folder) if folder is not None else SamplingDefaults()
    return replace(
        profile,
        temperature=first_said(profile.temperature, own.temperature, 0.0),
        top_p=first_said(profile.top_p, own.top_p, 1.0),
    )


def first_said(*values: float | None) -> float:
    return next(value for value in values if value is not None)


def route(spec: str) -> tuple[str, str]:
    """Who makes it, and from what."""
    if spec in policies:
        return spec, ""
    if spec.startswith(("http://", "https://")):
        return "openai", spec
    name, colon, argument = spec.partition(":")
    if colon and name in policies:
        return name, argument
    if colon and name != "preset" and not Path(spec).exists():
        return spec, ""  # module:function
    return "engine", spec


@policies.register("scripted")
def scripted(request: PolicyRequest) -> Policy:
    if request.solver is None:
        raise ConfigError("there is no scripted solver for this suite")
    if not request.argument:
        return request.solver()
    from holotron.agent.policies.distracted import DistractedPolicy

    try:
        share = float(request.argument)
    except ValueError:
        raise ConfigError(f"policy {request.spec!r}: write scripted:SHARE, such as scripted:0.15") from None
    return DistractedPolicy(request.solver(), share, request.actions)
