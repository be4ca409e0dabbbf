"""Runs as one HTML page: scores with intervals, plots, cost, and a player for their trajectories.

    write_report(Path("runs/eval"))                                    # -> runs/eval/report.html
    write_report([Path("runs/a"), Path("runs/b")], Path("both.html"))  # several runs side by side

The page carries everything it shows (no server, no network) and is bounded in size: all episodes are listed and
counted, but only some can be played, failures before successes and every task in turn, with their screenshots scaled
down. What was left out is said at the top. Nothing from a page or a model can act in the report: it is inserted as
text, and the page's own content policy allows no script but the one it was built with.
"""

from __future__ import annotations

import base64
import hashlib
import html
import itertools
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from holotron.errors import InputError
from holotron.evals.album import Album, ReportLimits, short
from holotron.evals.costs import Prices
from holotron.evals.curve import axis, curve, draw
from holotron.evals.plots import as_url, forest, outcomes
from holotron.evals.results import RunResult, read_result, read_results
from holotron.rollouts.records import Row
from holotron.rollouts.store import RunReader
from holotron.storage.files import make_folder, replace_file
from holotron.types import Outcome
from holotron.view import View

__all__ = ["Report", "ReportLimits", "write_report"]

_ASSETS = files(__package__) / "assets"
_MANY = 1000  # episodes beyond which the list says less of each


@dataclass(frozen=True, slots=True)
class Report:
    path: Path
    episodes: int
    playable: int
    bytes: int


def write_report(
    runs: Path | Sequence[Path],
    out: Path | None = None,
    *,
    title: str | None = None,
    limits: ReportLimits = ReportLimits(),
    prices: Prices | None = None,
    on_episode: Callable[[int, int], None] | None = None,
) -> Report:
    """Build the report of one run, or of several on one page; `on_episode(done, total)` follows the work."""
    if isinstance(runs, Path):
        results = [read_result(runs, prices=prices)]
        path = out or runs / "report.html"
    else:
        if out is None or not runs:
            raise InputError("a report of several runs needs the runs, and a file to be written to")
        results, path = read_results(runs, prices), out
    return report_of(results, path, title=title, limits=limits, on_episode=on_episode)


def report_of(
    results: Sequence[RunResult],
    path: Path,
    *,
    title: str | None = None,
    limits: ReportLimits = ReportLimits(),
    notes: Sequence[str] = (),
    on_episode: Callable[[int, int], None] | None = None,
) -> Report:
    """The page of results that have been read, under the names they have. `notes` stand at its top."""
    name = title or _title(results)
    every = sum(len(result.rows) for result in results)
    album = Album(limits)
    playable = dict(_play(results, album, limits.episodes, on_episode))
    listed = [_listed(row, index, every) | playable.get((index, row["id"]), {"steps": None, "final": None})
              for index, result in enumerate(results) for row in result.rows]  # fmt: skip
    data = {
        "title": name,
        "subtitle": " · ".join(_subtitle(results[0])) if len(results) == 1 else _dates(results),
        "notice": " ".join([*notes, *_notices(results, every, len(playable), album)]),
        "figures": _figures(results[0]) if len(results) == 1 else [],
        "runs": [_run(result) for result in results],
        "plots": _plots(results),
        "outcomes": sorted({row["outcome"] for result in results for row in result.rows}),
        "tasks": [
            asdict(task) | {"run": index} for index, result in enumerate(results) for task in result.scores.tasks
        ],
        "episodes": listed,
        "images": album.images,
        "protocols": {result.name: result.protocol() for result in results},
        "manifests": {
            result.name: {key: value for key, value in result.manifest.items() if key != "episodes"}
            for result in results
        },
    }
    page = _page(name, data).encode("utf-8", "replace")
    make_folder(path.parent)
    replace_file(path, page)
    return Report(path, every, len(playable), len(page))


# --------------------------------------------------------------------------------------------------- what is embedded


def _play(
    results: Sequence[RunResult], album: Album, limit: int, on_episode: Callable[[int, int], None] | None
) -> Iterator[tuple[tuple[int, str], dict[str, Any]]]:
    """Episodes for the player: every run in turn, every task in turn, what went wrong before what went right. A full
    album leaves out the least wanted."""
    orders = [[(index, id) for id in _wanted(result.rows)] for index, result in enumerate(results)]
    chosen = [item for item in itertools.chain(*itertools.zip_longest(*orders)) if item is not None][:limit]
    records = {}
    for index, result in enumerate(results):
        ids = {id for number, id in chosen if number == index}
        for episode, steps in RunReader(result.path).rows(ids) if ids else ():
            records[index, episode["id"]] = episode, steps
    for number, key in enumerate(chosen, start=1):
        if key in records and (shown := album.playable(results[key[0]].path, *records[key])) is not None:
            yield key, shown
        if on_episode is not None:
            on_episode(number, len(chosen))


