"""`holotron judge`: a model says which episodes succeeded, and people say how far it can be trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from holotron.cli.judge_options import JudgeOptions, judge_run, with_judge


class RunGroup(TyperGroup):
    """`holotron judge RUN`: what is no command of its own is what is to be judged."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # typer brings a click of its own, or not
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            return "RUN", self.commands["RUN"], args
        return super().resolve_command(ctx, args)


app = typer.Typer(no_args_is_help=True, cls=RunGroup)


@app.callback()
def about() -> None:
    """Judges: [bold]holotron judge runs/eval --judge http://localhost:8000/v1[/bold]

    Models that say whether an episode succeeded, from what was recorded, and how often they are wrong (calibrate).
    """


@app.command("RUN")  # in capitals: a folder may well be called run
@with_judge(required=True)
def run(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", help="A run directory, or a folder of results of WebVoyager's or Online-Mind2Web's agents."
        ),
    ],
    by: JudgeOptions,
    out: Annotated[
        Path | None, typer.Option(help="Where verdicts go; resumed if it is there.", show_default="RUN/judgements/...")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Also write the result here.")] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Ask again where the judge refused or gave no verdict.")
    ] = False,
) -> None:
    """Judge what is recorded, without a browser; nothing that has a verdict is asked again.

    holotron judge runs/eval --judge http://localhost:8000/v1
    """
    from holotron.storage.files import make_folder, replace_json

    judged = judge_run(path, by, out=out, again=again)
    if json is not None:
        make_folder(json.parent)
        replace_json(json, judged.to_json())


@app.command()
def apply(
    path: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory that was judged.")],
    verdicts: Annotated[Path, typer.Argument(help="The folder that `holotron judge` wrote.")],
    out: Annotated[Path, typer.Option(help="The judged copy of the run.")],
) -> None:
    """Copy a run with a judge's verdicts as its outcomes: for `report`, `eval compare` and `export`.

    holotron judge apply runs/eval runs/eval/judgements/webvoyager --out runs/judged
    """
    from holotron.evals.judging.apply import apply_verdicts

    outcomes = apply_verdicts(path, verdicts, out)
    print(f"{out}  ({', '.join(f'{count} {outcome}' for outcome, count in sorted(outcomes.items()))})")


@app.command()
def calibrate(
    human: Annotated[
        Path,
        typer.Argument(
            help="People's labels: Online-Mind2Web's human_label.json, {task: 0 or 1}; or a run with exact checkers."
        ),
    ],
    verdicts: Annotated[
        Path,
        typer.Argument(
            help="A judge's: a folder that `holotron judge` wrote, or {judge: {agent: {task: 0 or 1}}} as JSON."
        ),
    ],
    agent: Annotated[
        str, typer.Option(help="Whose episodes the folder is about, where labels are of several agents.")
    ] = "",
    json: Annotated[Path | None, typer.Option(help="Also write the result here.")] = None,
) -> None:
    """A judge's verdicts against people's labels: agreement, failures it passes, successes it fails.

    holotron judge calibrate human_label.json verdicts.json --json calibration.json
    """
    from holotron.evals.calibration import calibrate as compare
    from holotron.evals.calibration import read_human_labels, read_verdicts
    from holotron.evals.judging.labels import labels_of_folder, labels_of_run
    from holotron.storage.files import replace_json

    labels = labels_of_run(human) if human.is_dir() else read_human_labels(human)
    judges = labels_of_folder(verdicts, labels, agent) if verdicts.is_dir() else read_verdicts(verdicts)
    found = {judge: compare(labels, said) for judge, said in judges.items()}
    for judge, result in found.items():
        print(judge)
        print(f"  agreement               {result.agreement}")
        print(f"  failures it passes      {result.false_positive}")
        print(f"  successes it fails      {result.false_negative}")
        by_people, by_it = 100 * result.human_rate, 100 * result.judged_rate
        print(f"  success rate            {by_people:.1f} % by people, {by_it:.1f} % by it")
    if json is not None:
        replace_json(json, {judge: result.to_json() for judge, result in found.items()})
