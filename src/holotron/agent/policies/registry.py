"""A policy from a word, as people give it on the command line.

    random, random:7                chance, by seed
    scripted, scripted:0.15         the solver that comes with the suite; with a share of mistakes, which it mends
    http://localhost:8000/v1        any OpenAI-compatible server
    holotron-mini, runs/x, org/name a model, in an engine of this process: bundled, a folder, a hub id, a preset
    my_file.py:make, module:make    your own: a function from a `PolicyRequest` to a `Policy`

Other packages offer theirs by name through entry points (`holotron.policies`). One that wants to see a suite in its
own way says so:

    @declares(Profile(views={"miniwob": View(scale=2, crop=True)}))
    def make(request): ...
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, cast

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
    declared: Profile | None = None  # what the model says of itself; None: nobody has asked yet (`ask_profile`)

    @property
    def profile(self) -> Profile:
        """What the model declares, with the user's choices on top."""
        declared = self.declared or Profile()
        profile = declared.with_wishes(dialect=self.dialect, frame=self.frame, history=self.history)
        said = {name: getattr(self, name) for name in ("temperature", "max_tokens", "thinking")}
        return replace(profile, **{name: value for name, value in said.items() if value is not None})


PolicyFactory = Callable[[PolicyRequest], "Policy | Awaitable[Policy]"]
Asker = Callable[[PolicyRequest], "PolicyRequest | Awaitable[PolicyRequest]"]
Factory = TypeVar("Factory", bound=PolicyFactory)

policies: Registry[PolicyFactory] = Registry(
    "policy",
    "holotron.policies",
    {
        "random": "holotron.agent.policies.random",
        "openai": "holotron.agent.policies.openai_api",
        "engine": "holotron.agent.policies.engine",
    },
)


def declares(answer: Profile | Asker) -> Callable[[Factory], Factory]:
    """For a factory: what its policies say of themselves before one is made. Either the same for all, or a function
    that finds out and returns the request with `declared` filled in."""

    def mark(factory: Factory) -> Factory:
        factory.declares = answer  # type: ignore[attr-defined]
        return factory

    return mark


async def ask_profile(request: PolicyRequest) -> PolicyRequest:
    """The request with what the model says of itself, wherever it runs, or its family is known for. Nothing large is
    loaded for it, and nobody is asked twice."""
    if request.declared is not None:
        return request
    name, argument = route(request.spec)
    answer = getattr(policies.get(name), "declares", Profile())
    request = replace(request, argument=argument)
    if isinstance(answer, Profile):
        return replace(request, declared=answer)
    asked = answer(request)
    return await asked if inspect.isawaitable(asked) else asked


async def make_policy(request: PolicyRequest) -> Policy:
    asked = await ask_profile(request)
    name, _ = route(asked.spec)
    make = policies.get(name)
    if _acts(make):
        from holotron.agent.policies.function import as_policy

        return as_policy(cast(Any, make))  # somebody's own, which no type foresees
    with policies.theirs(name):
        made = make(asked)
        policy = await made if inspect.isawaitable(made) else made
    if not (hasattr(policy, "start") and hasattr(policy, "describe")):
        raise ConfigError(f"{name} gave a {type(policy).__name__}, not a policy; see holotron.Policy")
    return policy


def _acts(given: object) -> bool:
    """Whether it is a function from (task, observation), as Python's `policy=` takes one too, and makes no policy."""
    if not inspect.isfunction(given):
        return False
    wanted = [one for one in inspect.signature(given).parameters.values() if one.default is one.empty]
    return len([one for one in wanted if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]) == 2


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
    if not spec:
        raise ConfigError("name a policy: a model, the address of a server, random, scripted, or module:function")
    if spec in policies:
        return spec, ""
    if spec.startswith(("http://", "https://")):
        return "openai", spec
    name, colon, argument = spec.partition(":")
    if colon and name in policies:
        return name, argument
    if colon and name != "preset" and not Path(spec).exists():
        return spec, ""  # module:function
    if close := difflib.get_close_matches(spec, policies.names(), n=1, cutoff=0.7):
        from holotron.model.presets import PRESETS

        if spec not in PRESETS and not Path(spec).exists():
            raise ConfigError(f"there is no policy and no model {spec!r}: did you mean {close[0]}?")
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
