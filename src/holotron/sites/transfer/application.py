"""Somebody else's application as a place to play: its environment, its process, its episodes.

    server = HostServer(APPLICATION)                          # installs it on first use
    episode = TransferEpisode(APPLICATION, "close", seed=7)
    key = server.open(episode)                                # a fresh copy of the database
    episode.verdict(answer=None)

An application is data: packages, a host script that runs beside them and not beside us, where its database lies, which
of it counts as state, and tasks. Everything else is the same for all of them.
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
from holotron.sites.transfer.tasks import Assignment, TaskList, World
from holotron.sites.variation import SCALES, SIZES, Viewport, generator
from holotron.types import Task

HOSTS = Path(__file__).parent / "hosts"
HEADER = "X-Holotron-Episode"
CLOSE = "X-Holotron-Close"

Rows = dict[str, dict[str, Row]]  # by table, by what identifies a row there


@dataclass(frozen=True)
class Application:
    name: str  # of the suite, and for people
    title: str
    packages: tuple[str, ...]  # the first one is the application, with its version
    host: str  # under which browsers see it
    data: int  # to be raised when the host prepares other data
    database: str  # in an episode's folder
    queries: Mapping[str, str]  # what counts as state, by table; `key` identifies a row
    tasks: TaskList
    irrevocable: frozenset[str] = frozenset()  # tables to which rows are added for good

    @property
    def script(self) -> Path:
        return HOSTS / f"{self.name}_host.py"

    def facts(self) -> dict[str, Any]:
        """For manifests."""
        return {"application": self.packages[0], "data": self.data}

    def read(self, folder: Path) -> Rows:
        """The state as the checks see it. Text is compared without the white space that forms add at its ends."""
        address = f"file:{folder / self.database}?mode=ro"
        with contextlib.closing(sqlite3.connect(address, uri=True, timeout=10)) as connection:
            connection.row_factory = sqlite3.Row
            found: Rows = {}
            for table, query in self.queries.items():
                rows = [dict(row) for row in connection.execute(query)]
                for row in rows:
                    row |= {
                        name: value.replace("\r\n", "\n").strip()
                        for name, value in row.items()
                        if isinstance(value, str)
                    }
                found[table] = {str(row.pop("key")): row for row in rows}
        return found


@cache
def _prepared(name: str, packages: tuple[str, ...], data: int, script: Path) -> Path:
    python = installed(name, packages)
    base = python.parent.parent / f"data-{data}"
    if not base.exists():
        making = Path(tempfile.mkdtemp(prefix="making-data-", dir=base.parent))
        try:
            run([str(python), "-I", str(script), "prepare", str(making / "environment")])
            with contextlib.suppress(OSError):  # somebody was faster
                (making / "environment").rename(base)
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return base


def prepared(application: Application) -> Path:
    """The folder that episodes are copies of, made once."""
    return _prepared(application.name, application.packages, application.data, application.script)


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


class TransferEpisode:
    language = "en"

    def __init__(self, application: Application, task: str, seed: int, viewport: Viewport = "laptop") -> None:
        self.application = application
        self.variation = Screen(viewport)
        self._start = application.read(prepared(application))
        world = World(self._start, generator(application.name, task, seed))
        self.assignment: Assignment = application.tasks.find(task).make(world)
        self._numbers = world.numbers
        self.folder: Path | None = None

    @property
    def host(self) -> str:
        return self.application.host

    @property
    def goal(self) -> str:
        return self.assignment.goal

    @property
    def url(self) -> str:
        return f"http://{self.host}{self.assignment.start}"

    def verdict(self, answer: str | None = None) -> Verdict:
        wanted = self.assignment.wanted
        return judge(wanted, self._changes(), answer, irrevocable=self.application.irrevocable)

    def _changes(self) -> list[Change]:
        if self.folder is None:
            raise EnvironmentFault("The episode is not open.")
        now, found = self.application.read(self.folder), []
        for table, then in self._start.items():
            for key in sorted(then.keys() | now[table].keys()):
                before, after = then.get(key), now[table].get(key)
                if before != after:
                    found.append(Change(table, self._numbers.of(table, key), before, after))
        return found


class HostServer:
    """One process serves all episodes; it ends with ours, however ours ends."""

    def __init__(self, application: Application, *, port: int = 0, default: bool = False) -> None:
        """`default`: the only episode is also served without a header, for a person with an ordinary browser."""
        self._base = prepared(application)
        self._folder = Path(tempfile.mkdtemp(prefix=f"holotron-{application.name}-"))
        self._keys = itertools.count(1)
        self._lock = threading.Lock()
        python = installed(application.name, application.packages)
        self._process = subprocess.Popen(
            [str(python), "-I", str(application.script), "serve", str(self._folder), str(port)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=os.environ | {"HOLOTRON_EPISODE": "1" if default else ""},
        )  # fmt: skip
        assert self._process.stdout is not None and self._process.stderr is not None
        first = self._process.stdout.readline().split()
        if not first:
            said = self._process.stderr.read().strip().splitlines()
            self.close()
            raise ConfigError(f"{application.title} did not start: {said[-1] if said else 'no reason given'}")
        self.port = int(first[1])
        threading.Thread(target=self._process.stderr.read, daemon=True).start()  # a full pipe would stop it

    def open(self, episode: TransferEpisode) -> str:
        with self._lock:
            key = str(next(self._keys))
        shutil.copytree(self._base, self._folder / key)
        episode.folder = self._folder / key
        return key

    def headers(self, key: str) -> dict[str, str]:
        return {HEADER: key}

    def close_episode(self, key: str) -> None:
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


def make_transfer_episode(application: Application, task: Task) -> TransferEpisode:
    """The episode that a task describes; the same each time."""
    unknown = set(task.options) - {"viewport"}
    if task.suite != application.name or unknown:
        why = f" with {sorted(unknown)[0]!r}" if unknown else ""
        raise ConfigError(f"{task.id} is not a task of {application.name}{why}")
    return TransferEpisode(application, task.name, task.seed, **task.options)
