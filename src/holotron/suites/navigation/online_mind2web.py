"""Online-Mind2Web: 300 tasks on 136 live sites, renewed by its authors as sites change.

    holotron eval online-mind2web:data/online-mind2web --policy ... --judge ... --protocol three-stage
    holotron eval online-mind2web:hub --tasks easy --policy ...         from the hub, once its terms are accepted there

Its tasks are things to do rather than questions, so a judge looks at the way taken, not at an answer alone. Because
tasks are replaced several times a year, a figure needs the hash of its subset, which the manifest has.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from holotron.agent.loop import Limits
from holotron.errors import ConfigError
from holotron.suites.base import Suite, SuiteRequest, suites
from holotron.suites.navigation.files import address_of, by_name, find_file, rows_of, subset_hash, text_of
from holotron.suites.navigation.places import VIEW, Place
from holotron.types import Task

FILE = "Online_Mind2Web.json"
SOURCE = "osunlp/Online-Mind2Web"
TASKS = 300
LIMITS = Limits(steps=50, seconds=1800.0, answer_when_over=True)


@suites.register("online-mind2web")
def online_mind2web(request: SuiteRequest) -> Suite:
    """Online-Mind2Web: 300 tasks on 136 live sites.

    Needs: its file, online-mind2web:FOLDER or :hub (published as osunlp/Online-Mind2Web); Chromium and playwright
    (extra `agent`); the open web; a judge to score it (--judge, or `holotron judge` afterwards).
    Takes: as long as your policy and those sites do, at most 30 minutes an episode.
    """
    place = Place.parse(request.argument, request.network)
    if not place.files:
        raise ConfigError(f"name the folder with {FILE}: holotron eval online-mind2web:FOLDER, or :hub (from {SOURCE})")
    file = find_file(place.files, FILE, SOURCE, hub=SOURCE)
    tasks = by_name(read_tasks(file))
    levels = sorted({str(task.options["level"]) for task in tasks.values() if "level" in task.options})
    wanted = request.choose([*tasks, *levels]) if request.tasks != "all" else list(tasks)
    chosen = [task for task in tasks.values() if task.name in wanted or task.options.get("level") in wanted]
    view = request.view.over(VIEW)
    return Suite(
        name="online-mind2web",
        tasks=tuple(place.of(task) for task in chosen),
        open=lambda sessions: place.open(sessions, view),
        limits=LIMITS,
        view=view,
        scored=False,
        facts={"items": len(chosen), "published_items": TASKS, "subset": subset_hash(chosen), **place.facts},
    )


def read_tasks(file: Path) -> Iterator[tuple[Task, str]]:
    """`{task_id, website, task_description, reference_length}` a row; copies call the task `confirmed_task` and say how
    hard it is (`level`)."""
    for row, where in rows_of(file):
        url = address_of(row, where, "website", "website_url", "url")
        options = {"site": (urlsplit(url).hostname or "").removeprefix("www.")}
        if isinstance(level := row.get("level"), str):
            options["level"] = level
        goal = text_of(row, where, "task_description", "confirmed_task", "task")
        yield Task("online-mind2web", text_of(row, where, "task_id"), goal, start_url=url, options=options), where
