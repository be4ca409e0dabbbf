"""Labels on disk: Parquet that any Arrow tool reads, and a journal that a kill -9 cannot tear.

    labels/
      manifest.json              what was asked, of whom
      labels/000000.parquet      one row a label             select * from 'labels/labels/*.parquet'
      journal/000001.jsonl       labels not yet in a shard (gone when the run is closed)
      broken.json                pictures that could not be read, with the reason
      review.html                to look at them

A label is on record when `add` returns. Journal and manifest are those of the trajectory store.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from holotron.annotate.agreement import Value
from holotron.annotate.items import Item
from holotron.data.shards import arrow
from holotron.errors import InputError
from holotron.rollouts.journal import Segment, read_segment, segment_path, segments
from holotron.rollouts.store import agree, lock_folder
from holotron.storage.files import replace_file, replace_json, sweep_temporaries

FOLDER = "labels"
BROKEN = "broken.json"
Row = dict[str, Any]


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


class LabelWriter:
    """Creates a folder of labels, or takes up one that was interrupted."""

    def __init__(self, folder: Path, config: Mapping[str, Any], *, shard_rows: int = 512) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._shard_rows = shard_rows
        self._lock = lock_folder(folder)
        try:
            agree(folder, {"kind": "annotate", "config": dict(config)})
            (folder / FOLDER).mkdir(exist_ok=True)
            sweep_temporaries(folder / FOLDER)
            self._recover()
            self.done = {row["id"] for row in iter_labels(folder, ["id"])}
        except BaseException:
            self._lock.close()
            raise
        self._segment: Segment | None = None

    def add(self, row: Row) -> None:
        if row["id"] in self.done:
            raise InputError(f"{row['id']} is already labelled in {self.folder}")
        if self._segment is None:
            self._segment = Segment(self.folder, self._next_number())
        self._segment.append(row, [])
        self.done.add(row["id"])
        if len(self._segment.episodes) >= self._shard_rows:
            self._flush()

    def broken(self, found: Mapping[str, str]) -> None:
        replace_json(self.folder / BROKEN, dict(found))

    def close(self) -> None:
        self._flush()
        self._lock.close()

    def __enter__(self) -> LabelWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _flush(self) -> None:
        segment, self._segment = self._segment, None
        if segment is not None:
            segment.close()
            self._commit(segment.number, [row for row, _ in segment.episodes])

    def _commit(self, number: int, rows: list[Row]) -> None:
        if rows:
            pa = arrow()
            out = io.BytesIO()
            pa.parquet.write_table(pa.Table.from_pylist(rows, schema()), out, compression="zstd")
            replace_file(_shard(self.folder, number), out.getvalue(), durable=True)
        segment_path(self.folder, number).unlink()

    def _recover(self) -> None:
        for number in segments(self.folder):
            if _shard(self.folder, number).exists():  # killed between moving the shard in and removing the segment
                segment_path(self.folder, number).unlink()
            else:
                self._commit(number, [row for row, _ in read_segment(self.folder, number)])

    def _next_number(self) -> int:
        there = [int(path.stem) for path in (self.folder / FOLDER).glob("*.parquet")]
        return max([-1, *there, *segments(self.folder)]) + 1


def _shard(folder: Path, number: int) -> Path:
    return folder / FOLDER / f"{number:06d}.parquet"


def iter_labels(folder: Path, columns: list[str] | None = None) -> Iterator[Row]:
    """Rows of a folder that `holotron data annotate` made, in the order they were made."""
    if not (folder / FOLDER).is_dir():
        raise InputError(f"{folder} holds no labels: there is no folder {FOLDER}/ in it")
    for path in sorted((folder / FOLDER).glob("*.parquet")):
        yield from arrow().parquet.read_table(path, columns=columns).to_pylist()


def read_broken(folder: Path) -> dict[str, str]:
    try:
        return dict(json.loads((folder / BROKEN).read_text()))
    except FileNotFoundError:
        return {}
