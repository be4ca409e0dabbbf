"""What verdicts add up to.

`rate` is over the cases that were decided. Those without a verdict are counted apart; `bounds` says where the rate
would be if all of them were failures, or successes: a judge that shirks half of its cases cannot hide it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from holotron.evals.statistics import wilson


@dataclass(frozen=True, slots=True)
class Rate:
    successes: int
    decided: int
    cases: int

    @property
    def rate(self) -> float | None:
        return self.successes / self.decided if self.decided else None

    @property
    def interval(self) -> tuple[float, float]:
        return wilson(self.successes, self.decided)

    @property
    def undecided(self) -> int:
        return self.cases - self.decided

    @property
    def bounds(self) -> tuple[float, float]:
        """Where the rate would be if nothing that is undecided had succeeded, or everything."""
        return self.successes / max(self.cases, 1), (self.successes + self.undecided) / max(self.cases, 1)

    def __str__(self) -> str:
        if self.rate is None:
            return f"– (none of {self.cases} decided)"
        low, high = self.interval
        return f"{100 * self.rate:.1f} % ({100 * low:.1f} – {100 * high:.1f}; {self.successes} of {self.decided})"

    def to_json(self) -> dict[str, Any]:
        low, high = self.interval
        return {
            "rate": self.rate, "low": low, "high": high, "successes": self.successes, "decided": self.decided,
            "cases": self.cases, "undecided": self.undecided, "lowest": self.bounds[0], "highest": self.bounds[1],
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class JudgedFigures:
    overall: Rate
    sites: dict[str, Rate]
    decided: dict[str, int]  # how each case came to its verdict, or to none
    requests: int
    prompt_tokens: int
    generated_tokens: int

    def to_json(self) -> dict[str, Any]:
        return {
            "overall": self.overall.to_json(),
            "sites": {site: rate.to_json() for site, rate in self.sites.items()},
            "decided": self.decided,
            "requests": self.requests,
            "prompt_tokens": self.prompt_tokens,
            "generated_tokens": self.generated_tokens,
        }


def judged_figures(rows: Iterable[Mapping[str, Any]]) -> JudgedFigures:
    rows = list(rows)
    sites: dict[str, list[bool | None]] = {}
    for row in rows:
        sites.setdefault(row["site"], []).append(row["verdict"])
    named = {site: _rate(verdicts) for site, verdicts in sorted(sites.items()) if site}
    return JudgedFigures(
        _rate([row["verdict"] for row in rows]),
        named if len(named) > 1 else {},
        dict(Counter(row["decided"] for row in rows)),
        sum(row["requests"] for row in rows),
        sum(row["prompt_tokens"] for row in rows),
        sum(row["generated_tokens"] for row in rows),
    )


def _rate(verdicts: list[bool | None]) -> Rate:
    return Rate(verdicts.count(True), len(verdicts) - verdicts.count(None), len(verdicts))
