"""Trac, an issue tracker with a wiki, as a transfer set: a host process, and episodes that are copies of its database.

    server = TracServer()                            # installs Trac on first use
    episode = TracEpisode(find_task("close"), seed=7)
    key = server.open(episode)                       # a fresh copy, served under `episode.host`
    episode.verdict(answer=None)

What counts as the state are tickets, comments, wiki pages (their newest version), milestones, components and versions;
who looked at what, and when, does not. Dates are shown as dates, not as "two weeks ago", so pages stay the same.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import sqlite3
import subprocess
import tempfile
import threading
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from holotron.errors import ConfigError, EnvironmentFault
from holotron.sites.checks import Verdict, judge
from holotron.sites.state import Change, Row
from holotron.sites.transfer.install import installed, run
from holotron.sites.transfer.trac_tasks import Assignment, Project, TracTask, find_task
from holotron.sites.variation import SCALES, SIZES, Viewport, generator
from holotron.types import Task

PACKAGES = ("Trac==1.6", "setuptools<80")
HOST = Path(__file__).parent / "trac_host.py"
DATA = 1  # raise it when `trac_host.prepare` makes other data
HEADER = "X-Holotron-Episode"
CLOSE = "X-Holotron-Close"

Rows = dict[str, dict[str, Row]]  # by table, by what identifies a row there

_QUERIES = {
    "ticket": "select id key, id, type, component, priority, owner, reporter, cc, version, milestone, status, "
    "coalesce(resolution, '') resolution, summary, description, keywords from ticket",
    "comment": "select ticket || '/' || oldvalue key, ticket, author, newvalue text from ticket_change "
    "where field = 'comment' and newvalue != ''",
    "wiki": "select name key, name, text from wiki w where version = "
    "(select max(version) from wiki where name = w.name)",
    "milestone": "select name key, name, case when due > 0 then date(due / 1000000, 'unixepoch') else '' end due, "
    "completed > 0 completed from milestone",
    "component": "select name key, name, coalesce(owner, '') owner from component",
    "version": "select name key, name from version",
}


def read(database: Path) -> Rows:
    """The state as the checks see it. Text is compared without the white space that forms add at its ends."""
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=10)) as connection:
        connection.row_factory = sqlite3.Row
        found: Rows = {}
        for table, query in _QUERIES.items():
            rows = [dict(row) for row in connection.execute(query)]
            for row in rows:
                row |= {
                    name: value.replace("\r\n", "\n").strip() for name, value in row.items() if isinstance(value, str)
                }
            found[table] = {str(row.pop("key")): row for row in rows}
    return found


@cache
def prepared() -> Path:
    """The environment that episodes are copies of, made once."""
    python = installed("trac", PACKAGES)
    base = python.parent.parent / f"data-{DATA}"
    if not base.exists():
        making = Path(tempfile.mkdtemp(prefix="making-data-", dir=base.parent))
        try:
            run([str(python), "-I", str(HOST), "prepare", str(making / "environment")])
            with contextlib.suppress(OSError):  # somebody was faster
                (making / "environment").rename(base)
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return base


@dataclass(frozen=True, slots=True)
class Screen:
    """What an environment asks of a variation."""

    viewport: Viewport

    @property
    def size(self) -> tuple[int, int]:
        return SIZES[self.viewport]

    @property
    def scale(self) -> float:
        return SCALES[self.viewport]


class TracEpisode:
    host = "harbour.example"
    language = "en"

    def __init__(self, task: TracTask, seed: int, viewport: Viewport = "laptop") -> None:
        self.variation = Screen(viewport)
        self._start = read(prepared() / "db" / "trac.db")
        project = Project(self._start, generator("trac", task.name, seed))
        self.assignment: Assignment = task.make(project)
        self._numbers = project.numbers
        self.folder: Path | None = None

    @property
    def goal(self) -> str:
        return self.assignment.goal

    @property
    def url(self) -> str:
        return f"http://{self.host}{self.assignment.start}"

    @property
    def database(self) -> Path:
        if self.folder is None:
            raise EnvironmentFault("The episode is not open.")
        return self.folder / "db" / "trac.db"

    def verdict(self, answer: str | None = None) -> Verdict:
        return judge(self.assignment.wanted, self._changes(), answer, irrevocable=frozenset({"ticket", "comment"}))

    def _changes(self) -> list[Change]:
        now, found = read(self.database), []
        for table, then in self._start.items():
            for key in sorted(then.keys() | now[table].keys()):
                before, after = then.get(key), now[table].get(key)
                if before != after:
                    found.append(Change(table, self._numbers.of(table, key), before, after))
        return found


class TracServer:
    """One process serves all episodes; it ends with ours, however ours ends."""

    def __init__(self, *, port: int = 0, default: bool = False) -> None:
        """`default`: the only episode is also served without a header, for a person with an ordinary browser."""
        base = prepared()
        self._folder = Path(tempfile.mkdtemp(prefix="holotron-trac-"))
        self._keys = itertools.count(1)
        self._open: dict[str, TracEpisode] = {}
        self._lock = threading.Lock()
        python = installed("trac", PACKAGES)
        self._process = subprocess.Popen(
            [str(python), "-I", str(HOST), "serve", str(self._folder), str(port)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=os.environ | {"HOLOTRON_EPISODE": "1" if default else ""},
        )  # fmt: skip
        assert self._process.stdout is not None and self._process.stderr is not None
        first = self._process.stdout.readline().split()
        if not first:
            said = self._process.stderr.read().strip().splitlines()
            self.close()
            raise ConfigError(f"Trac did not start: {said[-1] if said else 'no reason given'}")
        self.port = int(first[1])
        threading.Thread(target=self._process.stderr.read, daemon=True).start()  # a full pipe would stop it
        self._base = base

    def open(self, episode: TracEpisode) -> str:
        with self._lock:
            key = str(next(self._keys))
        shutil.copytree(self._base, self._folder / key)
        episode.folder = self._folder / key
        self._open[key] = episode
        return key

    def headers(self, key: str) -> dict[str, str]:
        return {HEADER: key}

    def close_episode(self, key: str) -> None:
        self._open.pop(key, None)
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/", headers={HEADER: key, CLOSE: "1"})
        with contextlib.suppress(OSError):
            urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10).close()
        shutil.rmtree(self._folder / key, ignore_errors=True)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


def facts() -> Mapping[str, Any]:
    """For manifests."""
    return {"application": PACKAGES[0], "data": DATA}


def make_trac_episode(task: Task) -> TracEpisode:
    """The episode that a task describes; the same each time."""
    unknown = set(task.options) - {"viewport"}
    if task.suite != "trac" or unknown:
        raise ConfigError(f"{task.id} is not a task of trac" + (f" with {sorted(unknown)[0]!r}" if unknown else ""))
    return TracEpisode(find_task(task.name), task.seed, **task.options)
