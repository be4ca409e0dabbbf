"""Experts that a checkpoint holds all in one tensor, read and written as if they were single files' entries.

Two kinds of files: `experts.gate_up_proj` [E, 2 * width, hidden] and `experts.down_proj` [E, hidden, width] as
transformers keeps them in memory ("stacked"), or every matrix turned over, as Qwen3-VL is published ("transposed").
Which of the two a file holds is seen by its shape. Everybody else knows experts one by one (`names.Entry`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import safe_open
from torch import Tensor

from holotron.errors import CheckpointError
from holotron.model.config import ModelConfig
from holotron.model.families import family_of
from holotron.model.model import Holotron

_GATE_UP, _DOWN = ".experts.gate_up_proj", ".experts.down_proj"


class Slice(NamedTuple):
    """One expert's matrix inside a tensor of all."""

    key: str  # of that tensor
    expert: int
    rows: slice  # of the matrix, before it is turned over
    transposed: bool


class Header(NamedTuple):
    """What there is to know of a tensor without reading any data."""

    shape: tuple[int, ...]
    kind: str  # of number, as safetensors calls it
    file: Path
    inside: Slice | None = None


def unfused(headers: Mapping[str, Header], config: ModelConfig) -> dict[str, Header]:
    """The same, with every expert by itself."""
    moe = config.decoder.moe
    result: dict[str, Header] = {}
    for key, header in headers.items():
        stem = key.removesuffix(_GATE_UP).removesuffix(_DOWN)
        if moe is None or stem == key:
            result[key] = header
            continue
        outer = moe.latent or config.decoder.hidden
        rows, columns = (2 * moe.width, outer) if key.endswith(_GATE_UP) else (outer, moe.width)
        if header.shape not in ((moe.experts, rows, columns), (moe.experts, columns, rows)):
            raise CheckpointError(
                f"{header.file}: {key} has shape {list(header.shape)}, expected {[moe.experts, rows, columns]} or "
                f"{[moe.experts, columns, rows]}"
            )
        transposed = header.shape != (moe.experts, rows, columns)
        names = ("gate_proj", "up_proj") if key.endswith(_GATE_UP) else ("down_proj",)
        count = rows // len(names)
        for j in range(moe.experts):
            for n, name in enumerate(names):
                inside = Slice(key, j, slice(n * count, (n + 1) * count), transposed)
                result[f"{stem}.experts.{j}.{name}.weight"] = Header((count, columns), header.kind, header.file, inside)
    return result


def read(shard: safe_open, key: str, header: Header) -> Tensor:
    """One tensor of a file, or one expert's matrix of such a tensor: no more of it is read."""
    if header.inside is None:
        return shard.get_tensor(key)
    where = header.inside
    piece = shard.get_slice(where.key)
    return piece[where.expert, :, where.rows].T if where.transposed else piece[where.expert, where.rows]


def fused(model: Holotron, parameter: str) -> Iterator[tuple[str, Tensor]]:
    """What a checkpoint of a family that fuses its experts holds in the place of one of their stacks. Gates and inner
    projections are one tensor there, which stands in the place of the latter."""
    family, state = family_of(model.config), dict(model.named_parameters())
    stem, _, name = parameter.rpartition(".")
    if name == "gate_proj":
        return
    tensor = state[parameter].detach()
    if name == "up_proj":
        tensor = torch.cat([state[f"{stem}.gate_proj"].detach(), tensor], dim=1)
    key = family.tensor_key(f"{stem}.{'gate_up_proj' if name == 'up_proj' else name}")
    # A square matrix does not show how it lies: transformers takes it as it is, and so does `unfused`.
    turned = family.fused_experts == "transposed" and tensor.shape[1] != tensor.shape[2]
    yield key, tensor.transpose(1, 2) if turned else tensor
