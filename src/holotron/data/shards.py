"""Pages on disk: Parquet shards, readable by any Arrow tool, by `datasets`, and by `iter_pages`.

    for page in iter_pages(Path("data/synth")):
        page.image, page.text.boxes, page.samples

One row is one screenshot, with its image (lossless WebP), labels and samples. The steps of an episode are neighbouring
rows. A shard is written beside its place and moved into it, so it is whole or absent. This module needs pyarrow and
Pillow, no browser.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from holotron.data.labels import Element, Page, Sample, Text, elements_from_json, elements_to_json
from holotron.errors import InputError
from holotron.storage import shards
from holotron.storage.files import exists
from holotron.storage.tables import Record, Row, Table, Tables, arrow

if TYPE_CHECKING:
    import pyarrow

FORMAT = 1
FOLDER = "pages"
_STORED = ("kind", "by", "instruction", "box", "answer", "point")  # of a sample


def schema() -> pyarrow.Schema:
    pa = arrow()
    text, whole, real = pa.string(), pa.int32(), pa.float32()
    sample = pa.struct({
        "kind": text, "by": text, "instruction": text, "box": pa.list_(real), "answer": text, "point": pa.list_(real),
    })  # fmt: skip
    return pa.schema({
        "id": text, "image": pa.binary(), "width": whole, "height": whole, "scale": real, "elements": text,
        "characters": text, "boxes": pa.list_(real), "lines": pa.list_(whole), "origin": text, "goal": text,
        "step": whole, "steps": whole, "action": text, "samples": pa.list_(sample),
    })  # fmt: skip


TABLES = Tables(FORMAT, Table(FOLDER, schema))


# ------------------------------------------------------------------------------------------------------------- writing


def make_row(
    *,
    id: str,
    image: bytes,  # lossless WebP
    size: tuple[int, int],  # of the image, pixels
    scale: float,
    elements: Iterable[Element],
    text: Text,
    origin: Mapping[str, Any],
    goal: str = "",
    step: int = 0,
    steps: int = 0,
    action: Mapping[str, Any] | None = None,
    samples: Iterable[Sample] = (),
) -> Row:
    return {
        "id": id,
        "image": image,
        "width": size[0],
        "height": size[1],
        "scale": scale,
        "elements": elements_to_json(elements),
        "characters": text.characters,
        "boxes": text.boxes.ravel(),
        "lines": text.lines.ravel(),
        "origin": json.dumps(origin, ensure_ascii=False),
        "goal": goal,
        "step": step,
        "steps": steps,
        "action": json.dumps(action, ensure_ascii=False) if action is not None else "",
        "samples": [{name: getattr(sample, name) for name in _STORED} for sample in samples],
    }


def to_row(page: Page) -> Row:
    height, width = page.image.shape[:2]
    return make_row(
        id=page.id,
        image=encode(Image.fromarray(page.image)),
        size=(width, height),
        scale=page.scale,
        elements=page.elements,
        text=page.text,
        origin=page.origin,
        goal=page.goal,
        step=page.step,
        steps=page.steps,
        action=page.action,
        samples=page.samples,
    )


def encode(image: Image.Image) -> bytes:
    """Lossless WebP. On screenshots, more effort than this costs ten times the time for one percent of the size."""
    out = io.BytesIO()
    image.convert("RGB").save(out, "WEBP", lossless=True, method=1, quality=60)
    return out.getvalue()


def write_shard(folder: Path, number: int, rows: list[Row], pages: int) -> None:
    """`pages` is how many pages the rows show; a later, longer run knows by it that a short last shard must grow."""
    described = schema().with_metadata({"holotron.pages": str(pages)})
    path = shards.shard_path(folder, TABLES.head, number)
    shards.write_rows(path, rows, described, use_dictionary=False, row_group_size=256)


def pages_in_shard(folder: Path, number: int) -> int:
    """How many pages a shard shows; 0 when it is not there."""
    path = shards.shard_path(folder, TABLES.head, number)
    if not exists(path):
        return 0
    with shards.open_parquet(path) as file:
        return int(file.schema_arrow.metadata[b"holotron.pages"])


# ------------------------------------------------------------------------------------------------------------- reading


def shard_files(path: Path) -> list[Path]:
    """The shards of a folder made by `holotron data`, or the one file that was named."""
    if path.is_file():
        return [path]
    files = sorted((path / FOLDER).glob("*.parquet"))
    if not files:
        raise InputError(f"{path} holds no pages: there is no {FOLDER}/*.parquet in it")
    return files


def iter_rows(path: Path, columns: list[str] | None = None) -> Iterator[Row]:
    """Rows as plain dictionaries, in order, a few at a time."""
    for path_of_shard in shard_files(path):
        with shards.open_parquet(path_of_shard) as file:
            for batch in file.iter_batches(64, columns=columns, use_threads=False):
                yield from batch.to_pylist()


def load_table(path: Path) -> pyarrow.Table:
    """All pages in memory as they are stored, their images compressed."""
    tables = []
    for path_of_shard in shard_files(path):
        with shards.open_parquet(path_of_shard) as file:
            tables.append(file.read(use_threads=False))
    return arrow().concat_tables(tables)


def iter_pages(path: Path) -> Iterator[Page]:
    """Every page, in order, with its image decoded."""
    return map(from_row, iter_rows(path))


def from_row(row: Row) -> Page:
    lines = np.asarray(row["lines"], np.int32).reshape(-1, 3)
    return Page(
        id=row["id"],
        image=decode(row["image"]),
        scale=row["scale"],
        elements=elements_from_json(row["elements"]),
        text=Text(row["characters"], np.asarray(row["boxes"], np.float32).reshape(-1, 4), lines),
        origin=json.loads(row["origin"]),
        goal=row["goal"],
        step=row["step"],
        steps=row["steps"],
        action=json.loads(row["action"]) if row["action"] else None,
        samples=tuple(_sample(sample) for sample in row["samples"]),
    )


def image_check(record: Record) -> Iterator[tuple[str, str]]:
    """For `verify`: the screenshot can be decoded."""
    try:
        decode(record[0]["image"])
    except (OSError, ValueError) as error:
        yield "", f"its screenshot cannot be decoded: {error}"


def decode(image: bytes) -> np.ndarray:
    """uint8 [height, width, 3]."""
    return np.array(Image.open(io.BytesIO(image)).convert("RGB"))


def _sample(row: Row) -> Sample:
    box, point = row["box"], row["point"]
    return Sample(**{**row, "box": tuple(box) if box else None, "point": tuple(point) if point else None})


def content_hash(path: Path) -> str:
    """SHA-256 over what the pages show and say: pixels, labels, samples. How they are compressed does not matter."""
    digest = hashlib.sha256()
    for row in iter_rows(path):
        image = decode(row.pop("image"))
        digest.update(image.tobytes())
        digest.update(json.dumps(row, sort_keys=True, ensure_ascii=False).encode())
    return digest.hexdigest()
