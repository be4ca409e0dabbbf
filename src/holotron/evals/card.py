"""Results as Markdown, ready for a model card: one table, and under it what each line means.

    print(model_card(read_results([Path("runs/miniwob"), Path("runs/sites")])))

A number without its subset, judge, steps and attempts means little, so the notes are a part of it. Names that come from
tasks or files cannot break out of the table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from holotron.evals.results import RunResult
from holotron.evals.statistics import wilson


def model_card(results: Sequence[RunResult]) -> str:
    many = len({result.policy for result in results}) > 1
    money = any(result.cost.money is not None for result in results)
    heads = ["benchmark", *(["policy"] if many else []), "success", "95 % interval", "tasks", "episodes", "no verdict",
             "steps", "seconds per solved", "tokens per solved", *(["cost per solved"] if money else [])]  # fmt: skip
    lines = [_row(heads), _row(["---", *(["---"] if many else []), *["---:"] * (len(heads) - 1 - many)])]
    for result in results:
        lines += [_row(cells) for cells in _lines(result, many, money)]
    notes = [f"- **{_plain(result.name)}**: {_note(result)}" for result in results]
    return "\n".join([*lines, "", _LEGEND, "", *notes]) + "\n"


_LEGEND = (
    "Success is the mean over tasks; the interval is clustered by task (tasks like these, other seeds). Episodes "
    "without a verdict (environment or policy broke) are in no rate. Per solved task: all wall time, and all generated "
    "tokens, of the run."
)


def _lines(result: RunResult, many: bool, money: bool) -> list[list[str]]:
    scores, cost = result.scores, result.cost
    unknown = scores.overall.episodes - scores.overall.scored
    spent = [_number(cost.per_solved("seconds"), ".1f"), _number(cost.per_solved("generated_tokens"), ",.0f")]
    if money:
        each = cost.per_solved("money")
        spent.append("–" if each is None else f"{each:.4f} {cost.currency}")
    who = [result.policy] if many else []
    rate = "–" if scores.mean_success is None else f"{100 * scores.mean_success:.1f} %"
    interval = "–" if scores.mean_success is None else f"{100 * scores.low:.1f} – {100 * scores.high:.1f}"
    counts = [str(len(scores.tasks)), f"{scores.overall.episodes:,}", str(unknown), f"{scores.overall.mean_steps:.1f}"]
    lines = [[result.name, *who, rate, interval, *counts, *spent]]
    blank = [""] * len(spent)
    for one in result.repeats[1:]:
        low, high = f"{100 * one.low:.1f}", f"{100 * one.high:.1f}"
        lines.append([f"{result.name}, pass@{one.k}", *who, f"{100 * one.any_of:.1f} %", f"{low} – {high}",
                      str(len(scores.tasks)), f"{one.instances:,} x {one.k}", "", "", *blank])  # fmt: skip
    if result.grounding is not None and (kept := result.grounding.by.get("without refusals")) is not None:
        low, high = (f"{100 * end:.1f}" for end in wilson(kept.right, kept.items))
        rate = f"{100 * kept.right / kept.items:.1f} %"
        lines.append([f"{result.name}, without refusals", *who, rate, f"{low} – {high}",
                      str(kept.items), f"{kept.items:,}", "", "", *blank])  # fmt: skip
    return lines


def _note(result: RunResult) -> str:
    said = "; ".join(f"{key} {value}" for key, value in result.protocol().items())
    unfinished = f" **Not complete: {result.missing} episodes have not been played.**" if result.missing else ""
    least = result.scores.overall.at_least
    broken = (
        f" {result.errors} episodes broke; if all of them had failed, {100 * least:.1f} % of all episodes would have "
        "succeeded."
        if result.errors and least is not None
        else ""
    )
    no_money = f" No cost: {_plain(result.cost.no_money)}." if result.cost.no_money else ""
    return f"{_plain(said)}.{unfinished}{broken}{no_money}"


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell if cell.startswith("---") else _plain(cell) for cell in cells) + " |"


def _plain(text: str) -> str:
    """One line of text that Markdown and HTML show as it is."""
    one_line = re.sub(r"\s+", " ", re.sub(r"[\x00-\x1f\x7f]", " ", text)).strip()
    escaped = re.sub(r"([\\`*_\[\]|#~])", r"\\\1", one_line)
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
