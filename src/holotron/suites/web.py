"""Goals on any web pages, from a JSON-lines file: one object a line with `url` and `goal` (and, if you like, `name` and
`seed`). Nobody here knows whether they were reached, so episodes that end with an answer are unscored.

    {"url": "https://www.python.org", "goal": "Find the newest release.", "name": "release"}

The environment is `web`; another one that is registered can be named in every line (`"environment": "desktop"`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from holotron.agent.loop import Limits
from holotron.envs.chromium import browser_version
from holotron.envs.registry import PoolRequest, environments
from holotron.errors import ConfigError
from holotron.suites.base import Suite, SuiteRequest, suites
from holotron.types import Task
from holotron.view import View

VIEW = View(width=1280, height=720, scale=1.0, format="jpeg")


@suites.register("web")
def web(request: SuiteRequest) -> Suite:
    """Goals on web pages, from a JSON-lines file: holotron eval tasks.jsonl

    Needs: your file of tasks, Chromium and playwright (extra `agent`), and the network that its pages are in.
    Takes: as long as your policy and those pages do. Nothing scores the answers: judge them afterwards.
    """
    if not request.argument:
        raise ConfigError("name a file of web tasks (JSON lines with url and goal), such as tasks.jsonl")
    path = Path(request.argument)
    entries = _entries(path)
    kinds = {str(entry.get("environment", "web")) for entry in entries}
    if len(kinds) > 1:
        raise ConfigError(f"{path}: all lines must name the same environment, found {', '.join(sorted(kinds))}")
    kind = kinds.pop()
    view = request.view.over(VIEW)
    network = {} if request.network is None else {"network": request.network}
    if network and kind != "web":
        raise ConfigError(f"{path}: which sites may be visited can be said of browsers, not of {kind!r}")
    tasks = tuple(_task(entry, number) for number, entry in enumerate(entries, start=1))
    if request.tasks != "all":
        names = request.choose([task.name for task in tasks])
        tasks = tuple(task for task in tasks if task.name in names)
    return Suite(
        name="web",
        tasks=tasks,
        open=lambda sessions: environments.get(kind)(PoolRequest(sessions, view, network)),
        limits=Limits(answer_when_over=True),
        view=view,
        scored=False,
        facts={"tasks": path.name, **({"browser": browser_version()} if kind == "web" else {"environment": kind})},
    )


def _task(entry: dict[str, Any], number: int) -> Task:
    name = str(entry.get("name", number))
    return Task("web", name, str(entry["goal"]), int(entry.get("seed", 0)), str(entry["url"]))


def _entries(path: Path) -> list[dict[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError(f"cannot read the tasks in {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not a text file; tasks are JSON lines with url and goal") from None
    entries = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            entry["goal"], entry["url"], int(entry.get("seed", 0))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ConfigError(
                f'{path}, line {number}: expected {{"url": ..., "goal": ...}}, got {line[:80]!r}'
            ) from None
        entries.append(entry)
    if not entries:
        raise ConfigError(f"{path} holds no tasks")
    return entries
