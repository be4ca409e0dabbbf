"""A run directory: trajectories that any Arrow tool can read and that no crash can lose or double.

    run/
      manifest.json                 what was run: configuration, versions, format
      episodes/000000.parquet       one row an episode           select * from 'run/episodes/*.parquet'
      steps/000000.parquet          one row a step               datasets.load_dataset("parquet", data_files=...)
      images/ab/abcd....jpg         screenshots by content
      journal/000001.jsonl          finished episodes not yet in a shard (gone when the run is closed)
      attempts.jsonl                attempts that the environment spoiled

`RunWriter` writes (one process at a time, enforced by a lock that dies with its process); `RunReader` reads, also while
the run is going on.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from holotron.errors import ConfigError, InputError
from holotron.rollouts.journal import Episode, Segment, read_segment, segment_path, segments
from holotron.rollouts.pictures import Pictures
from holotron.rollouts.records import FORMAT, Row, from_rows, to_rows
from holotron.rollouts.tables import EPISODES, STEPS, read_shard, shards, write_shard
from holotron.storage.files import replace_json, sweep_temporaries
from holotron.types import Outcome, Trajectory

MANIFEST = "manifest.json"
ATTEMPTS = "attempts.jsonl"


class RunWriter:
    """Creates a run directory, or takes up one that was interrupted: same configuration, nothing lost or repeated."""

    def __init__(self, path: Path, manifest: Mapping[str, Any], *, shard_episodes: int = 64) -> None:
        self.path = path
        self._shard_episodes = shard_episodes
        path.mkdir(parents=True, exist_ok=True)
        self._lock = lock_folder(path)
        try:
            self.manifest = agree(path, manifest)
            self._pictures = Pictures(path)
            for table in (EPISODES, STEPS):
                (path / table).mkdir(exist_ok=True)
                sweep_temporaries(path / table)
            self._recover()
            self.finished: dict[str, Outcome] = {
                row["id"]: Outcome(row["outcome"])
                for number in shards(path)
                for row, _ in read_shard(path, number, steps=False)
            }
        except BaseException:
            self._lock.close()
            raise
        self._segment: Segment | None = None

    def append(self, trajectory: Trajectory) -> None:
        """Put a finished episode on record. When this returns, a crash cannot lose it."""
        if trajectory.id in self.finished:
            raise InputError(f"episode {trajectory.id} is already on record in {self.path}")
        episode, steps = to_rows(trajectory, self._pictures.keep)
        if self._segment is None:
            self._segment = Segment(self.path, self._next_number())
        self._segment.append(episode, steps)
        self.finished[trajectory.id] = trajectory.outcome
        if len(self._segment.episodes) >= self._shard_episodes:
            self.flush()

    def flush(self) -> None:
        """Move what is in the journal into a shard."""
        segment, self._segment = self._segment, None
        if segment is not None:
            segment.close()
            self._commit(segment.number, segment.episodes)

    def spoiled(self, episode: str, attempt: int, error: str) -> None:
        """Note an attempt that came to nothing through no fault of the agent, and will be made again."""
        line = json.dumps({"episode": episode, "attempt": attempt, "error": error, "time": time.time()})
        with (self.path / ATTEMPTS).open("a") as file:
            file.write(line + "\n")

    def forget(self, outcomes: Collection[Outcome]) -> int:
        """Take episodes with these outcomes off the record, so that they are run again; how many there were."""
        self.flush()
        doomed = {id for id, outcome in self.finished.items() if outcome in outcomes}
        for number in shards(self.path):
            episodes = read_shard(self.path, number)
            kept = [(row, steps) for row, steps in episodes if row["id"] not in doomed]
            if len(kept) < len(episodes):
                write_shard(self.path, number, kept)
        for id in doomed:
            del self.finished[id]
        return len(doomed)

    def update_manifest(self, **entries: Any) -> None:
        self.manifest |= entries
        replace_json(self.path / MANIFEST, self.manifest)

    def close(self) -> None:
        self.flush()
        self._lock.close()

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _recover(self) -> None:
        """Bring what a killed writer left in the journal into shards."""
        in_place = set(shards(self.path))
        for number in segments(self.path):
            if number in in_place:  # killed between moving the shard in and removing the segment
                segment_path(self.path, number).unlink()
            else:
                self._commit(number, read_segment(self.path, number))

    def _commit(self, number: int, episodes: list[Episode]) -> None:
        if episodes:
            write_shard(self.path, number, episodes)
        segment_path(self.path, number).unlink()

    def _next_number(self) -> int:
        return max([-1, *shards(self.path), *segments(self.path)]) + 1


class RunReader:
    """Reads a run directory, finished or not."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest = read_manifest(path)
        self._pictures = Pictures(path)

    def episodes(self) -> list[Row]:
        """The rows of all episodes, in order of recording, without their steps."""
        return [row for row, _ in self._all(steps=False)]

    def trajectories(
        self, *, where: Callable[[Row], bool] = lambda row: True, images: bool = True
    ) -> Iterator[Trajectory]:
        """Whole trajectories, one at a time. `images=False` leaves the pictures on disk (empty bytes)."""
        load = self._pictures.load if images else lambda name: b""
        for episode, steps in self._all(steps=True):
            if where(episode):
                yield from_rows(episode, steps, load)

    def picture_path(self, observation_row: Mapping[str, Any]) -> Path:
        return self.path / observation_row["image"]

    def spoiled(self) -> list[Row]:
        """Attempts that the environment spoiled."""
        try:
            lines = (self.path / ATTEMPTS).read_text().split("\n")
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines[:-1]]

    def rows(self) -> Iterator[Episode]:
        """Episode rows with their step rows."""
        return self._all(steps=True)

    def _all(self, *, steps: bool) -> Iterator[Episode]:
        # Segments are read before shards are listed: one that moves in between is seen twice, never missed.
        open_segments = {number: read_segment(self.path, number) for number in segments(self.path)}
        for number in shards(self.path):
            open_segments.pop(number, None)
            yield from read_shard(self.path, number, steps=steps)
        for episodes in open_segments.values():
            yield from episodes


