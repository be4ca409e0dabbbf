"""Parquet shards: `episodes/000007.parquet` and, where records have parts, `steps/000007.parquet`; whole or absent.

A shard counts when its head table is in place. So the parts are written first and read first, and a shard that loses
records is rewritten head first: at every instant, whoever reads finds for each head row all of its parts.
"""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holotron.storage.files import Damaged, make_folder, numbered_files, read_file, replace_file
from holotron.storage.tables import Record, Row, Table, Tables, arrow

if TYPE_CHECKING:
    import pyarrow


def shard_path(folder: Path, table: Table, number: int) -> Path:
    return folder / table.name / f"{number:06d}.parquet"


def shard_numbers(folder: Path, table: Table) -> list[int]:
    """The shards in place; those of the head table are the ones that count."""
    return numbered_files(folder / table.name, ".parquet")


# ------------------------------------------------------------------------------------------------------------- records


def write_shard(folder: Path, tables: Tables, number: int, records: Sequence[Record]) -> None:
    """A new shard, parts first: a crash between the two leaves a shard that does not count yet."""
    if tables.parts is not None:
        parts = [part for _, of_one in records for part in of_one]
        write_rows(shard_path(folder, tables.parts, number), parts, tables.parts.schema())
    write_rows(shard_path(folder, tables.head, number), [row for row, _ in records], tables.head.schema())


def drop_records(folder: Path, tables: Tables, number: int, ids: Collection[str]) -> None:
    """Take records out of a shard, head first: a crash between the two leaves parts that nobody asks for, and doing it
    again removes them."""
    before = [(table, read_table(folder, table, number)) for table in tables.all]
    for table, rows in before:
        kept = [row for row in rows if row[table.id] not in ids]
        if len(kept) < len(rows):
            write_rows(shard_path(folder, table, number), kept, table.schema())


def read_shard(
    folder: Path, tables: Tables, number: int, *, parts: bool = True, only: Collection[str] | None = None
) -> list[Record]:
    """The records of a shard (or some of them, by id) with their parts (or, faster, without)."""
    of: dict[str, list[Row]] = defaultdict(list)
    if parts and tables.parts is not None:
        for part in read_table(folder, tables.parts, number, only):
            of[part[tables.parts.id]].append(part)
    records = [(row, of[row[tables.head.id]]) for row in read_table(folder, tables.head, number, only)]
    if parts and tables.parts is not None and any(len(found) != row[tables.count] for row, found in records):
        path = shard_path(folder, tables.parts, number)
        raise Damaged(path, f"lacks some of the {tables.parts.name} of its {tables.head.name}")
    return records


def read_table(folder: Path, table: Table, number: int, only: Collection[str] | None = None) -> list[Row]:
    """The rows of one table of a shard, or those of some records: making Python objects of rows is what takes time."""
    path = shard_path(folder, table, number)
    with open_parquet(path) as file:
        if odd := _odd_columns(file.schema_arrow, table):
            raise Damaged(path, f"is damaged (in its columns: {', '.join(odd)})")
        found = file.read(use_threads=False)
        if only is not None:
            wanted = [index for index, id in enumerate(found[table.id].to_pylist()) if id in only]
            found = found.take(arrow().array(wanted, "int64"))
        return list(found.to_pylist())


def _odd_columns(found: pyarrow.Schema, table: Table) -> list[str]:
    """Parquet's checksums do not cover names and types of columns. A column may be missing (an older version wrote the
    shard) or be unknown (a newer one did), but not both: that is a damaged name."""
    wanted = table.schema()
    unknown, missing = set(found.names) - set(wanted.names), set(wanted.names) - set(found.names)
    odd = {name for name in found.names if name in wanted.names and found.field(name).type != wanted.field(name).type}
    if (unknown and missing) or table.id in missing:
        odd |= unknown | missing
    return sorted(odd)


# --------------------------------------------------------------------------------------------------------------- files


def write_rows(path: Path, rows: list[Row], schema: pyarrow.Schema, **options: Any) -> None:
    """A Parquet file, durable when this returns. Its pages carry checksums, which `open_parquet` has checked: without
    them a flipped bit in a number goes unseen."""
    pa = arrow()
    out = io.BytesIO()
    pa.parquet.write_table(
        pa.Table.from_pylist(rows, schema), out, compression="zstd", write_page_checksum=True, **options
    )
    make_folder(path.parent)
    replace_file(path, out.getvalue(), durable=True)


@contextmanager
def open_parquet(path: Path) -> Iterator[Any]:
    """A `pyarrow.parquet.ParquetFile`. That it is missing, or damaged where it is read, is one sentence: `Damaged`.

    From memory and with `use_threads=False` pyarrow starts no threads. Shards are small, and a process that ends just
    after those threads have started is aborted now and then."""
    pa = arrow()
    try:
        yield pa.parquet.ParquetFile(pa.BufferReader(read_file(path)), page_checksum_verification=True)
    except FileNotFoundError:
        raise Damaged(path, "is missing") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Damaged(path, f"is damaged ({_first_line(error)})") from error


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")[:200]
