"""WebVoyager: 643 questions on 15 live sites, and the maintained subsets that publications use instead.

    holotron eval webvoyager:data/webvoyager --policy ... --judge http://localhost:8000/v1
    holotron eval webvoyager-fara:data/webvoyager --tasks Allrecipes,BBC\\ News --policy ...

Its questions grow old (dates in the past, pages that are gone), so every laboratory edits the set, and figures of
different sets cannot be compared. Each set has a name here; a manifest says which, how many tasks, and their hash.
Nobody on a live site knows whether an answer is right: episodes are unscored until a judge has seen them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from holotron.agent.loop import Limits
from holotron.errors import ConfigError, InputError
from holotron.suites.base import Suite, SuiteRequest, suites
from holotron.suites.navigation.files import address_of, by_name, find_file, object_of, rows_of, subset_hash, text_of
from holotron.suites.navigation.places import VIEW, Place
from holotron.types import Task

LIMITS = Limits(steps=30, seconds=1200.0, answer_when_over=True)  # Surfer-H's steps; WebVoyager's own agent has 15
REFERENCES = "reference_answer.json"


@dataclass(frozen=True, slots=True)
class TaskSet:
    name: str
    file: str  # as published; none: the name has not been seen, so the file itself must be given
    tasks: int
    source: str
    about: str
    hash: str = ""  # of all tasks as published, where the file was at hand


SETS = {
    one.name: one
    for one in (
        TaskSet("webvoyager", "WebVoyager_data.jsonl", 643, "MinorJerry/WebVoyager",
                "WebVoyager as first published", "29402c7d24c32a0c"),
        TaskSet("webvoyager-fara", "WebVoyager_data_08312025.jsonl", 595, "microsoft/fara",
                "WebVoyager as refreshed for Fara in August 2025", "64c1db7f34004e9c"),
        TaskSet("webvoyager-magnitude", "patchedTasks.jsonl", 590, "magnitudedev/webvoyager",
                "WebVoyager as patched by Magnitude"),
        TaskSet("webvoyager-nemo", "", 552, "NVIDIA-NeMo/Gym", "WebVoyager as maintained for NeMo Gym"),
    )
}  # fmt: skip


def webvoyager(tasks_of: TaskSet, request: SuiteRequest) -> Suite:
    place = Place.parse(request.argument, request.network)
    if not place.files:
        raise ConfigError(
            f"name the folder or file with the tasks: holotron eval {tasks_of.name}:FOLDER (from {tasks_of.source})"
        )
    file = find_file(place.files, tasks_of.file, tasks_of.source)
    everything = by_name(read_tasks(tasks_of.name, file))
    chosen = _chosen(request, everything)
    view = request.view.over(VIEW)
    return Suite(
        name=tasks_of.name,
        tasks=tuple(place.of(task) for task in chosen),
        open=lambda sessions: place.open(sessions, view),
        limits=LIMITS,
        view=view,
        scored=False,
        facts={
            "items": len(chosen),
            "published_items": tasks_of.tasks,
            "subset": subset_hash(chosen),
            "file": file.name,
            "as_published": subset_hash(everything.values()) == tasks_of.hash if tasks_of.hash else None,
            **place.facts,
        },
    )


for _name, _set in SETS.items():
    _factory = partial(webvoyager, _set)
    _factory.__doc__ = (
        f"{_set.about}: {_set.tasks} questions on live sites.\n\n"
        f"Needs: its file, {_name}:{'FOLDER' if _set.file else 'FILE'} (published by {_set.source}); Chromium and "
        "playwright (extra `agent`); the open web; a judge to score it (--judge, or `holotron judge` afterwards).\n"
        "Takes: as long as your policy and those sites do, at most 20 minutes an episode."
    )
    suites.register(_name)(_factory)


def read_tasks(suite: str, file: Path) -> Iterator[tuple[Task, str]]:
    """`{web_name, id, ques, web}` a row. Reference answers that lie beside the file travel as options, for people who
    look at verdicts; neither policies nor judges are shown them."""
    beside = file.parent / REFERENCES
    original = suite == "webvoyager"  # references answer the first version of each question
    references = read_references(beside) if original and beside.is_file() else {}
    for row, where in rows_of(file):
        id, site = text_of(row, where, "id"), text_of(row, where, "web_name")
        url, options = address_of(row, where, "web"), {"site": site, **references.get(id, {})}
        yield Task(suite, id, text_of(row, where, "ques"), start_url=url, options=options), where


def read_references(file: Path) -> dict[str, dict[str, str]]:
    """`{site: {notice, answers: [{id, type: golden|possible, ans}]}}`, by the id of the task."""
    found: dict[str, dict[str, str]] = {}
    for site, said in object_of(file).items():
        answers = said.get("answers") if isinstance(said, Mapping) else None
        if not isinstance(answers, list):
            raise InputError(f"{file}: {site} has no list of answers")
        for number, answer in enumerate(answers, start=1):
            where = f"{file}: {site}, row {number}"
            if not isinstance(answer, Mapping) or not isinstance(answer.get("id"), int):
                raise InputError(f"{where}: expected an object with a number as id")
            kind, text = answer.get("type"), answer.get("ans")
            if kind not in ("golden", "possible") or not isinstance(text, str):
                raise InputError(f"{where}: expected type golden or possible, and ans")
            found[f"{site}--{answer['id']}"] = {"reference": text, "reference_type": kind}
    return found


def _chosen(request: SuiteRequest, tasks: Mapping[str, Task]) -> tuple[Task, ...]:
    """By id, or all of a site by its name."""
    sites = list(dict.fromkeys(str(task.options["site"]) for task in tasks.values()))
    wanted = request.choose([*tasks, *sites]) if request.tasks != "all" else list(tasks)
    return tuple(task for task in tasks.values() if task.name in wanted or task.options["site"] in wanted)
