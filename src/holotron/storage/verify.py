"""Finds what is damaged in a store, and moves it aside so that the rest can be used and completed.

    report = verify(folder, TABLES)
    report.findings                               # [Finding("steps/000001.parquet", "is missing", ...)]
    report, aside = quarantine(folder, TABLES)    # aside: folder/quarantine/<time>, with findings.json

Every row of every shard is read, with its checksums, and every line of the journal. Nothing is thrown away: a shard
that cannot be read goes to the quarantine with its parts; where only some of its records are bad, a copy of it goes
there and those records are taken off. What was moved is no longer finished, so the command that made it makes it again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from holotron.errors import InputError
from holotron.storage.files import (
    Damaged,
    copy_file,
    exists,
    make_folder,
    move_file,
    replace_file,
    replace_json,
)
from holotron.storage.journal import scan_segment, segment_numbers, segment_path, to_line
from holotron.storage.locks import lock_folder
from holotron.storage.manifest import MANIFEST, read_manifest
from holotron.storage.shards import drop_records, read_table, shard_numbers, shard_path
from holotron.storage.tables import Record, Row, Table, Tables

QUARANTINE = "quarantine"
# What a record needs beside its rows: the file (relative to the folder; "" for the rows themselves) and its problem.
Check = Callable[[Record], Iterable[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class Finding:
    file: str  # relative to the folder
    problem: str
    shard: int | None = None  # the shard to be moved aside
    ids: tuple[str, ...] = ()  # only these of its records; none are named: all of it
    segment: int | None = None  # the segment of the journal that has bad lines

    @property
    def movable(self) -> bool:
        """A store can do without records, not without its manifest."""
        return self.shard is not None or self.segment is not None


@dataclass(slots=True)
class Verification:
    records: int = 0  # that are sound
    findings: list[Finding] = field(default_factory=list)


# ------------------------------------------------------------------------------------------------------------- finding


def verify(folder: Path, tables: Tables, check: Check = lambda record: ()) -> Verification:
    """Read everything. Nothing is changed and no lock is taken: a store can be verified while it is being written."""
    report = Verification()
    if exists(folder / MANIFEST):
        try:
            read_manifest(folder, tables.format)
        except InputError as error:
            report.findings.append(Finding(MANIFEST, f"cannot be used: {error}"))
    # In this order a shard that comes into place while we look is never taken for one that lost its head.
    with_parts = shard_numbers(folder, tables.parts) if tables.parts is not None else []
    segments = {number: scan_segment(folder, number) for number in segment_numbers(folder)}
    in_place = shard_numbers(folder, tables.head)
    seen: set[str] = set()
    for number in in_place:
        try:
            heads, parts = _read(folder, tables, number)
        except Damaged as damaged:
            name = damaged.path.relative_to(folder).as_posix()
            report.findings.append(Finding(name, damaged.problem, shard=number))
            continue
        found = list(_check_shard(tables, number, heads, parts, seen, check))
        report.findings += found
        report.records += len({row[tables.head.id] for row in heads} - {id for one in found for id in one.ids})
    for number in sorted({*with_parts} - {*in_place, *segments}):
        assert tables.parts is not None
        report.findings.append(Finding(_name(tables.parts, number), f"has no {tables.head.name}", shard=number))
    for number, (records, damaged_lines) in segments.items():
        report.records += sum(row.get(tables.head.id) not in seen for row, _ in records)
        if damaged_lines:
            name = segment_path(folder, number).relative_to(folder).as_posix()
            report.findings.append(Finding(name, f"is damaged at line {damaged_lines[0]}", segment=number))
    return report


def _read(folder: Path, tables: Tables, number: int) -> tuple[list[Row], dict[str, list[Row]]]:
    parts: dict[str, list[Row]] = {}
    if tables.parts is not None:
        for part in read_table(folder, tables.parts, number):
            parts.setdefault(part[tables.parts.id], []).append(part)
    return read_table(folder, tables.head, number), parts


def _check_shard(
    tables: Tables, number: int, heads: list[Row], parts: dict[str, list[Row]], seen: set[str], check: Check
) -> Iterator[Finding]:
    head_name = _name(tables.head, number)
    for row in heads:
        id = row[tables.head.id]
        belonging = parts.pop(id, [])
        if id in seen:
            yield Finding(head_name, f"{id} is on record twice", number, (id,))
        seen.add(id)
        if tables.parts is not None and len(belonging) != row[tables.count]:
            problem = f"{id} has {len(belonging)} of {row[tables.count]} {tables.parts.name}"
            yield Finding(_name(tables.parts, number), problem, number, (id,))
        for file, problem in check((row, belonging)):
            yield Finding(file or head_name, f"{id}: {problem}", number, (id,))
    if parts and tables.parts is not None:
        problem = f"has rows of {len(parts)} records that are not in {tables.head.name}"
        yield Finding(_name(tables.parts, number), problem, number, tuple(parts))


def _name(table: Table, number: int) -> str:
    return f"{table.name}/{number:06d}.parquet"


# -------------------------------------------------------------------------------------------------------- moving aside


def quarantine(folder: Path, tables: Tables, check: Check = lambda record: ()) -> tuple[Verification, Path]:
    """Verify, while nobody else writes, and move aside what is bad. The report, and where the bad things are now."""
    lock = lock_folder(folder)
    try:
        report = verify(folder, tables, check)
        aside = folder / QUARANTINE / time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        make_folder(aside)
        replace_json(aside / "findings.json", [asdict(finding) for finding in report.findings])
        whole = {one.shard for one in report.findings if one.shard is not None and not one.ids}
        for number in sorted(whole):
            for table in _present(folder, tables, number):  # head first: without it a shard does not count
                move_file(shard_path(folder, table, number), aside / _name(table, number))
        for number in sorted({one.shard for one in report.findings if one.shard is not None} - whole):
            for table in _present(folder, tables, number):
                copy_file(shard_path(folder, table, number), aside / _name(table, number))
            drop_records(
                folder, tables, number, {id for one in report.findings if one.shard == number for id in one.ids}
            )
        for number in {one.segment for one in report.findings if one.segment is not None}:
            path = segment_path(folder, number)
            copy_file(path, aside / path.relative_to(folder))
            records, _ = scan_segment(folder, number)
            replace_file(path, b"".join(to_line(*record) for record in records), durable=True)
        names = {_name(table, one.shard) for one in report.findings if one.shard is not None for table in tables.all}
        for file in {one.file for one in report.findings if one.ids} - names:  # what records need, and is bad
            if exists(folder / file):
                move_file(folder / file, aside / file)
    finally:
        lock.close()
    return report, aside


def _present(folder: Path, tables: Tables, number: int) -> list[Table]:
    return [table for table in tables.all if exists(shard_path(folder, table, number))]
