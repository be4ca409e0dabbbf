"""Which weight files a checkpoint folder should have, and which tensors its index places in each."""

from __future__ import annotations

import re
from pathlib import Path

from holotron.errors import CheckpointError, ConfigError
from holotron.model.hf_json import read_json

INDEX = "model.safetensors.index.json"


def weight_map(folder: Path) -> dict[str, str] | None:
    """The name of the file for every tensor, as the index has it; None without an index."""
    index = folder / INDEX
    if not index.exists():
        return None
    try:
        placed = read_json(index).get("weight_map")
    except ConfigError as error:
        raise CheckpointError(f"{error}; the index was cut off or is not one: download it again") from error
    if not isinstance(placed, dict) or not placed:
        found = "none" if placed == {} else type(placed).__name__
        raise CheckpointError(
            f"{index} is not a weight index: weight_map: expected an object of file names, found {found}"
        )
    for key, name in placed.items():
        if not isinstance(name, str) or Path(name).name != name or not name.endswith(".safetensors"):
            raise CheckpointError(
                f"{index}: weight_map: {key}: expected the name of a .safetensors file beside it, found {name!r}"
            )
    return placed


def shard_files(folder: Path) -> list[Path]:
    """All files that belong together, whether they are there or not: those that the index names; without an index those
    that the numbering of the ones that are there implies (`model-00002-of-00004.safetensors`)."""
    placed = weight_map(folder)
    if placed is not None:
        return [folder / name for name in sorted(set(placed.values()))]
    names = {file.name for file in folder.glob("*.safetensors")}
    if all(name.startswith("adapter_model") for name in names):
        return []  # of an adapter, which is no model
    for name in tuple(names):
        if found := re.fullmatch(r"(.*-)(\d+)(-of-)(\d+)(\.safetensors)", name):
            start, _, of, count, end = found.groups()
            names |= {f"{start}{n:0{len(count)}d}{of}{count}{end}" for n in range(1, int(count) + 1)}
    return [folder / name for name in sorted(names)]
