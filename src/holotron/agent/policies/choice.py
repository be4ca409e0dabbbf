"""A policy from a word, as people give it on the command line.

random, random:7                chance, by seed
scripted                        the MiniWoB++ solver
http://localhost:8000/v1        any OpenAI-compatible server
holotron-mini, runs/x, org/name a model, in an engine of this process: bundled, a folder, a hub id, a preset
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from holotron.agent.policies.base import Policy
from holotron.agent.policies.openai_api import OpenAIPolicy, Sampling, served_models
from holotron.agent.policies.random import DEFAULT_ACTIONS, RandomPolicy
from holotron.agent.profiles import FILE as AGENT_FILE
from holotron.agent.profiles import Profile, profile_for, read_profile
from holotron.errors import ConfigError

MAX_TOKENS = 1024  # of one reply, where neither the user nor the model says
MOST_IMAGES = 64  # in one request of ours; the history policy is what keeps them few


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """What the user said. None: what the model declares, or its family is known to speak."""

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

    def profile(self, name: str, folder: Path | None = None) -> Profile:
        known = profile_for(name, folder)
        known = known.with_wishes(dialect=self.dialect, frame=self.frame, history=self.history)
        wishes: dict[str, Any] = {
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "thinking": self.thinking,
        }
        return replace(known, **{name: value for name, value in wishes.items() if value is not None})


def miniwob_view(choice: PolicyChoice, scale: float | None, crop: bool | None, png: bool | None) -> dict[str, Any]:
    """How to show this policy MiniWoB++: as the user says, else as the model itself does, else large and whole."""
    wishes = {"scale": scale, "crop": crop, "png": png}
    view = {"scale": 3.0, "crop": False, "png": False, **_declared(choice).miniwob}
    view |= {key: value for key, value in wishes.items() if value is not None}
    return {
        "scale": float(view["scale"]),
        "crop_instruction": bool(view["crop"]),
        "image_format": "png" if view["png"] else "jpeg",
    }


def web_screen(
    choice: PolicyChoice, width: int | None, height: int | None, scale: float | None
) -> tuple[int, int, float]:
    """How large a page to show this policy: as the user says, else as the model itself does, else as people have it."""
    screen = {"width": 1280, "height": 720, "scale": 1.0, **_declared(choice).screen}
    wishes = {"width": width, "height": height, "scale": scale}
    screen |= {key: value for key, value in wishes.items() if value is not None}
    return int(screen["width"]), int(screen["height"]), float(screen["scale"])


def _declared(choice: PolicyChoice) -> Profile:
    """What a model on this machine says of itself."""
    from holotron.model.bundled import BUNDLED, bundled_folder

    folder = bundled_folder() if choice.spec == BUNDLED else Path(choice.spec)
    return read_profile(folder / AGENT_FILE) if (folder / AGENT_FILE).is_file() else Profile()


async def make_policy(choice: PolicyChoice, actions: Sequence[str]) -> Policy:
    """Build it. `actions` is the action space of the suite it will play in."""
    kind, _, rest = choice.spec.partition(":")
    if kind == "random":
        if rest and not rest.isdigit():
            raise ConfigError(f"policy {choice.spec!r}: write random:SEED with a whole number")
        return RandomPolicy(int(rest or 0), [name for name in DEFAULT_ACTIONS if name in actions])
    if choice.spec == "scripted":
        from holotron.suites.miniwob_solver import SolverPolicy

        return SolverPolicy()
    if kind in ("http", "https"):
        return await _remote(choice, actions)
    return await asyncio.to_thread(_engine, choice, actions)


async def _remote(choice: PolicyChoice, actions: Sequence[str]) -> Policy:
    model = choice.model or await _only_model(choice.spec)
    profile = choice.profile(model)
    return OpenAIPolicy(
        choice.spec,
        model,
        profile.make_dialect(actions),
        profile.make_history(),
        sampling=Sampling(profile.temperature, profile.top_p, profile.max_tokens or MAX_TOKENS, choice.seed),
        structured=choice.constrained,
        extra_body=None
        if profile.thinking is None
        else {"chat_template_kwargs": {"enable_thinking": profile.thinking}},
    )


async def _only_model(url: str) -> str:
    names = await served_models(url)
    if len(names) != 1:
        raise ConfigError(f"{url} serves {len(names)} models; say which: {', '.join(names[:10])}")
    return names[0]


def _engine(choice: PolicyChoice, actions: Sequence[str]) -> Policy:
    from holotron.agent.policies.engine import EnginePolicy
    from holotron.engine.api import SamplingParams
    from holotron.engine.engine import Engine
    from holotron.model.loading import load_model, resolve
    from holotron.model.processor import Deltas

    found = resolve(choice.spec)
    profile = choice.profile(choice.spec, found if isinstance(found, Path) else None)
    model, processor = load_model(choice.spec, device=choice.device)
    processor.limits = replace(processor.limits, max_images=MOST_IMAGES, max_tiles=MOST_IMAGES * 13)
    own = processor.sampling
    sampling = SamplingParams(
        max_tokens=profile.max_tokens or MAX_TOKENS,
        temperature=_first(profile.temperature, own.temperature, 0.0),
        top_p=_first(profile.top_p, own.top_p, 1.0),
        top_k=own.top_k or 0,
        min_p=own.min_p or 0.0,
        seed=choice.seed,
    )
    return EnginePolicy(
        Engine(model, processor),
        profile.make_dialect(actions),
        profile.make_history(),
        name=choice.spec,
        sampling=sampling,
        constrained=choice.constrained,
        thinking=processor.template.thinks_by_default if profile.thinking is None else profile.thinking,
        deltas=None if profile.deltas is None else Deltas(profile.deltas),
        owns_engine=True,
    )


def _first(*values: float | None) -> float:
    return next(value for value in values if value is not None)