def _wanted(rows: Sequence[Row]) -> list[str]:
    by_task: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row["outcome"] == Outcome.SUCCESS):
        by_task.setdefault(row["task"], []).append(row)
    turns = itertools.chain.from_iterable(itertools.zip_longest(*by_task.values()))
    return [row["id"] for row in turns if row is not None]


def _listed(row: Row, run: int, every: int) -> dict[str, Any]:
    longest = 600 if every <= _MANY else 120
    kept = {key: row[key] for key in ("id", "task", "seed", "outcome", "reward", "attempt")}
    texts = {key: short(row[key], longest) for key in ("goal", "answer", "error")}
    return kept | texts | {"count": row["steps"], "seconds": round(row["seconds"], 2), "run": run}


# ---------------------------------------------------------------------------------------------------- what is written


def _title(results: Sequence[RunResult]) -> str:
    if len(results) == 1:
        return f"{results[0].policy} · {results[0].manifest.get('kind', results[0].name)}"
    policies = list(dict.fromkeys(result.policy for result in results))
    return f"{', '.join(policies[:4])} · {len(results)} runs"


def _subtitle(result: RunResult) -> list[str]:
    config = result.manifest.get("config", {})
    policy, environment = config.get("policy", {}), config.get("environment", {})
    parts = [
        _dates([result]),
        f"dialect {policy['dialect']['name']}" if policy.get("dialect") else "",
        f"history {policy['history']}" if policy.get("history") else "",
        f"view {View.from_json(environment['view'])}" if environment.get("view") else "",
        str(environment.get("browser", "")),
        f"holotron {result.manifest.get('holotron', '')}",
    ]
    return [part for part in parts if part]


def _dates(results: Sequence[RunResult]) -> str:
    began = [row["started_at"] for result in results for row in result.rows if row["started_at"]]
    began = began or [result.manifest.get("created_at", 0) for result in results]
    days = [time.strftime("%Y-%m-%d %H:%M", time.localtime(when)) for when in (min(began), max(began))]
    return days[0] if days[0] == days[1] else " to ".join(days)


def _figures(result: RunResult) -> list[tuple[str, str]]:
    scores, cost = result.scores, result.cost
    overall = scores.overall
    figures: list[tuple[str, str]] = []
    if scores.mean_success is not None:
        interval = f"{100 * scores.low:.1f} to {100 * scores.high:.1f} % for tasks like these"
        figures.append((f"{100 * scores.mean_success:.1f} %", f"mean success of {len(scores.tasks)} tasks, {interval}"))
    if result.injection is not None:
        attacks = result.injection.overall
        figures.append((str(attacks.attack_at_1), f"attack success, where the clean task succeeds ({attacks.clean})"))
        figures.append((str(attacks.attack_at_10), "attack success at ten tries"))
    if len(result.repeats) > 1:
        last = result.repeats[-1]
        figures.append((f"{100 * last.any_of:.1f} %", f"pass@{last.k}: one of {last.k} tries succeeds"))
        figures.append((f"{100 * last.all_of:.1f} %", f"pass^{last.k}: all {last.k} tries succeed"))
    figures.append((str(overall.episodes), f"episodes, {overall.scored} with a verdict"))
    figures.append((str(cost.steps), f"steps, {overall.mean_steps:.1f} an episode"))
    if overall.unscored:
        figures.append((str(overall.unscored), "answered, not scored"))
    figures.append((str(overall.environment_errors), f"environment errors ({result.spoiled} attempts failed)"))
    if overall.policy_errors:
        figures.append((str(overall.policy_errors), "policy errors"))
    if (seconds := cost.per_solved("seconds")) is not None:
        figures.append((f"{seconds:.1f} s", "wall time for each solved task"))
    if (tokens := cost.per_solved("generated_tokens")) is not None:
        figures.append((f"{tokens:,.0f}", f"tokens generated for each solved task ({cost.prompt_tokens or 0:,} read)"))
    if (money := cost.per_solved("money")) is not None:
        figures.append((f"{money:.4f} {cost.currency}", "for each solved task"))
    return figures


