"""Single iterations of the engine at a chosen size: so many sessions at such a context, which is made up."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from holotron.bench import made_up
from holotron.engine.api import EngineConfig, SamplingParams
from holotron.engine.core import Core
from holotron.engine.log import Log
from holotron.engine.plan import Planner
from holotron.engine.sequence import Request
from holotron.engine.text import TextStream
from holotron.errors import HolotronError
from holotron.model.model import Holotron

WARM = 12  # iterations before the clock starts: kernels are compiled, graphs captured


@dataclass(frozen=True)
class Timed:
    """Seconds are those between the ends of iterations, so host and device are both in them."""

    sessions: int
    context: int
    iterations: int
    seconds: float
    host_seconds: float  # of these, what the host was busy for
    prompt_tokens: int
    generated_tokens: int
    kernels: list[tuple[str, float]]  # device milliseconds per iteration, the longest first

    def as_dict(self) -> dict[str, Any]:
        return {
            "sessions": self.sessions,
            "context": self.context,
            "iteration_ms": 1e3 * self.seconds / self.iterations,
            "host_ms": 1e3 * self.host_seconds / self.iterations,
            "generated_tokens_per_second": self.generated_tokens / self.seconds,
            "prompt_tokens_per_second": self.prompt_tokens / self.seconds,
            "kernels_ms": self.kernels[:30],
        }


def decode(
    model: Holotron,
    sessions: int,
    context: int,
    tokens: int,
    options: dict[str, Any],
    profile: bool,
    *,
    spread: int = 1,
) -> Timed:
    """All sessions generate at once. Their contexts have up to `spread` different lengths, `context` the longest: so
    they do not all come to the end of a page in the same iteration."""
    stage = _Stage(model, sessions, context, context + tokens + 80, options, spread)
    for n in range(sessions):
        stage.ask(n, tokens + WARM + 8)
    return stage.time(tokens, profile)


def mixed(
    model: Holotron, sessions: int, context: int, prompt: int, iterations: int, options: dict[str, Any], profile: bool
) -> Timed:
    """Half of the sessions generate while the others read prompts of this length, so many tokens per iteration."""
    stage = _Stage(model, sessions, context, context + prompt + 200, options)
    for n in range(sessions // 2, sessions):
        stage.core.sessions.append(stage.sequences[n], stage.words(prompt))
    for n in range(sessions):
        stage.ask(n, iterations + WARM + 8)
    return stage.time(iterations, profile)


class _Stage:
    def __init__(
        self, model: Holotron, sessions: int, context: int, room: int, options: dict[str, Any], spread: int = 1
    ) -> None:
        base = EngineConfig(**{"token_budget": 2048, "host_bytes": 0, "prefix_cache_bytes": 0, **options})
        config = replace(Planner(model.config, model.dtype, base).sized(sessions, room), max_waiting=4096)
        self.context = context
        self._words = model.config.text_tokens
        self._draw = random.Random(0)
        self.core = Core(model, config)
        made_up.scribble(self.core)
        self.sequences = [made_up.session(self.core, f"{n}", self.words(context - n % spread)) for n in range(sessions)]

    def words(self, count: int) -> Log:
        return Log(self._draw.choices(self._words, k=count))

    def ask(self, n: int, tokens: int) -> None:
        params = SamplingParams(max_tokens=tokens, temperature=0, ignore_eos=True)
        self.core.submit(Request(self.sequences[n], params, seed=n, text=TextStream(None)))

    def time(self, iterations: int, profile: bool) -> Timed:
        core = self.core
        for _ in range(WARM):
            core.step()
        before, computed = core.stats(), sum(s.memory.length for s in self.sequences)
        started = time.perf_counter()
        for _ in range(iterations):
            core.step()
        seconds = time.perf_counter() - started
        after = core.stats()
        generated = after.generated_tokens - before.generated_tokens
        prompt = sum(s.memory.length for s in self.sequences) - computed - generated
        host = after.host_seconds - before.host_seconds
        kernels = _kernels(core.step, 3) if profile else []
        core.abort(HolotronError("measured"))
        return Timed(len(self.sequences), self.context, iterations, seconds, host, prompt, generated, kernels)


def _kernels(step: Callable[[], object], count: int) -> list[tuple[str, float]]:
    """Device time of each kernel per iteration, by torch's profiler."""
    if not torch.cuda.is_available():
        return []
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as recorded:
        for _ in range(count):
            step()
        torch.cuda.synchronize()
    rows = [(event.key[:80], event.device_time_total / 1e3 / count) for event in recorded.key_averages()]
    return sorted(rows, key=lambda row: -row[1])
