"""Save in the published layout, so that every other tool can read the result.

All files are written beside their final names and moved into place at the end: a save that is interrupted leaves the
old checkpoint as it was.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from holotron.errors import CheckpointError
from holotron.model.families import dump_config, family_of
from holotron.model.families.base import nested_decoder
from holotron.model.model import Holotron
from holotron.model.weights.card import ModelCard
from holotron.model.weights.fused import fused
from holotron.model.weights.int8 import SCALE, described, fits_int8, to_int8
from holotron.model.weights.names import entries
from holotron.model.weights.shards import INDEX


def save_checkpoint(
    model: Holotron,
    path: str | Path,
    *,
    card: ModelCard | None = None,
    dtype: torch.dtype | None = None,
    shard_bytes: int = 4 * 2**30,
) -> None:
    """Write weights, index, `config.json` and model card into the folder `path`.

    Tensors keep the dtype they were loaded with wherever that loses nothing; `dtype` forces one for the matrices. With
    int8 the large ones get scales beside them, see `int8`, and the others bf16.
    """
    if any(tensor.dtype is torch.float8_e4m3fn for tensor in model.parameters()):
        raise CheckpointError("a model whose weights are kept in 8 bits is for inference; save the one it came from")
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    shards = list(_shards(model, dtype, shard_bytes))
    written: list[tuple[Path, Path]] = []

    def stage(name: str) -> Path:
        final = folder / name
        draft = folder / f".{name}.partial"
        written.append((draft, final))
        return draft

    try:
        weight_map: dict[str, str] = {}
        for i, shard in enumerate(shards):
            single = len(shards) == 1
            name = "model.safetensors" if single else f"model-{i + 1:05d}-of-{len(shards):05d}.safetensors"
            save_file(shard, str(stage(name)), metadata={"format": "pt"})
            weight_map |= dict.fromkeys(shard, name)
        if len(shards) > 1:
            size = sum(tensor.nbytes for shard in shards for tensor in shard.values())
            index = {"metadata": {"total_size": size}, "weight_map": dict(sorted(weight_map.items()))}
            stage(INDEX).write_text(json.dumps(index, indent=2) + "\n")
        config = {k: v for k, v in dump_config(model.config).items() if k != "quantization_config"}
        config = _computed_in(config, model.dtype if dtype in (None, torch.int8) else dtype)
        if dtype is torch.int8:
            config["quantization_config"] = described()
        stage("config.json").write_text(json.dumps(config, indent=2) + "\n")
        if card is not None:
            stage("README.md").write_text(card.render())
    except BaseException as error:
        for draft, _ in written:
            draft.unlink(missing_ok=True)
        if isinstance(error, OSError | SafetensorError):
            raise CheckpointError(f"cannot save to {folder}: {error}") from error
        raise
    stale = {*folder.glob("*.safetensors"), folder / INDEX} - {final for _, final in written}
    for draft, final in written:
        os.replace(draft, final)
    for file in stale:
        file.unlink(missing_ok=True)


def _computed_in(config: dict[str, Any], dtype: torch.dtype) -> dict[str, Any]:
    """With the dtype to compute in, for the whole and for the decoder inside: vLLM insists on the second."""
    inner = nested_decoder(config)
    parts = {
        k: _computed_in(v, dtype) if v is inner and inner is not None else v for k, v in config.items() if k != "dtype"
    }
    return {**parts, "torch_dtype": str(dtype).removeprefix("torch.")}


def _shards(model: Holotron, dtype: torch.dtype | None, limit: int) -> Iterator[dict[str, Tensor]]:
    state = model.state_dict(keep_vars=False)
    shard: dict[str, Tensor] = {}
    size = 0
    stacks = family_of(model.config).fused_experts is not None
    for entry in entries(model):
        stored: dict[str, Tensor] = {}
        loaded = model.file_dtypes.get(entry.key)
        if entry.index is None or not stacks:
            tensor = state[entry.parameter]
            stored = _stored(entry.key, tensor if entry.index is None else tensor[entry.index], loaded, dtype)
        elif entry.index == 0:
            for key, tensor in fused(model, entry.parameter):
                stored |= _stored(key, tensor, loaded, dtype)
        more = sum(part.nbytes for part in stored.values())
        if shard and size + more > limit:
            yield shard
            shard, size = {}, 0
        shard |= stored
        size += more
    yield shard


def _stored(key: str, tensor: Tensor, loaded: torch.dtype | None, forced: torch.dtype | None) -> dict[str, Tensor]:
    """What a file holds of a tensor, by name: itself, or in 8 bits with its scales."""
    if forced is torch.int8:
        if fits_int8(key, tensor):
            values, scale = to_int8(tensor)
            return {key: values.cpu().contiguous(), key + SCALE: scale.cpu().contiguous()}
        forced = torch.bfloat16
    return {key: _to_file_dtype(tensor, loaded, forced).contiguous()}


def _to_file_dtype(tensor: Tensor, loaded: torch.dtype | None, forced: torch.dtype | None) -> Tensor:
    tensor = tensor.detach().cpu()
    if forced is not None and tensor.dim() > 1:
        return tensor.to(forced)
    if loaded not in (None, torch.int8, tensor.dtype) and torch.equal(tensor.to(loaded).to(tensor.dtype), tensor):
        return tensor.to(loaded)
    return tensor
