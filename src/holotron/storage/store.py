"""A folder of records that grows by one record at a time and can be taken up again after any interruption.

    folder/
      manifest.json             what was run; another configuration is refused
      <head>/000000.parquet     one row a record
      <parts>/000000.parquet    rows that belong to records, if they have such
      journal/000001.jsonl      finished records that are not in a shard yet (gone when the store is closed)
      journal/forget.json       records that are being taken off (there only in the moment it takes)
      .lock                     one writer at a time; the system takes it back when the process dies

`ShardedStore` writes; `read_records` reads, also while it is being written.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from holotron.errors import InputError
from holotron.storage.files import (
    Damaged,
    make_folder,
    read_file,
    remove_file,
    replace_json,
    sweep_temporaries,
)
from holotron.storage.journal import JOURNAL, Segment, read_segment, segment_numbers, segment_path
from holotron.storage.locks import lock_folder
from holotron.storage.manifest import MANIFEST, agree
from holotron.storage.shards import (
    drop_records,
    open_parquet,
    read_shard,
    shard_numbers,
    shard_path,
    write_shard,
)
from holotron.storage.tables import Record, Row, Tables

FORGET = "forget.json"
T = TypeVar("T")


class ShardedStore(Generic[T]):
    """Creates a store, or takes up one that was interrupted: same configuration, nothing lost or repeated.

    `finished` holds, for the id of every record, what `summary` makes of its head row. `equal` names the entries of the
    manifest that an old folder must share with this one (see `agree`)."""

    def __init__(
        self,
        folder: Path,
        tables: Tables,
        manifest: Mapping[str, Any],
        *,
        shard_records: int,
        summary: Callable[[Row], T],
        equal: Sequence[str] = ("config",),
    ) -> None:
        self.folder = folder
        self._tables = tables
        self._shard_records = shard_records
        self._summary = summary
        self._segment: Segment | None = None
        # A run that is cancelled closes its store while another thread still puts its last record there.
        self._one_at_a_time = threading.RLock()
        make_folder(folder)
        self._lock = lock_folder(folder)
        try:
            wanted = {"format": tables.format, "created_at": time.time(), **manifest}
            self.manifest = agree(folder, wanted, equal=equal)
            self._recover()
            self.finished: dict[str, T] = {}
            for number in shard_numbers(folder, tables.head):
                heads = [row for row, _ in read_shard(folder, tables, number, parts=False)]
                self._check_parts(number, heads)
                self.finished |= {row[tables.head.id]: summary(row) for row in heads}
        except BaseException:
            self._lock.close()
            raise

    def append(self, row: Row, parts: Sequence[Row] = ()) -> None:
        """Put a record on record. When this returns, a crash cannot lose it; when it fails, it has left no trace."""
        id = row[self._tables.head.id]
        with self._one_at_a_time:
            if self._lock.closed:
                raise InputError(f"{self.folder} is closed: {id} comes too late")
            self._lock.check()
            if id in self.finished:
                raise InputError(f"{id} is already on record in {self.folder}")
            if self._segment is None:
                self._segment = Segment(self.folder, self._next_number())
            self._segment.append(row, list(parts))
            self.finished[id] = self._summary(row)
            if len(self._segment.records) >= self._shard_records:
                self.flush()

    def flush(self) -> None:
        """Move what is in the journal into a shard."""
        with self._one_at_a_time:
            segment, self._segment = self._segment, None
            if segment is not None:
                segment.close()
                self._commit(segment.number, segment.records)

    def forget(self, ids: Collection[str]) -> None:
        """Take records off, so that they are made again. Once begun, it is completed, by the next writer if need be."""
        if not ids:
            return
        self.flush()
        make_folder(self.folder / JOURNAL)
        replace_json(self.folder / JOURNAL / FORGET, sorted(ids))
        self._forget(frozenset(ids))
        for id in ids:
            self.finished.pop(id, None)

    def update_manifest(self, **entries: Any) -> None:
        self.manifest |= entries
        replace_json(self.folder / MANIFEST, self.manifest)

    def close(self) -> None:
        with self._one_at_a_time:
            try:
                self.flush()
            finally:
                self._lock.close()

    def __enter__(self) -> ShardedStore[T]:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # ----------------------------------------------------------------------------------------- what a crash left behind

    def _recover(self) -> None:
        """Complete what a killed writer had begun: records in the journal go to shards, forgotten ones go away."""
        for table in self._tables.all:
            make_folder(self.folder / table.name)
            sweep_temporaries(self.folder / table.name)
        sweep_temporaries(self.folder / JOURNAL)
        in_place = set(shard_numbers(self.folder, self._tables.head))
        for number in segment_numbers(self.folder):
            if number in in_place and self._is_sound(number):  # killed before the segment went
                remove_file(segment_path(self.folder, number))
            else:
                self._commit(number, self._new(read_segment(self.folder, number), in_place - {number}))
        try:
            begun = json.loads(read_file(self.folder / JOURNAL / FORGET))
        except FileNotFoundError:
            return
        self._forget(frozenset(begun))

    def _new(self, records: list[Record], shards: set[int]) -> list[Record]:
        """Without those that are in a shard already: a writer that was slow to see that it had been taken over may have
        left one that was made again meanwhile."""
        id = self._tables.head.id
        known = {row[id] for number in shards for row, _ in read_shard(self.folder, self._tables, number, parts=False)}
        return [record for record in records if record[0][id] not in known]

    def _is_sound(self, number: int) -> bool:
        try:
            read_shard(self.folder, self._tables, number)
        except Damaged:
            return False
        return True

    def _check_parts(self, number: int, heads: list[Row]) -> None:
        """That the parts are there is known from the number of their rows; `verify` looks at every one of them."""
        table = self._tables.parts
        if table is None:
            return
        path = shard_path(self.folder, table, number)
        with open_parquet(path) as file:
            found = file.metadata.num_rows
        wanted = sum(row[self._tables.count] for row in heads)
        if found != wanted:
            raise Damaged(path, f"has {found} rows where {self._tables.head.name} speak of {wanted}")

    # ---------------------------------------------------------------------------------------------------------- shards

    def _commit(self, number: int, records: list[Record]) -> None:
        if records:
            write_shard(self.folder, self._tables, number, records)
        remove_file(segment_path(self.folder, number))

    def _forget(self, ids: frozenset[str]) -> None:
        for number in shard_numbers(self.folder, self._tables.head):
            drop_records(self.folder, self._tables, number, ids)
        remove_file(self.folder / JOURNAL / FORGET)

    def _next_number(self) -> int:
        return max([-1, *shard_numbers(self.folder, self._tables.head), *segment_numbers(self.folder)]) + 1


def read_records(
    folder: Path, tables: Tables, *, parts: bool = True, only: Collection[str] | None = None
) -> Iterator[Record]:
    """All records (or some, by id) in order of recording, finished folder or not; without their parts it is faster."""
    # Segments are read before shards are listed: one that moves in between is known by its number, never missed.
    open_segments = {number: read_segment(folder, number) for number in segment_numbers(folder)}
    for number in shard_numbers(folder, tables.head):
        open_segments.pop(number, None)
        yield from read_shard(folder, tables, number, parts=parts, only=only)
    for records in open_segments.values():
        yield from (record for record in records if only is None or record[0][tables.head.id] in only)
