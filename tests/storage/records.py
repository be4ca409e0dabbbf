"""Records to store in tests: a row with a few parts each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holotron.storage.store import ShardedStore
from holotron.storage.tables import Row, Table, Tables, arrow


def _heads() -> Any:
    pa = arrow()
    return pa.schema({"id": pa.string(), "text": pa.string(), "size": pa.int64()})


def _parts() -> Any:
    pa = arrow()
    return pa.schema({"of": pa.string(), "index": pa.int64(), "text": pa.string()})


TABLES = Tables(1, Table("heads", _heads), Table("parts", _parts, id="of"), count="size")
PLAIN = Tables(1, Table("heads", _heads))  # without parts
MANIFEST = {"kind": "test", "config": {"name": "a"}}


def record(number: int, parts: int = 3, text: str = "") -> tuple[Row, list[Row]]:
    id = f"r{number}"
    head = {"id": id, "text": text or f"record {number}", "size": parts}
    return head, [{"of": id, "index": index, "text": f"{id} part {index}"} for index in range(parts)]


def open_store(folder: Path, shard_records: int = 2, **options: Any) -> ShardedStore[str]:
    def text(row: Row) -> str:
        return str(row["text"])

    return ShardedStore(folder, TABLES, MANIFEST, shard_records=shard_records, summary=text, **options)


def fill(folder: Path, records: int, shard_records: int = 2) -> Path:
    with open_store(folder, shard_records) as store:
        for number in range(records):
            store.append(*record(number))
    return folder
