"""What is said of results: `holotron eval compare`, `holotron eval card`, `holotron eval --list`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from holotron.evals.comparison import Pair
    from holotron.evals.costs import Prices
    from holotron.evals.results import RunResult

PRICES = typer.Option(help="A price table (TOML), for cost in money; see docs/results.md.")


def prices_of(file: Path | None) -> Prices | None:
    from holotron.evals.costs import read_prices

    return None if file is None else read_prices(file)


# ---------------------------------------------------------------------------------------------------------- comparison


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Run directories (`--out` of evaluations) of one suite.")],
    prices: Annotated[Path | None, PRICES] = None,
    json: Annotated[Path | None, typer.Option(help="Also write the comparison here.")] = None,
    html: Annotated[Path | None, typer.Option(help="Also write one report page of all these runs.")] = None,
    changes: Annotated[int, typer.Option(min=0, help="Tasks to list for two runs, most changed first.")] = 30,
) -> None:
    """Runs against each other: what was won, what was lost, whether that can be luck, and what else differs.

    holotron eval compare runs/before runs/after --html compared.html
    """
    from holotron.evals.comparison import compare_runs
    from holotron.evals.report import report_of
    from holotron.evals.results import read_results
    from holotron.storage.files import replace_json

    found = compare_runs(read_results(runs, prices_of(prices)))
    if len(found.runs) == 2:
        _show_changes(found.pairs[0], changes)
    _show_runs(found.runs)
    for pair in found.pairs:
        print(_said(pair, len(found.pairs)))
    if found.differing:
        print("The runs differ in more than the policy:")
        print("\n".join(f"  {line}" for line in found.differing))
    if found.surroundings:
        print("Versions and machines differ (times depend on them, scores should not):")
        print("\n".join(f"  {line}" for line in found.surroundings))
    if json is not None:
        json.parent.mkdir(parents=True, exist_ok=True)
        replace_json(json, found.to_json())
    if html is not None:
        print(f"report: {report_of(found.runs, html).path}")


def _show_changes(pair: Pair, most: int) -> None:
    changed = [(name, task) for name, task in pair.result.tasks.items() if task.difference or task.won or task.lost]
    for name, task in sorted(changed, key=lambda item: -abs(item[1].difference))[:most]:
        how = f"  {task.won} won, {task.lost} lost" if pair.result.paired else ""
        print(f"{name:32} {100 * task.before:3.0f} -> {100 * task.after:3.0f} %{how}")
    if len(changed) > most:
        print(f"... and {len(changed) - most} more tasks (--changes)")


def _show_runs(runs: tuple[RunResult, ...]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    columns: dict[str, list[str]] = {
        "run": [escape(run.name) for run in runs],
        "policy": [escape(run.policy) for run in runs],
        "success": [
            "–" if run.scores.mean_success is None else f"{100 * run.scores.mean_success:.1f} %" for run in runs
        ],
        "95 %": [f"{100 * run.scores.low:.1f} – {100 * run.scores.high:.1f}" for run in runs],
        "n": [str(run.scores.overall.scored) for run in runs],
        "no verdict": [str(run.scores.overall.episodes - run.scores.overall.scored or "") for run in runs],
        "not played": [str(run.missing or "") for run in runs],
        "s/solved": [_each(run, "seconds", ".1f") for run in runs],
        "tokens/solved": [_each(run, "generated_tokens", ",.0f") for run in runs],
        f"{runs[0].cost.currency}/solved": [_each(run, "money", ".4f") for run in runs],
    }
    table = Table(box=None, pad_edge=False)
    shown = {name: values for name, values in columns.items() if any(values)}
    for name in shown:
        table.add_column(name, justify="left" if name in ("run", "policy") else "right", overflow="fold")
    for cells in zip(*shown.values(), strict=True):
        table.add_row(*cells)
    Console().print(table)


def _each(run: RunResult, kind: str, form: str) -> str:
    spent = run.cost.per_solved(kind)
    return "" if spent is None else format(spent, form)


def _said(pair: Pair, pairs: int) -> str:
    """One comparison in one paragraph."""
    result, whole = pair.result, pair.result.overall
    if result.paired:
        what = f"{whole.episodes} episodes that both played, {whole.won} won, {whole.lost} lost"
        chance = f"p {result.chance:.3g} by episode, {result.chance_by_task:.3g} by task"
    else:
        what = f"the same {len(result.tasks)} tasks with other seeds"
        chance = f"p {result.chance_by_task:.3g} by task"
    if pairs > 1:
        episode = "" if pair.adjusted is None else f"{pair.adjusted:.3g}, "
        chance += f"; corrected for {pairs} comparisons {episode}{pair.adjusted_by_task:.3g}"
    left_out = f"; {result.unpaired} episodes in one run only" if result.unpaired else ""
    return (
        f"{pair.names[0]} -> {pair.names[1]}: {100 * whole.before:.1f} -> {100 * whole.after:.1f} %, "
        f"{100 * whole.difference:+.1f} points ({100 * result.low:+.1f} to {100 * result.high:+.1f}); {what}; {chance}"
        f"{left_out}. {pair.verdict[0].upper()}{pair.verdict[1:]}."
    )


# ---------------------------------------------------------------------------------------------------------- model card


def card(
    runs: Annotated[list[Path], typer.Argument(help="Run directories, of any suites.")],
    out: Annotated[Path | None, typer.Option(help="Write it here instead of on the terminal.")] = None,
    prices: Annotated[Path | None, PRICES] = None,
) -> None:
    """Results as one Markdown table for a model card, with what each line means below it.

    holotron eval card runs/miniwob runs/sites --out card.md
    """
    from holotron.evals.card import model_card
    from holotron.evals.results import read_results
    from holotron.storage.files import replace_file

    made = model_card(read_results(runs, prices_of(prices)))
    if out is None:
        print(made, end="")
    else:
        out.parent.mkdir(parents=True, exist_ok=True)
        replace_file(out, made.encode())


# --------------------------------------------------------------------------------------------------------------- list


def list_suites(wanted: bool) -> None:
    """For `--list`: what there is, what each needs, how long it takes."""
    if not wanted:
        return
    from holotron.suites.about import about_suite
    from holotron.suites.base import suites

    for name in suites.names():
        said = about_suite(name)
        print(f"{name:18} {said.summary}")
        for word, text in (("needs", said.needs), ("time", said.takes)):
            if text:
                print(f"{'':18}   {word + ':':6} {text}")
    print(
        "\noffline            all of them that need no open web, in one report: holotron eval offline --help"
        "\nlocalisation       one click on pages of `holotron data heldout`: holotron eval localisation --help"
        "\nreading            strings nobody has seen, at several sizes: holotron eval reading --help"
    )
    raise typer.Exit
