"""An append-only log of finished episodes: what is on record from the moment it is finished.

Parquet files cannot grow, so finished episodes are first written here, one JSON line each, and moved into a Parquet
shard when there are enough. Segment `journal/000007.jsonl` becomes shard 7; it is deleted only after the shard is in
place, so at any instant every finished episode is in exactly one shard or can be read from a segment. A line cut short
by a crash (only ever the last one) is an episode that had not finished being recorded: it is dropped and run again.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import IO

from holotron.errors import InputError
from holotron.rollouts.records import Row

Episode = tuple[Row, list[Row]]


def segment_path(run: Path, number: int) -> Path:
    return run / "journal" / f"{number:06d}.jsonl"


def segments(run: Path) -> list[int]:
    return sorted(int(path.stem) for path in (run / "journal").glob("*.jsonl"))


def read_segment(run: Path, number: int) -> list[Episode]:
    """The episodes of a segment; a torn last line is left out."""
    path = segment_path(run, number)
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:  # moved into its shard while we looked
        return []
    episodes: list[Episode] = []
    for line_number, line in enumerate(lines[:-1], start=1):  # what follows the last newline is torn, or empty
        try:
            record = json.loads(line)
            episodes.append((record["episode"], record["steps"]))
        except (ValueError, KeyError, TypeError):
            raise InputError(f"{path} is damaged at line {line_number}; remove that line to go on") from None
    return episodes


class Segment:
    """The segment being written."""

    def __init__(self, run: Path, number: int) -> None:
        self.number = number
        self.episodes: list[Episode] = []
        path = segment_path(run, number)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: IO[bytes] = path.open("xb")

    def append(self, episode: Row, steps: list[Row]) -> None:
        line = json.dumps({"episode": episode, "steps": steps}, ensure_ascii=False)
        self._file.write(line.encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.episodes.append((episode, steps))

    def close(self) -> None:
        self._file.close()
