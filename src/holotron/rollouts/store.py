"""A run directory: trajectories that any Arrow tool can read and that no crash can lose or double.

    run/
      manifest.json                 what was run: configuration, versions, format
      episodes/000000.parquet       one row an episode           select * from 'run/episodes/*.parquet'
      steps/000000.parquet          one row a step               datasets.load_dataset("parquet", data_files=...)
      images/ab/abcd....jpg         screenshots by content
      journal/000001.jsonl          finished episodes not yet in a shard (gone when the run is closed)
      attempts.jsonl                attempts that the environment spoiled

`RunWriter` writes (one process at a time, enforced by a lock that dies with its process); `RunReader` reads, also while
the run is going on. The folder may be the address of an object store: `s3://bucket/run`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holotron.errors import InputError, StorageError
from holotron.rollouts.pictures import Pictures
from holotron.rollouts.records import FORMAT, bounded, from_rows, to_rows
from holotron.rollouts.tables import TABLES
from holotron.storage.files import append_line, read_file
from holotron.storage.manifest import read_manifest
from holotron.storage.store import ShardedStore, read_records
from holotron.storage.tables import Record, Row
from holotron.storage.verify import Check
from holotron.types import Outcome, Trajectory

ATTEMPTS = "attempts.jsonl"


@dataclass(frozen=True, slots=True)
class RunMark:
    """Which run is meant, told to other processes. On another machine the same path may be another folder."""

    path: Path
    created_at: float

    def seen(self) -> bool:
        """Whether this process sees that very folder."""
        try:
            return bool(read_manifest(self.path, FORMAT).get("created_at") == self.created_at)
        except (InputError, StorageError):
            return False


class RunWriter:
    """Creates a run directory, or takes up one that was interrupted: same configuration, nothing lost or repeated.

    `equal` names the entries of the manifest that must be the same in a run that is taken up. A rollout may add seeds;
    an evaluation, whose score is that of a set of episodes, passes ("kind", "config", "episodes")."""

    def __init__(
        self,
        path: Path,
        manifest: Mapping[str, Any],
        *,
        shard_episodes: int = 64,
        equal: Sequence[str] = ("config",),
    ) -> None:
        self.path = path
        self._pictures = Pictures(path)
        self._store = ShardedStore(path, TABLES, manifest, shard_records=shard_episodes, summary=_outcome, equal=equal)

    @property
    def manifest(self) -> dict[str, Any]:
        return self._store.manifest

    @property
    def mark(self) -> RunMark:
        return RunMark(self.path, self.manifest["created_at"])

    @property
    def finished(self) -> Mapping[str, Outcome]:
        """The episodes on record."""
        return self._store.finished

    def append(self, trajectory: Trajectory) -> None:
        """Put a finished episode on record. When this returns, a crash cannot lose it."""
        self.append_rows(to_rows(trajectory, self._pictures.keep))

    def append_rows(self, record: Record) -> None:
        """The same for whoever has put the pictures there already."""
        self._store.append(*record)

    def flush(self) -> None:
        """Move what is in the journal into a shard."""
        self._store.flush()

    def spoiled(self, episode: str, attempt: int, error: str) -> None:
        """Note an attempt that came to nothing through no fault of the agent, and will be made again."""
        line = json.dumps({"episode": episode, "attempt": attempt, "error": bounded(error), "time": time.time()})
        append_line(self.path / ATTEMPTS, line.encode())

    def forget(self, outcomes: Collection[Outcome]) -> int:
        """Take episodes with these outcomes off the record, so that they are run again; how many there were."""
        doomed = [id for id, outcome in self.finished.items() if outcome in outcomes]
        self._store.forget(doomed)
        return len(doomed)

    def update_manifest(self, **entries: Any) -> None:
        self._store.update_manifest(**entries)

    def close(self) -> None:
        self._store.close()

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _outcome(row: Row) -> Outcome:
    return Outcome(row["outcome"])


class RunReader:
    """Reads a run directory, finished or not."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest = read_manifest(path, FORMAT)
        self._pictures = Pictures(path)

    def episodes(self) -> list[Row]:
        """The rows of all episodes, in order of recording, without their steps."""
        return [row for row, _ in read_records(self.path, TABLES, parts=False)]

    def trajectories(
        self, *, where: Callable[[Row], bool] = lambda row: True, images: bool = True
    ) -> Iterator[Trajectory]:
        """Whole trajectories, one at a time. `images=False` leaves the pictures on disk (empty bytes)."""
        load = self._pictures.load if images else lambda name: b""
        for episode, steps in self.rows():
            if where(episode):
                yield from_rows(episode, steps, load)

    def picture_path(self, observation_row: Mapping[str, Any]) -> Path:
        return self.path / observation_row["image"]

    def spoiled(self) -> list[Row]:
        """Attempts that the environment spoiled."""
        try:
            lines = read_file(self.path / ATTEMPTS).split(b"\n")
        except FileNotFoundError:
            return []
        return [note for line in lines if (note := _note(line)) is not None]

    def rows(self, only: Collection[str] | None = None) -> Iterator[Record]:
        """Episode rows with their step rows; `only`: some of them, by id."""
        return read_records(self.path, TABLES, only=only)


def picture_check(run: Path) -> Check:
    """For `verify`: every picture that an episode shows is there, and is what its name says."""
    pictures = Pictures(run)

    def check(record: Record) -> Iterator[tuple[str, str]]:
        episode, steps = record
        shown = [step["observation"] for step in steps] + [episode["final"]]
        for name in sorted({seen["image"] for seen in shown if seen is not None}):
            if problem := pictures.problem(name):
                yield name, problem

    return check


def _note(line: bytes) -> Row | None:
    try:
        return dict(json.loads(line))
    except ValueError:  # torn by a crash, or what follows the last line
        return None