def _run(result: RunResult) -> dict[str, Any]:
    scores, cost = result.scores, result.cost
    return {
        "name": result.name,
        "policy": result.policy,
        "suite": result.suite,
        "success": scores.mean_success,
        "low": scores.low,
        "high": scores.high,
        "scored": scores.overall.scored,
        "errors": result.errors,
        "mean_steps": scores.overall.mean_steps,
        "tokens": cost.per_solved("generated_tokens"),
        "seconds": cost.per_solved("seconds"),
        "money": cost.per_solved("money"),
        "currency": cost.currency,
    }


def _plots(results: Sequence[RunResult]) -> list[dict[str, str]]:
    plots = []
    if len(results) > 1:
        rows = [(result.name, result.scores.mean_success, result.scores.low, result.scores.high) for result in results]
        said = "; ".join(f"{name} {'not scored' if rate is None else f'{100 * rate:.1f} %'}" for name, rate, *_ in rows)
        plots.append({"image": as_url(forest(rows)), "title": "Success, with 95 % intervals", "said": said})
    ended = [(result.name, Counter(row["outcome"] for row in result.rows)) for result in results if result.rows]
    if ended:
        counts = "; ".join(
            f"{name}: " + ", ".join(f"{count} {outcome.replace('_', ' ')}" for outcome, count in counted.most_common())
            for name, counted in ended
        )
        plots.append({"image": as_url(outcomes(ended)), "title": "How episodes ended", "said": counts})
    for result in results:
        if result.injection is not None:
            where = f"{result.name}: " if len(results) > 1 else ""
            rates = [(one.family, one.attack_at_1) for one in (*result.injection.families, result.injection.overall)]
            picture = as_url(forest([(name, rate.rate, rate.low, rate.high) for name, rate in rates]))
            said = "; ".join(f"{name} {rate}" for name, rate in rates)
            plots.append({"image": picture, "title": f"{where}Attack success where the clean task succeeds",
                          "said": said})  # fmt: skip
        if points := curve(result.manifest, result.scores):
            along = axis(result.manifest)
            said = ", ".join(f"{100 * point.success:.0f} % at {point.x:g}" for point in points)
            where = f"{result.name}: " if len(results) > 1 else ""
            picture = as_url(draw(points, str(along["of"]), along.get("chance")))
            plots.append({"image": picture, "title": f"{where}Success by {along['of']}", "said": said})
    return plots


def _notices(results: Sequence[RunResult], every: int, playable: int, album: Album) -> list[str]:
    parts = []
    for result in results:
        where = f"{result.name}: " if len(results) > 1 else ""
        if result.missing:
            parts.append(f"{where}this run is not complete: {result.missing} episodes have not been played.")
        if helped := result.scores.overall.assisted:
            parts.append(f"{where}a person had a hand in {helped} episodes, which are in no rate.")
        if result.errors and (least := result.scores.overall.at_least) is not None:
            parts.append(
                f"{where}{result.errors} episodes broke and are in no rate; if all of them had failed, "
                f"{100 * least:.1f} % of all episodes would have succeeded."
            )
    if playable < every:
        parts.append(
            f"{playable} of {every} episodes can be played here: every task in turn, failures first. "
            "The figures count all of them."
        )
    if album.left_out:
        parts.append(f"{album.left_out} screenshots did not fit the size limit of this page.")
    if album.missing:
        parts.append(f"{album.missing} screenshots are missing from the run directory.")
    return parts


def _page(title: str, data: Mapping[str, Any]) -> str:
    css = (_ASSETS / "report.css").read_text()
    script = (_ASSETS / "report.js").read_text()
    policy = f"default-src 'none'; img-src data:; style-src {_hash(css)}; script-src {_hash(script)}"
    pieces = {
        "%%CSP%%": policy,
        "%%TITLE%%": html.escape(title),
        "%%CSS%%": css,
        # In a script element only "<" can end the element or begin a comment.
        "%%DATA%%": json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"),
        "%%JS%%": script,
    }
    page = (_ASSETS / "report.html").read_text()
    head, *rest = page.split("%%")
    # Odd pieces are names of slots, even ones are template text: data that holds a slot's name is not touched.
    return head + "".join(pieces[f"%%{piece}%%"] if index % 2 == 0 else piece for index, piece in enumerate(rest))


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
