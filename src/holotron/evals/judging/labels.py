"""Verdicts and exact outcomes as labels, for `holotron.evals.calibration`.

    truth = labels_of_run(Path("runs/sites"))                        # a suite with exact checkers
    judged = labels_of_folder(Path("runs/sites/judgements/..."), truth)

People's labels are dear. On a suite whose checkers are exact (`sites`, `miniwob`) every run is a labelled set: judge
it, and see how the judge does where the truth is known.
"""

from __future__ import annotations

from pathlib import Path

from holotron.errors import InputError
from holotron.evals.calibration import Labels, plain_name
from holotron.evals.judging.store import read_verdict_rows
from holotron.rollouts.store import RunReader
from holotron.types import Outcome

_UNKNOWN = (Outcome.UNSCORED, Outcome.ENVIRONMENT_ERROR)


def labels_of_run(run: Path) -> Labels:
    """What the suite's own checkers said, by episode."""
    rows = [row for row in RunReader(run).episodes() if row["outcome"] not in _UNKNOWN]
    if not rows:
        raise InputError(f"no episode of {run} was scored by its suite: there is nothing to calibrate against")
    return {("", row["id"]): int(row["outcome"] == Outcome.SUCCESS) for row in rows}


def labels_of_folder(folder: Path, known: Labels, agent: str = "") -> dict[str, Labels]:
    """What a judge decided, by episode if the known labels are, else by task."""
    manifest, rows = read_verdict_rows(folder)
    labelled = {item for _, item in known}
    by = "id" if any(row["id"] in labelled for row in rows) else "task"
    labels: Labels = {}
    for row in rows:
        if row["verdict"] is None:
            continue
        item = plain_name(agent), str(row[by])
        if item in labels:
            raise InputError(f"{folder}: {row[by]} was judged more than once; give labels by episode (its id)")
        labels[item] = int(row["verdict"])
    config = manifest["config"]
    return {f"{config['protocol']}, {config['model']}": labels}
