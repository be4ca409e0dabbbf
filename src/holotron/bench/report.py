"""What was measured, and how it is said: agent-steps per second first, tokens always split by what they cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from holotron.bench.workload import Workload
from holotron.engine.api import EngineStats


@dataclass(frozen=True)
class Step:
    """One step of one session, as its client saw it."""

    session: int
    number: int
    seconds: float
    prompt_tokens: int
    cached_tokens: int | None  # None: the server does not say
    generated_tokens: int
    first_token_seconds: float | None = None


@dataclass(frozen=True)
class BenchReport:
    target: str
    model: str
    workload: Workload
    seconds: float
    steps: tuple[Step, ...]
    start_to_first_token: float | None = None
    device_bytes: int | None = None  # peak of the whole process
    host_bytes: int | None = None
    session_bytes: int | None = None  # of the longest session at its end: state, keys and values
    failures: int = 0  # sessions that ended before their last step
    first_failure: str = ""
    engine_stats: EngineStats | None = None

    @property
    def steps_per_second(self) -> float:
        return len(self.steps) / self.seconds

    def per_second(self, tokens: int | None) -> float | None:
        return None if tokens is None else tokens / self.seconds

    @property
    def prompt_tokens(self) -> int:
        return sum(step.prompt_tokens for step in self.steps)

    @property
    def cached_tokens(self) -> int | None:
        known = [step.cached_tokens for step in self.steps if step.cached_tokens is not None]
        return sum(known) if len(known) == len(self.steps) else None

    @property
    def computed_tokens(self) -> int | None:
        return None if self.cached_tokens is None else self.prompt_tokens - self.cached_tokens

    @property
    def computed_over_ideal(self) -> float | None:
        """Prompt tokens that were computed, over those that had to be; None: not known, or pictures changed both."""
        work = self.workload
        if self.computed_tokens is None or work.history == "epoch" or work.deltas or work.picture or self.failures:
            return None
        return self.computed_tokens / (work.sessions * work.ideal_computed())

    @property
    def generated_tokens(self) -> int:
        return sum(step.generated_tokens for step in self.steps)

    def latency(self, share: float) -> float:
        return percentile([step.seconds for step in self.steps], share)

    def first_token(self, share: float) -> float | None:
        """From the beginning of a step; None: not known."""
        known = [step.first_token_seconds for step in self.steps if step.first_token_seconds is not None]
        return percentile(known, share) if known else None

    def as_dict(self) -> dict[str, Any]:
        cached = self.cached_tokens
        return {
            "target": self.target,
            "model": self.model,
            "workload": asdict(self.workload),
            "seconds": self.seconds,
            "steps": len(self.steps),
            "failures": self.failures,
            "first_failure": self.first_failure or None,
            "agent_steps_per_second": self.steps_per_second,
            "generated_tokens_per_second": self.per_second(self.generated_tokens),
            "computed_tokens_per_second": self.per_second(self.computed_tokens),
            "cached_tokens_per_second": self.per_second(cached),
            # As publications count: everything in the prompt, cached or not, and everything generated.
            "total_tokens_per_second": self.per_second(self.prompt_tokens + self.generated_tokens),
            "cached_share": None if cached is None or not self.prompt_tokens else cached / self.prompt_tokens,
            "ideal_cached_share": _number(self.workload.ideal_cached_share()),
            "computed_over_ideal": self.computed_over_ideal,
            "step_seconds": {f"p{round(share * 100)}": self.latency(share) for share in (0.5, 0.95, 0.99)},
            "first_token_seconds": self.first_token(0.5),
            "start_to_first_token_seconds": self.start_to_first_token,
            "peak_device_bytes": self.device_bytes,
            "peak_host_bytes": self.host_bytes,
            "session_bytes": self.session_bytes,
            "engine": None if self.engine_stats is None else asdict(self.engine_stats),
        }


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def percentile(values: Sequence[float], share: float) -> float:
    """By linear interpolation between the nearest ranks."""
    ordered = sorted(values)
    if not ordered:
        return math.nan
    place = share * (len(ordered) - 1)
    low, high = math.floor(place), math.ceil(place)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


_COLUMNS = {
    "model": lambda d: d["model"],
    "sessions": lambda d: f"{d['workload']['sessions']}",
    "agent-steps/s": lambda d: f"{d['agent_steps_per_second']:.3g}",
    "generated tok/s": lambda d: _count(d["generated_tokens_per_second"]),
    "computed tok/s": lambda d: _count(d["computed_tokens_per_second"]),
    "cached tok/s": lambda d: _count(d["cached_tokens_per_second"]),
    "total tok/s": lambda d: _count(d["total_tokens_per_second"]),
    "cached": lambda d: "?" if d["cached_share"] is None else f"{d['cached_share']:.1%}",
    "over ideal": lambda d: "-" if d["computed_over_ideal"] is None else f"{d['computed_over_ideal']:.3f}",
    "p50 / p95 / p99 step (s)": lambda d: " / ".join(f"{d['step_seconds'][p]:.3g}" for p in ("p50", "p95", "p99")),
    "first token (s)": lambda d: _plain(d["start_to_first_token_seconds"]),
    "peak device, host (GiB)": lambda d: f"{_gib(d['peak_device_bytes'])}, {_gib(d['peak_host_bytes'])}",
}


def table(reports: Sequence[BenchReport]) -> str:
    rows = [list(_COLUMNS), *([column(report.as_dict()) for column in _COLUMNS.values()] for report in reports)]
    widths = [max(len(row[n]) for row in rows) for n in range(len(_COLUMNS))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:], *map(_broken, filter(_failed, reports))])


def _failed(report: BenchReport) -> bool:
    return report.failures > 0


def _broken(report: BenchReport) -> str:
    """A rate over what is left of a broken run is no figure: say so where the figure stands."""
    work = report.workload
    return (
        f"FAILED: {report.failures} of {work.sessions} sessions of {report.model} broke off, {len(report.steps)} of "
        f"{work.sessions * work.steps} steps were made; such figures cannot be compared. The first: "
        f"{report.first_failure}"
    )


def _count(value: float | None) -> str:
    return "?" if value is None else f"{value:,.0f}"


def _plain(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _gib(value: int | None) -> str:
    return "-" if value is None else f"{value / 2**30:.2f}"