def read_manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((path / MANIFEST).read_text())
    except FileNotFoundError:
        raise InputError(f"{path} is not a run directory: it has no {MANIFEST}") from None
    except ValueError as error:
        raise InputError(f"{path / MANIFEST} is damaged: {error}") from None
    if manifest.get("format") != FORMAT:
        raise InputError(f"{path} has format {manifest.get('format')!r}; this version reads format {FORMAT}")
    return dict(manifest)


def agree(path: Path, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Write the manifest of a new run, or make sure that an old one is the same experiment."""
    wanted = json.loads(json.dumps({"format": FORMAT, "created_at": time.time(), **wanted}))
    if not (path / MANIFEST).exists():
        if any(entry.name != LOCK for entry in path.iterdir()):
            raise ConfigError(f"{path} is not empty and not a run directory; choose another folder")
        replace_json(path / MANIFEST, wanted)
        return dict(wanted)
    found = read_manifest(path)
    different = _differences(found.get("config", {}), wanted.get("config", {}))
    if different:
        raise ConfigError(
            f"{path} holds a run with another configuration ({'; '.join(different[:5])}). "
            "Resume it with the same settings, or choose another folder."
        )
    return found


def _differences(old: Any, new: Any, where: str = "") -> list[str]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        keys = [*old, *(key for key in new if key not in old)]
        return [line for key in keys for line in _differences(old.get(key), new.get(key), f"{where}.{key}".strip("."))]
    return [] if old == new else [f"{where} was {old!r}, is {new!r}"]


LOCK = ".lock"


def lock_folder(path: Path) -> Any:
    """A lock that the system releases when the process dies, however it dies."""
    file = (path / LOCK).open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise ConfigError(f"another process is writing to {path}; wait for it or choose another folder") from None
    file.write(str(os.getpid()))
    file.flush()
    return file
