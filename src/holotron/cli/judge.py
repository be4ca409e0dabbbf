"""`holotron judge`: how far verdicts of a model can be trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True)


@app.callback()
def about() -> None:
    """Judges: models that say whether an episode succeeded, and how often they are wrong."""


@app.command()
def calibrate(
    human: Annotated[Path, typer.Argument(help="People's labels, as Online-Mind2Web's human_label.json.")],
    verdicts: Annotated[Path, typer.Argument(help="A judge's: {judge: {agent: {task_id: 0 or 1}}} as JSON.")],
    json: Annotated[Path | None, typer.Option(help="Also write the result here.")] = None,
) -> None:
    """A judge's verdicts against people's labels: agreement, failures it passes, successes it fails.

    holotron judge calibrate human_label.json verdicts.json --json calibration.json
    """
    from holotron.evals.calibration import calibrate as compare
    from holotron.evals.calibration import read_human_labels, read_verdicts
    from holotron.storage.files import replace_json

    labels = read_human_labels(human)
    found = {judge: compare(labels, said) for judge, said in read_verdicts(verdicts).items()}
    for judge, result in found.items():
        print(judge)
        print(f"  agreement               {result.agreement}")
        print(f"  failures it passes      {result.false_positive}")
        print(f"  successes it fails      {result.false_negative}")
        by_people, by_it = 100 * result.human_rate, 100 * result.judged_rate
        print(f"  success rate            {by_people:.1f} % by people, {by_it:.1f} % by it")
    if json is not None:
        replace_json(json, {judge: result.to_json() for judge, result in found.items()})
