"""A run directory as one HTML page: scores with intervals, and a player for its trajectories.

    write_report(Path("runs/eval"))                       # -> runs/eval/report.html

The page carries everything it shows (no server, no network) and is bounded in size: all episodes are listed and
counted, but only some can be played, failures before successes and every task in turn, with their screenshots scaled
down. What was left out is said at the top. Nothing from a page or a model can act in the report: it is inserted as
text, and the page's own content policy allows no script but the one it was built with.
"""

from __future__ import annotations

import base64
import hashlib
import html
import io
import itertools
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from PIL import Image

from holotron.actions import stored_action
from holotron.agent.describe import describe
from holotron.evals.curve import axis, curve, draw
from holotron.evals.statistics import Scoreboard, scoreboard
from holotron.rollouts.records import Row
from holotron.rollouts.store import RunReader
from holotron.storage.files import replace_file
from holotron.types import Outcome
from holotron.view import View

LONGEST_TEXT = 6000
_ASSETS = files(__package__) / "assets"


@dataclass(frozen=True, slots=True)
class ReportLimits:
    """What may go into one page."""

    episodes: int = 300  # that can be played
    image_bytes: int = 24_000_000
    image_side: int = 1000  # pixels of the longer side; larger screenshots are scaled down


@dataclass(frozen=True, slots=True)
class Report:
    path: Path
    episodes: int
    playable: int
    bytes: int


def write_report(
    run: Path,
    out: Path | None = None,
    *,
    title: str | None = None,
    limits: ReportLimits = ReportLimits(),
    on_episode: Callable[[int, int], None] | None = None,
) -> Report:
    """Build the report of a run; `on_episode(done, total)` follows the work."""
    reader = RunReader(run)
    rows = sorted(reader.episodes(), key=lambda row: (row["task"], row["seed"], row["id"]))
    chosen = _choose(rows, limits.episodes)
    album = _Album(run, limits)
    playable: dict[str, dict[str, Any]] = {}
    for number, (episode, steps) in enumerate(_in_order(reader, chosen), start=1):
        playable[episode["id"]] = _playable(episode, steps, album)
        if on_episode is not None:
            on_episode(number, len(chosen))
    scores = scoreboard(rows)
    name = title or _title(reader.manifest, run)
    data = {
        "title": name,
        "subtitle": _subtitle(reader.manifest, rows),
        "notice": _notice(len(rows), len(playable), album),
        "figures": _figures(scores, rows, len(reader.spoiled())),
        "curve": _curve(reader.manifest, scores),
        "outcomes": sorted({row["outcome"] for row in rows}),
        "tasks": scores.to_json()["tasks"],
        "episodes": [_listed(row) | playable.get(row["id"], {"steps": None, "final": None}) for row in rows],
        "images": album.images,
        "manifest": {key: value for key, value in reader.manifest.items() if key != "episodes"},
    }
    page = _page(name, data).encode()
    path = out or run / "report.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, page)
    return Report(path, len(rows), len(playable), len(page))


# --------------------------------------------------------------------------------------------------- what is embedded


def _choose(rows: Sequence[Row], limit: int) -> list[str]:
    """Episodes to play: every task in turn, what went wrong before what went right."""
    by_task: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row["outcome"] == Outcome.SUCCESS):
        by_task.setdefault(row["task"], []).append(row)
    turns = itertools.chain.from_iterable(itertools.zip_longest(*by_task.values()))
    return [row["id"] for row in turns if row is not None][:limit]


def _in_order(reader: RunReader, chosen: Sequence[str]) -> Iterable[tuple[Row, list[Row]]]:
    """The chosen episodes, most wanted first, so that a full album leaves out the least wanted."""
    wanted = set(chosen)
    found = {episode["id"]: (episode, steps) for episode, steps in reader.rows() if episode["id"] in wanted}
    return (found[id] for id in chosen if id in found)


class _Album:
    """Scaled-down screenshots as data URLs, each once, until the page is full."""

    def __init__(self, run: Path, limits: ReportLimits) -> None:
        self._run = run
        self._limits = limits
        self._known: dict[str, int | None] = {}
        self._bytes = 0
        self.images: list[str] = []
        self.left_out = 0
        self.missing = 0

    def add(self, name: str) -> int | None:
        """The number of an image in the page; None if it could not be taken in."""
        if name not in self._known:
            self._known[name] = self._take(name)
        return self._known[name]

    def _take(self, name: str) -> int | None:
        if self._bytes >= self._limits.image_bytes:
            self.left_out += 1
            return None
        try:
            url = self._shrunk(self._run / name)
        except OSError:  # lost, or not a picture
            self.missing += 1
            return None
        self._bytes += len(url)
        self.images.append(url)
        return len(self.images) - 1

    def _shrunk(self, path: Path) -> str:
        original = path.read_bytes()
        side = self._limits.image_side
        with Image.open(io.BytesIO(original)) as image:
            if max(image.size) <= side and len(original) < 60_000:
                kind = (image.format or "png").lower()
                return f"data:image/{kind};base64,{base64.b64encode(original).decode()}"
            small = image.convert("RGB")
        small.thumbnail((side, side), Image.Resampling.LANCZOS)
        buffer = io.BytesIO()
        small.save(buffer, "JPEG", quality=72, optimize=True)
        return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def _playable(episode: Row, steps: Sequence[Row], album: _Album) -> dict[str, Any]:
    ordered = sorted(steps, key=lambda row: row["index"])
    final = episode["final"]
    return {
        "steps": [_step(row, album) for row in ordered],
        "final": None if final is None else _view(final, album),
    }


