"""A run with a judge's verdicts as its outcomes, so that everything that reads runs (reports, comparisons, export to
training data) counts them.

    apply_verdicts(Path("runs/wv"), Path("runs/wv/judgements/webvoyager-gpt-4o-1f3a9c20"), Path("runs/wv-judged"))

The run itself stays as it was recorded: this is a copy, and its manifest names the judge.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from holotron.errors import ConfigError, InputError
from holotron.evals.judging.cases import Case
from holotron.evals.judging.sources import read_source
from holotron.evals.judging.store import read_verdict_rows
from holotron.rollouts.store import RunReader, RunWriter
from holotron.types import Outcome

_ENDED = (Outcome.EXHAUSTED, Outcome.STUCK, Outcome.POLICY_ERROR, Outcome.ENVIRONMENT_ERROR)  # failures that say why


def apply_verdicts(run: Path, folder: Path, out: Path) -> dict[Outcome, int]:
    """Write the judged copy, or complete it; how many episodes ended how."""
    source, (manifest, rows) = read_source(run), read_verdict_rows(folder)
    if source.kind != "run":
        raise ConfigError(f"{run} is no run directory of ours; verdicts on other people's results stay where they are")
    verdicts = {row["id"]: row for row in rows}
    lacking = [case.id for case in source.cases if _stale(verdicts.get(case.id), case.fingerprint())]
    if lacking:
        raise InputError(
            f"{len(lacking)} episodes have no verdict yet ({lacking[0]}, ...): run `holotron judge` once more"
        )
    reader = RunReader(run)
    outcomes, answered = {row["id"]: row["outcome"] for row in reader.episodes()}, _answered(source.cases)
    scored = [
        id
        for id, outcome in outcomes.items()
        if outcome == Outcome.SUCCESS or (outcome == Outcome.FAILURE and id in answered)  # others gave up
    ]
    if scored:
        raise ConfigError(
            f"{run} was scored by its suite ({scored[0]}); a judge's word does not replace an exact check"
        )
    config = manifest["config"]
    shots = config.get("screenshots")
    judged = {**reader.manifest, "judge": f"{config['protocol']}, {config['model']}, {shots} screenshots"}
    judged["config"] = {**reader.manifest["config"], "judge": config}
    with RunWriter(out, judged) as writer:
        for trajectory in reader.trajectories(where=lambda row: row["id"] not in writer.finished):
            outcome = _outcome(trajectory.outcome, verdicts[trajectory.id]["verdict"])
            writer.append(replace(trajectory, outcome=outcome))
        return dict(Counter(writer.finished.values()))


def _answered(cases: Iterable[Case]) -> set[str]:
    return {case.id for case in cases if case.answer is not None}


def _stale(row: dict[str, object] | None, fingerprint: str) -> bool:
    return row is None or row["fingerprint"] != fingerprint


def _outcome(recorded: Outcome, verdict: bool | None) -> Outcome:
    if verdict:
        return Outcome.SUCCESS
    if recorded in _ENDED:
        return recorded
    return Outcome.UNSCORED if verdict is None else Outcome.FAILURE
