"""The published files, row by row. A row that is not what it should be is an error that names file and row.

Which of these formats were read with real rows, and which from public descriptions only, is in docs/grounding.md.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from PIL import ExifTags, Image

from holotron.errors import InputError, MissingDependency
from holotron.suites.grounding.items import GroundingItem, Notation, Nothing, Target, box, numbers_of, polygon
from holotron.suites.navigation.files import object_of, text_content, whole_text
from holotron.suites.navigation.files import rows_of as published_rows

Row = Mapping[str, Any]


# ----------------------------------------------------------------------------------------------------- the benchmarks


def screenspot(folder: Path, *, suffix: str) -> Iterator[GroundingItem]:
    """ScreenSpot and ScreenSpot-v2: `screenspot_{desktop,mobile,web}{_v2}.json`, boxes as left, top, width, height."""
    for platform in ("desktop", "mobile", "web"):
        file = find(folder, f"screenspot_{platform}{suffix}.json")
        for number, row, where in rows_of(file):
            picture = picture_of(folder, row, "img_filename", where)
            tags = {"platform": platform, "ui_type": one_of(row, "data_type", ("text", "icon"), where)}
            if "data_source" in row:
                tags["source"] = str(row["data_source"])
            yield from_file(f"{platform}-{number}", row, where, picture, "xywh", tags)


def screenspot_pro(folder: Path) -> Iterator[GroundingItem]:
    """ScreenSpot-Pro: `annotations/*.json`, boxes as left, top, right, bottom, with the picture's size in the row."""
    files = sorted((folder / "annotations").glob("*.json"))
    if not files:
        raise InputError(f"{folder} has no annotations/*.json, which ScreenSpot-Pro consists of")
    for file in files:
        for number, row, where in rows_of(file):
            size = size_of(row, "img_size", where)
            tags = {key: text(row, key, where) for key in ("group", "platform", "application")}
            tags["ui_type"] = one_of(row, "ui_type", ("text", "icon"), where)
            yield GroundingItem(
                str(row.get("id", f"{file.stem}-{number}")),
                text(row, "instruction", where),
                size,
                box(row.get("bbox"), "xyxy", size, where),
                reader(folder / "images" / slashed(text(row, "img_filename", where)), where),
                tags,
            )


def osworld_g(folder: Path, *, refined: bool = False) -> Iterator[GroundingItem]:
    """OSWorld-G: boxes (left, top, width, height), polygons (flat list of corners) and refusals (nothing to click)."""
    file = find(folder, "OSWorld-G_refined.json" if refined else "OSWorld-G.json")
    buckets = _buckets(folder)
    for _, row, where in rows_of(file):
        size = size_of(row, "image_size", where)
        values, kinds = row.get("box_coordinates"), row.get("GUI_types") or []
        if not isinstance(kinds, list) or not all(isinstance(kind, str) for kind in kinds):
            raise InputError(f"{where}: GUI_types is a list of names, found {kinds!r}"[:300])
        match one_of(row, "box_type", ("bbox", "polygon", "refusal"), where):
            case "bbox":
                target: Target = box(values, "xywh", size, where)
            case "polygon":
                target = polygon(values, size, where)
            case _:
                if numbers_of(values) is None:
                    raise InputError(f"{where}: box_coordinates is a list of numbers, found {values!r}"[:300])
                target = Nothing()
        tags = {"box_type": str(row["box_type"])}
        tags |= {f"bucket:{name}": "yes" for name, own in buckets.items() if set(kinds) & set(own)}
        read = reader(picture_of(folder, row, "image_path", where), where)
        yield GroundingItem(text(row, "id", where), text(row, "instruction", where), size, target, read, tags)


def webclick(folder: Path) -> Iterator[GroundingItem]:
    """WebClick: Parquet with pictures inside, boxes as shares of the picture."""
    yield from parquet_items(folder, "unit", {"bucket": "bucket"})


def groundui(folder: Path) -> Iterator[GroundingItem]:
    """GroundUI-1K: Parquet with pictures inside, boxes as left, top, right, bottom."""
    yield from parquet_items(folder, "xyxy", {"platform": "platform", "source": "source"})


def showdown(folder: Path) -> Iterator[GroundingItem]:
    """Showdown-clicks: `data.csv` with x1, y1, x2, y2 in pixels, pictures beside it."""
    file = find(folder, "data.csv")
    for number, row in enumerate(csv.DictReader(io.StringIO(text_content(file), newline="")), start=1):
        where = f"{file}, row {number}"
        try:
            size = (int(row["width"]), int(row["height"]))
            corners = [float(row[key]) for key in ("x1", "y1", "x2", "y2")]
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{where}: x1, y1, x2, y2, width and height must be numbers ({error})") from None
        read = reader(picture_of(folder, row, "image", where), where)
        target = box(corners, "xyxy", size, where)
        yield GroundingItem(str(row.get("id") or number), text(row, "instruction", where), size, target, read)


# ------------------------------------------------------------------------------------------------------------- reading


def rows_of(file: Path) -> Iterator[tuple[int, Row, str]]:
    for number, (row, where) in enumerate(published_rows(file), start=1):
        yield number, row, where