def _step(row: Row, album: _Album) -> dict[str, Any]:
    action = None if row["action"] is None else json.loads(row["action"])
    said = "no valid action" if action is None else describe(stored_action(action))
    info = json.loads(row["info"])
    asked = f"a person said no to: {info['asked']}" if "asked" in info else ""
    return {
        "view": _view(row["observation"], album),
        "action": action,
        "said": f"REFUSED, not done: {said}" if asked else said,
        "error": row["reply_error"] or asked,
        "thought": _short(row["thought"]),
        "note": _short(row["note"]),
        "text": _short(row["text"]),
        "reasoning": _short(row["reasoning"]),
        "reward": row["reward"],
        **{key: row[key] for key in ("prompt_tokens", "cached_tokens", "generated_tokens", "images_sent")},
        "policy_seconds": row["policy_seconds"],
        "environment_seconds": row["environment_seconds"],
    }


def _view(observation: Mapping[str, Any], album: _Album) -> dict[str, Any]:
    return {
        "image": album.add(observation["image"]),
        "viewport": [observation["viewport_width"], observation["viewport_height"]],
        "url": _short(observation["url"], 300),
        "title": _short(observation["title"], 300),
        "note": _short(observation["note"], 1000),
    }


def _listed(row: Row) -> dict[str, Any]:
    kept = {key: row[key] for key in ("id", "task", "seed", "outcome", "reward", "seconds", "attempt")}
    texts = {key: _short(row[key], 600) for key in ("goal", "answer", "error")}
    return kept | texts | {"count": row["steps"]}


def _short(text: str, limit: int = LONGEST_TEXT) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit} more characters)"


# ---------------------------------------------------------------------------------------------------- what is written


def _title(manifest: Mapping[str, Any], run: Path) -> str:
    policy = manifest.get("config", {}).get("policy", {})
    who = policy.get("model") or policy.get("script") or policy.get("policy") or "policy"
    return f"{who} · {manifest.get('kind', run.name)}"


def _subtitle(manifest: Mapping[str, Any], rows: Sequence[Row]) -> str:
    config = manifest.get("config", {})
    policy, environment = config.get("policy", {}), config.get("environment", {})
    began = min((row["started_at"] for row in rows if row["started_at"]), default=manifest.get("created_at", 0))
    parts = [
        time.strftime("%Y-%m-%d %H:%M", time.localtime(began)),
        f"dialect {policy['dialect']['name']}" if policy.get("dialect") else "",
        f"history {policy['history']}" if policy.get("history") else "",
        f"view {View.from_json(environment['view'])}" if environment.get("view") else "",
        str(environment.get("browser", "")),
        f"holotron {manifest.get('holotron', '')}",
    ]
    return " · ".join(part for part in parts if part)


def _figures(scores: Scoreboard, rows: Sequence[Row], spoiled: int) -> list[tuple[str, str]]:
    overall = scores.overall
    figures: list[tuple[str, str]] = []
    if scores.mean_success is not None:
        interval = f"{100 * overall.low:.1f} to {100 * overall.high:.1f} % over all episodes"
        figures.append((f"{100 * scores.mean_success:.1f} %", f"mean success of {len(scores.tasks)} tasks, {interval}"))
    figures.append((str(overall.episodes), "episodes"))
    figures.append((str(sum(row["steps"] for row in rows)), f"steps, {overall.mean_steps:.1f} an episode"))
    if overall.unscored:
        figures.append((str(overall.unscored), "answered, not scored"))
    figures.append((str(overall.environment_errors), f"environment errors ({spoiled} attempts spoiled)"))
    if overall.policy_errors:
        figures.append((str(overall.policy_errors), "policy errors, counted as failures"))
    return figures


def _curve(manifest: Mapping[str, Any], scores: Scoreboard) -> dict[str, str] | None:
    """Success over the axis that the suite's tasks lie on, as a picture."""
    points = curve(manifest, scores)
    if not points:
        return None
    along = axis(manifest)
    picture = draw(points, str(along["of"]), along.get("chance"))
    said = ", ".join(f"{100 * point.success:.0f} % at {point.x:g}" for point in points)
    url = f"data:image/svg+xml;base64,{base64.b64encode(picture.encode()).decode()}"
    return {"image": url, "title": f"Success by {along['of']}", "said": said}


def _notice(episodes: int, playable: int, album: _Album) -> str:
    parts = []
    if playable < episodes:
        parts.append(
            f"{playable} of {episodes} episodes can be played here: every task in turn, failures first. "
            "The figures count all of them."
        )
    if album.left_out:
        parts.append(f"{album.left_out} screenshots did not fit the size limit of this page.")
    if album.missing:
        parts.append(f"{album.missing} screenshots are missing from the run directory.")
    return " ".join(parts)


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
