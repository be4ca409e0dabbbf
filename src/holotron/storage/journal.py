"""An append-only log of finished records: what is on record from the moment it is finished.

Parquet files cannot grow, so finished records are first written here, one JSON line each, and moved into a Parquet
shard when there are enough. Segment `journal/000007.jsonl` becomes shard 7; it is deleted only after the shard is in
place, so at any instant every finished record is in exactly one shard or can be read from a segment. A line cut short
by a crash (only ever the last one) is a record that had not finished being recorded: it is dropped and made again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from holotron.storage.files import Damaged, growing_file, numbered_files, read_file
from holotron.storage.tables import Record, Row

JOURNAL = "journal"
# The names of the first records that were stored like this; all journals have them, so that old folders stay readable.
_HEAD, _PARTS = "episode", "steps"


def segment_path(folder: Path, number: int) -> Path:
    return folder / JOURNAL / f"{number:06d}.jsonl"


def segment_numbers(folder: Path) -> list[int]:
    return numbered_files(folder / JOURNAL, ".jsonl")


def read_segment(folder: Path, number: int) -> list[Record]:
    """The records of a segment; a torn last line is left out."""
    records, damaged = scan_segment(folder, number)
    if damaged:
        raise Damaged(segment_path(folder, number), f"is damaged at line {damaged[0]}")
    return records


def scan_segment(folder: Path, number: int) -> tuple[list[Record], list[int]]:
    """The records of a segment that can be read, and the numbers of the lines that cannot."""
    try:
        lines = read_file(segment_path(folder, number)).split(b"\n")
    except FileNotFoundError:  # moved into its shard while we looked
        return [], []
    records: list[Record] = []
    damaged: list[int] = []
    for line_number, line in enumerate(lines[:-1], start=1):  # what follows the last newline is torn, or empty
        try:
            record = json.loads(line)
            records.append((dict(record[_HEAD]), list(record[_PARTS])))
        except (ValueError, KeyError, TypeError):
            damaged.append(line_number)
    return records, damaged


def to_line(row: Row, parts: Sequence[Row]) -> bytes:
    return json.dumps({_HEAD: row, _PARTS: parts}, ensure_ascii=False).encode() + b"\n"


class Segment:
    """The segment being written."""

    def __init__(self, folder: Path, number: int) -> None:
        self.number = number
        self.records: list[Record] = []
        self._file = growing_file(segment_path(folder, number))

    def append(self, row: Row, parts: list[Row]) -> None:
        self._file.append(to_line(row, parts))
        self.records.append((row, parts))

    def close(self) -> None:
        self._file.close()
