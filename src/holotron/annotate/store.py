"""Labels on disk: Parquet that any Arrow tool reads, and a journal that a kill -9 cannot tear.

    labels/
      manifest.json              what was asked, of whom
      labels/000000.parquet      one row a label             select * from 'labels/labels/*.parquet'
      journal/000001.jsonl       labels not yet in a shard (gone when the run is closed)
      broken.json                pictures that could not be read, with the reason
      review.html                to look at them

A label is on record when `add` returns. Journal, shards and manifest are those of `holotron.storage`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from holotron.annotate.agreement import Value
from holotron.annotate.items import Item
from holotron.errors import InputError
from holotron.storage.files import exists, read_file, replace_json
from holotron.storage.store import ShardedStore, read_records
from holotron.storage.tables import Row, Table, Tables, arrow

FOLDER = "labels"
BROKEN = "broken.json"


def schema() -> Any:
    pa = arrow()
    text, real = pa.string(), pa.float64()
    return pa.schema({
        "id": text, "kind": text, "images": pa.list_(text), "instruction": text, "context": pa.list_(text),
        "width": pa.int32(), "height": pa.int32(),  # what points and boxes refer to: CSS pixels
        "point": pa.list_(real), "box": pa.list_(real), "text": text, "success": pa.bool_(),
        "confidence": real,  # null: asked once, of one model
        "remark": text, "answers": text, "model": text, "second": text, "seconds": real, "tokens": pa.int64(),
    })  # fmt: skip


def make_row(item: Item, viewport: tuple[int, int], label: Value | None, **more: Any) -> Row:
    row: Row = dict.fromkeys(schema().names)
    row |= {"id": item.id, "kind": item.kind, "images": [str(path) for path in item.images]}
    row |= {"instruction": item.instruction, "context": list(item.context)}
    row |= {"width": viewport[0], "height": viewport[1], **more}
    if isinstance(label, tuple):
        row["point" if len(label) == 2 else "box"] = list(label)
    elif label is not None:
        row["success" if isinstance(label, bool) else "text"] = label  # text: a caption, or that it is not there
    return row


TABLES = Tables(1, Table(FOLDER, schema))


class LabelWriter:
    """Creates a folder of labels, or takes up one that was interrupted."""

    def __init__(self, folder: Path, config: Mapping[str, Any], *, shard_rows: int = 512) -> None:
        self.folder = folder
        manifest = {"kind": "annotate", "config": dict(config)}
        self._store = ShardedStore(folder, TABLES, manifest, shard_records=shard_rows, summary=lambda row: None)

    @property
    def done(self) -> Mapping[str, None]:
        """What is labelled already, by id."""
        return self._store.finished

    def add(self, row: Row) -> None:
        self._store.append(row)

    def broken(self, found: Mapping[str, str]) -> None:
        replace_json(self.folder / BROKEN, dict(found))

    def close(self) -> None:
        self._store.close()

    def __enter__(self) -> LabelWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def iter_labels(folder: Path) -> Iterator[Row]:
    """Rows of a folder that `holotron data annotate` made, in the order they were made."""
    if not exists(folder / FOLDER):
        raise InputError(f"{folder} holds no labels: there is no folder {FOLDER}/ in it")
    return (row for row, _ in read_records(folder, TABLES))


def read_broken(folder: Path) -> dict[str, str]:
    try:
        return dict(json.loads(read_file(folder / BROKEN)))
    except FileNotFoundError:
        return {}
