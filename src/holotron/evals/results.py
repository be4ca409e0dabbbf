"""A run as a result: what was played, how it went, what it cost, and what would have to be said beside the number.

    result = read_result(Path("runs/eval"))
    result.scores.mean_success, result.repeats, result.cost.per_solved("seconds"), result.protocol()

Everything comes from the run directory, so a result can be read anywhere and again at any time.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from holotron.evals.costs import Cost, Prices, cost_of, policy_name
from holotron.evals.curve import curve
from holotron.evals.grounding import GroundingFigures, grounding_figures
from holotron.evals.injection import SUITE as INJECTION
from holotron.evals.injection import InjectionFigures, injection_figures
from holotron.evals.statistics import Repeats, Scoreboard, repeats, scoreboard, verdict
from holotron.rollouts.records import Row
from holotron.rollouts.store import RunReader
from holotron.suites.base import GROUNDING
from holotron.view import View


@dataclass(frozen=True, slots=True)
class RunResult:
    name: str
    path: Path
    manifest: dict[str, Any]
    rows: tuple[Row, ...]  # of episodes, by task and seed
    scores: Scoreboard
    repeats: tuple[Repeats, ...]
    cost: Cost
    spoiled: int  # attempts that the environment broke; they were made again, or ended as an error
    grounding: GroundingFigures | None = None  # where the suite is a grounding benchmark
    injection: InjectionFigures | None = None  # where its tasks are attacks

    @property
    def policy(self) -> str:
        return policy_name(self.manifest)

    @property
    def suite(self) -> str:
        said = self.manifest.get("config", {}).get("environment", {}).get("suite")
        return str(said or (self.rows[0]["suite"] if self.rows else self.manifest.get("kind", "?")))

    @property
    def missing(self) -> int:
        """Episodes that the run was to have and has not (it was interrupted)."""
        return max(0, len(self.manifest.get("episodes", self.rows)) - len(self.rows))

    @property
    def errors(self) -> int:
        """Episodes without a verdict that ought to have one."""
        return self.scores.overall.environment_errors + self.scores.overall.policy_errors

    def protocol(self) -> dict[str, str]:
        """What a number means: each entry in a few words, for people. The manifest has everything."""
        config = self.manifest.get("config", {})
        policy, limits, shown = config.get("policy", {}), config.get("limits", {}), config.get("environment", {})
        dialect, sampling = policy.get("dialect") or {}, policy.get("sampling") or {}
        subset = self.manifest.get("subset") or {}
        seeds = sorted({row["seed"] for row in self.rows})
        said = {
            "suite": self.suite,
            "tasks": f"{len(self.scores.tasks)} tasks, {len(self.rows):,} episodes, seeds {_spans(seeds)}",
            "subset": str(shown.get("subset") or subset.get("sha256", ""))[:16],
            "view": str(View.from_json(shown["view"])) if shown.get("view") else "",
            "policy": self.policy,
            "weights": str(policy.get("weights") or ""),
            "dialect": " ".join(str(dialect[key]) for key in ("name", "frame") if dialect.get(key)),
            "prompt": str(dialect.get("prompt") or ""),
            "schema": str(dialect.get("schema") or ""),
            "history": str(policy.get("history") or ""),
            "sampling": f"temperature {sampling['temperature']:g}" if "temperature" in sampling else "",
            "judge": str(self.manifest.get("judge") or ""),
            "limits": f"{limits['steps']} steps, {limits['seconds']:g} s" if limits else "",
            "tries": f"{self.manifest['repeats']} of each task and seed" if "repeats" in self.manifest else "",
            "attempts": f"{self.manifest['attempts']} where the environment fails"
            if "attempts" in self.manifest
            else "",
            "browser": str(shown.get("browser") or ""),
            "software": _software(self.manifest),
            "hardware": _hardware(self.manifest.get("hardware") or {}),
        }
        return {key: value for key, value in said.items() if value}

    def to_json(self) -> dict[str, Any]:
        """What `--json` writes."""
        scores = self.scores.to_json()
        return {
            "name": self.name,
            "suite": self.suite,
            "policy": self.policy,
            "mean_success": self.scores.mean_success,
            "interval": [self.scores.low, self.scores.high],
            "at_least": self.scores.overall.at_least,  # if everything without a verdict had failed
            "episodes": self.scores.overall.episodes,
            "missing": self.missing,
            "environment_errors": self.scores.overall.environment_errors,
            "policy_errors": self.scores.overall.policy_errors,
            "overall": scores["overall"],
            "tasks": scores["tasks"],
            "repeats": [one.to_json() for one in self.repeats],
            "cost": self.cost.to_json(),
            "curve": [asdict(point) for point in curve(self.manifest, self.scores)],  # of suites that have an axis
            "verdicts": {row["id"]: verdict(row) for row in self.rows},  # null: nobody knows
            "protocol": self.protocol(),
            "manifest": {key: value for key, value in self.manifest.items() if key != "episodes"},
            **({} if self.grounding is None else {"grounding": self.grounding.to_json()}),
            **({} if self.injection is None else {"injection": self.injection.to_json()}),
        }


def read_result(run: Path, *, prices: Prices | None = None, name: str | None = None) -> RunResult:
    reader = RunReader(run)
    rows = sorted(reader.episodes(), key=lambda row: (row["task"], row["seed"], row["id"]))
    grounded = bool(rows) and all(row["suite"] in GROUNDING for row in rows)
    return RunResult(
        name=name or Path(os.path.abspath(run)).name,
        path=reader.path,
        manifest=reader.manifest,
        rows=tuple(rows),
        scores=scoreboard(rows),
        repeats=repeats(rows),
        cost=cost_of(rows, reader.manifest, prices),
        spoiled=len(reader.spoiled()),
        grounding=grounding_figures(reader) if grounded else None,
        injection=injection_figures(reader) if any(row["suite"] == INJECTION for row in rows) else None,
    )


def read_results(runs: Sequence[Path], prices: Prices | None = None) -> list[RunResult]:
    """Several runs, each with a name of its own: its folder's, or as much of the path as tells them apart."""
    paths = [Path(os.path.abspath(run)) for run in runs]  # a link keeps its own name
    depth = 1
    while depth < 8 and len({path.parts[-depth:] for path in paths}) < len(set(paths)):
        depth += 1
    names = ["/".join(path.parts[-depth:]) for path in paths]
    return [read_result(run, prices=prices, name=name) for run, name in zip(runs, names, strict=True)]


def _spans(seeds: Sequence[int]) -> str:
    """`200000–200004`, or the first few where they do not follow each other."""
    if not seeds:
        return "none"
    if len(seeds) > 1 and seeds[-1] - seeds[0] == len(seeds) - 1:
        return f"{seeds[0]}–{seeds[-1]}"
    return ", ".join(map(str, seeds[:4])) + (f" and {len(seeds) - 4} more" if len(seeds) > 4 else "")


def _software(manifest: Mapping[str, Any]) -> str:
    commit = str(manifest.get("commit") or "")
    changed = "+changes" if commit.endswith("+changes") else ""
    where = f" ({commit[:10]}{changed})" if commit else ""
    parts = [f"holotron {manifest.get('holotron', '?')}{where}", f"python {manifest.get('python', '?')}"]
    return ", ".join([*parts, *(f"{name} {number}" for name, number in manifest.get("packages", {}).items())])


def _hardware(said: Mapping[str, Any]) -> str:
    parts = [
        str(said.get("cpu") or ""),
        f"{said['cores']} cores" if said.get("cores") else "",
        f"{said['memory_gb']:g} GB" if said.get("memory_gb") else "",
        ", ".join(said.get("gpus") or []),
    ]
    return ", ".join(part for part in parts if part)