def parquet_items(folder: Path, notation: Notation, tags: Mapping[str, str]) -> Iterator[GroundingItem]:
    """`tags`: what a tag is called here -> its column, where there is one."""
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ModuleNotFoundError:
        raise MissingDependency.extra("pyarrow", "agent") from None
    files = [path for paths in _index(folder).values() for path in paths if path.suffix == ".parquet"]
    if not files:
        raise MissingFile(f"{folder} holds no Parquet files")
    for file in sorted(files):
        number = 0
        try:
            for batch in parquet.ParquetFile(file).iter_batches(batch_size=32):
                for row in batch.to_pylist():
                    number += 1
                    yield _parquet_item(f"{file.stem}-{number}", row, f"{file}, row {number}", notation, tags)
        except (pyarrow.ArrowException, OSError) as error:
            raise InputError(f"{file}, after row {number}: {error}") from None


def _parquet_item(id: str, row: Row, where: str, notation: Notation, tags: Mapping[str, str]) -> GroundingItem:
    stored = row.get("image")
    data = stored.get("bytes") if isinstance(stored, Mapping) else stored
    if not isinstance(data, bytes):
        raise InputError(f"{where}: image holds no bytes")
    size = _measured(io.BytesIO(data), where)
    target = box(row.get("bbox"), notation, size, where)
    kept = {name: str(row[column]) for name, column in tags.items() if row.get(column) is not None}
    return GroundingItem(id, text(row, "instruction", where), size, target, lambda: data, kept)


def from_file(
    id: str, row: Row, where: str, picture: Path, notation: Notation, tags: Mapping[str, str]
) -> GroundingItem:
    """An item whose row does not say how large its picture is."""
    size = _measured(picture, where)
    target = box(row.get("bbox"), notation, size, where)
    return GroundingItem(id, text(row, "instruction", where), size, target, picture.read_bytes, tags)


def reader(picture: Path, where: str) -> Callable[[], bytes]:
    _measured(picture, where)
    return picture.read_bytes


def picture_of(folder: Path, row: Row, key: str, where: str) -> Path:
    try:
        return find(folder, text(row, key, where))
    except InputError as error:
        raise InputError(str(error) if str(error).startswith(where) else f"{where}: {error}") from None


class MissingFile(InputError):
    """The benchmark's folder does not hold what its publishers put there."""


def find(folder: Path, name: str) -> Path:
    """A file of the benchmark, wherever below the folder it was unpacked."""
    name = slashed(name)
    if (folder / name).is_file():
        return folder / name
    found = _index(folder).get(Path(name).name, [])
    ending = [path for path in found if path.as_posix().endswith(f"/{name}")]
    if len(ending or found) > 1:
        raise InputError(f"{folder} has several files {name}: {', '.join(map(str, (ending or found)[:2]))}")
    if not found:
        packed = sorted(path.name for path in folder.iterdir() if path.suffix in (".zip", ".tar", ".gz", ".tgz"))
        raise MissingFile(f"{folder} has no file {name}" + (f"; unpack {packed[0]} there" if packed else ""))
    return (ending or found)[0]


def slashed(name: str) -> str:
    """Some files were written on Windows."""
    return name.replace("\\", "/")


@lru_cache(maxsize=8)
def _index(folder: Path) -> dict[str, list[Path]]:
    """All files by name, but for what tools leave beside them: hidden folders, and copies that macOS packs along."""
    index: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder).parts
        if path.is_file() and not any(part.startswith(".") or part == "__MACOSX" for part in inside):
            index.setdefault(path.name, []).append(path)
    return index


def text(row: Row, key: str, where: str) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{where}: {key} is missing or empty")
    return whole_text(value, f"{where}: {key}")


def one_of(row: Row, key: str, known: Sequence[str], where: str) -> str:
    if row.get(key) not in known:
        raise InputError(f"{where}: {key} must be one of {', '.join(known)}, found {row.get(key)!r}")
    return str(row[key])


def size_of(row: Row, key: str, where: str) -> tuple[int, int]:
    value = row.get(key)
    if not isinstance(value, Sequence) or len(value) != 2 or not all(type(v) is int and v > 0 for v in value):
        raise InputError(f"{where}: {key} is [width, height], found {value!r}")
    return value[0], value[1]


def _buckets(folder: Path) -> dict[str, list[str]]:
    """Which kinds of elements the publication counts as what."""
    try:
        file = find(folder, "buckets.json")
    except InputError:
        return {}
    buckets: dict[str, list[str]] = {}
    for name, kinds in object_of(file).items():
        if not isinstance(kinds, list):
            raise InputError(f"{file}: {name} is a list of kinds of elements, found {kinds!r}"[:300])
        buckets[name] = [str(kind) for kind in kinds]
    return buckets


def _measured(picture: Path | io.BytesIO, where: str) -> tuple[int, int]:
    try:
        with Image.open(picture) as opened:
            return (opened.height, opened.width) if orientation(opened) >= 5 else opened.size
    except FileNotFoundError:
        raise InputError(f"{where}: its picture {picture} is not there") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{where}: its picture cannot be read: {error}") from None


def orientation(picture: Image.Image) -> int:
    """How a picture is meant that is stored turned or mirrored, as cameras note it: 1 as it is, from 5 on it lies on
    its side. Models are shown it as meant."""
    if "exif" not in picture.info:  # to ask a PNG for more would decode it
        return 1
    return int(picture.getexif().get(ExifTags.Base.Orientation, 1))
