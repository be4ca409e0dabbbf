"""What the files of a checkpoint hold, from their headers alone: names, shapes, kinds of numbers, places.

    headers = read_headers(folder)
    headers["lm_head.weight"].shape, headers["lm_head.weight"].file

A safetensors file is the length of its header (8 bytes), the header (JSON), then the data. A header says where every
tensor lies, so a file that was cut off, or whose header lies, is known before any data is read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

from holotron.errors import CheckpointError
from holotron.model.formats import LFS_POINTER, is_lfs_pointer, other_form
from holotron.model.weights.shards import INDEX, shard_files, weight_map

# Numbers as safetensors calls them.
DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn, "I8": torch.int8, "U8": torch.uint8,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "BOOL": torch.bool,
}  # fmt: skip

_LISTED = 12  # names shown in one error
_LARGEST_HEADER = 100_000_000  # bytes, as the format has it


class Header(NamedTuple):
    shape: tuple[int, ...]
    kind: str  # of number, one of `DTYPES` or something newer
    file: Path
    start: int = 0  # of its data in the file, in bytes
    stop: int = 0
    # It lies turned over, as some columns of a wider matrix: the first of them, and how many that matrix has.
    turned: tuple[int, int] | None = None

    @property
    def dtype(self) -> torch.dtype:
        return DTYPES[self.kind]


def read_headers(folder: Path) -> dict[str, Header]:
    """Every tensor of the checkpoint in `folder`, by name. One error says which file is missing, cut off or at odds
    with the index."""
    files = shard_files(folder)
    if not files:
        form = other_form(folder)
        raise CheckpointError(f"{folder} holds no .safetensors file{f': {form}' if form else ''}")
    placed = weight_map(folder)
    if missing := [file for file in files if not file.exists()]:
        raise CheckpointError(_lacking(folder, missing, len(files), placed))
    headers: dict[str, Header] = {}
    for file in files:
        for key, header in file_headers(file).items():
            if key in headers:
                raise CheckpointError(f"{key} is in both {headers[key].file} and {file.name}")
            headers[key] = header
    for key, name in (placed or {}).items():
        if key not in headers:
            raise CheckpointError(
                f"{folder / INDEX} places {key} in {name}, which does not hold it (expected {key}, found "
                f"{sum(header.file.name == name for header in headers.values())} other tensors); the index and the "
                "files are of different checkpoints, or the file was cut off: download both again"
            )
    return headers


def _lacking(folder: Path, missing: list[Path], expected: int, placed: Mapping[str, str] | None) -> str:
    names = ", ".join(file.name for file in missing[:_LISTED]) + (" ..." if len(missing) > _LISTED else "")
    keys = [key for key, name in (placed or {}).items() if name == missing[0].name]
    held = f" ({missing[0].name} should hold {keys[0]} and {len(keys) - 1} others)" if keys else ""
    return (
        f"{folder} lacks {names}{held}: expected {expected} files that belong together, found "
        f"{expected - len(missing)}; the download is incomplete"
    )


def file_headers(file: Path) -> dict[str, Header]:
    """The tensors of one file."""

    def broken(what: str) -> CheckpointError:
        return CheckpointError(f"{file} is not a complete safetensors file: {what}; download it again")

    if is_lfs_pointer(file):
        raise CheckpointError(f"{file}: {LFS_POINTER}")
    try:
        size = file.stat().st_size
        with file.open("rb") as opened:
            length = int.from_bytes(opened.read(8), "little")
            if size < 8 or length > min(_LARGEST_HEADER, size - 8):
                raise broken(f"expected a header of {length:,} bytes, found a file of {size:,}")
            text = opened.read(length)
    except OSError as error:
        raise CheckpointError(f"cannot read {file}: {error.strerror or error}") from error
    try:
        described = json.loads(text)
        entries = {key: value for key, value in described.items() if key != "__metadata__"}
        headers = {key: _header(value, file, 8 + length) for key, value in entries.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise broken(f"its header cannot be read ({error})") from error
    end = max((header.stop for header in headers.values()), default=8 + length)
    if end != size:
        last = max(headers, key=lambda key: headers[key].stop) if headers else "the header"
        raise broken(f"{last} ends at byte {end:,}, found {size:,} bytes")
    for key, header in headers.items():
        dtype = DTYPES.get(header.kind)
        if dtype is not None and math.prod(header.shape) * dtype.itemsize != header.stop - header.start:
            raise broken(
                f"{key} is {header.kind} {list(header.shape)}, expected {math.prod(header.shape) * dtype.itemsize:,} "
                f"bytes, found {header.stop - header.start:,}"
            )
    return headers


def _header(entry: Mapping[str, Any], file: Path, data: int) -> Header:
    start, stop = (int(offset) for offset in entry["data_offsets"])
    shape = tuple(int(size) for size in entry["shape"])
    if not 0 <= start <= stop or any(size < 0 for size in shape):
        raise ValueError(f"impossible sizes {list(shape)}, offsets {start} to {stop}")
    return Header(shape, str(entry["dtype"]), file, data + start, data + stop)
