"""Which weight files a checkpoint folder should have."""

from __future__ import annotations

import json
import re
from pathlib import Path

from holotron.errors import CheckpointError

INDEX = "model.safetensors.index.json"


def shard_files(folder: Path) -> list[Path]:
    """All files that belong together, whether they are there or not: those that the index names; without an index those
    that the numbering of the ones that are there implies (`model-00002-of-00004.safetensors`)."""
    index = folder / INDEX
    if index.exists():
        try:
            return [folder / name for name in sorted(set(json.loads(index.read_text())["weight_map"].values()))]
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise CheckpointError(f"{index} is not a weight index: {error}") from error
    names = {file.name for file in folder.glob("*.safetensors")}
    for name in tuple(names):
        if found := re.fullmatch(r"(.*-)(\d+)(-of-)(\d+)(\.safetensors)", name):
            start, _, of, count, end = found.groups()
            names |= {f"{start}{n:0{len(count)}d}{of}{count}{end}" for n in range(1, int(count) + 1)}
    return [folder / name for name in sorted(names)]
