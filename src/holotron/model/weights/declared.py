"""What a checkpoint says about its own quantisation, and whether its tensors agree.

The tensors decide how they are read (`stored`); what the files declare is needed for two things: the size of blocks,
and to notice a checkpoint that is only half of what it claims to be. Three ways to say it are known:

* `config.json`: `quantization_config` with `quant_method` "compressed-tensors" (`config_groups`, `ignore`), as
  llm-compressor writes it;
* the same with `quant_method` "modelopt" (`quant_algo`, `ignore`), and beside it `hf_quant_config.json`
  (`quantization`: `quant_algo`, `exclude_modules`, or `quantized_layers` by name), as NVIDIA's ModelOpt writes both;
* `quant_method` "fp8" (`weight_block_size`, `modules_to_not_convert`), as DeepSeek and Qwen publish.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from holotron.errors import CheckpointError
from holotron.model.families.base import nested_decoder
from holotron.model.hf_json import read_json
from holotron.model.weights.stored import Stored

MODELOPT_FILE = "hf_quant_config.json"

_FORMATS = {"float-quantized", "int-quantized", "naive-quantized", "nvfp4-pack-quantized", "mixed-precision", "dense"}
_ALGORITHMS = {"FP8", "FP8_PER_CHANNEL_PER_TOKEN", "FP8_PB_WO", "NVFP4", "W4A16_NVFP4", "W8A16", "MIXED_PRECISION"}

# Found beforehand for those who round keys, values and activations with constants. Here they are rounded, if at all,
# with the scale of what is there.
_NOT_WEIGHTS = re.compile(r"\.(input_scale|input_global_scale|(k|v|q|kv|qk|o|prob)_(scale|zero_point))$")


def is_activation_scale(key: str) -> bool:
    """Is this tensor about numbers that are computed, not about weights?"""
    return _NOT_WEIGHTS.search(key) is not None


_INSTEAD = "take the unquantised checkpoint; the engine can keep its weights in 8 bits itself (--weights fp8)"


@dataclass(frozen=True)
class Declared:
    where: str
    block: tuple[int, int] | None = None
    left_out: tuple[str, ...] = ()  # modules that are not quantised: names, patterns with *, or "re:..."
    layers: frozenset[str] | None = None  # if given: the only ones that are

    def leaves_out(self, module: str) -> bool:
        if self.layers is not None:
            return not any(module == layer or module.startswith(f"{layer}.") for layer in self.layers)
        return any(_fits(entry, module) for entry in self.left_out)


def _fits(entry: str, module: str) -> bool:
    """Writers mean the module, all that is in it, or its name's end where they know it under a shorter path."""
    if entry.startswith("re:"):
        return re.match(entry[3:], module) is not None
    return fnmatchcase(module, entry) or fnmatchcase(module, f"{entry}.*") or f".{module}.".find(f".{entry}.") >= 0


def read_declared(folder: Path, config: Mapping[str, Any] | None) -> Declared | None:
    """What the files say; None if they speak of no quantisation. One error for kinds that cannot be read."""
    inner = nested_decoder(config or {})
    places = [config or {}, inner if isinstance(inner, Mapping) else {}]
    if isinstance(mlx := (config or {}).get("quantization"), Mapping) and {"group_size", "bits"} <= mlx.keys():
        raise CheckpointError(
            f"{folder / 'config.json'}: quantization: expected a layout of compressed-tensors, modelopt or fp8, found "
            f"that of MLX; {_INSTEAD}"
        )
    names = ("quantization_config", "compression_config")
    said = next((place[name] for place in places for name in names if isinstance(place.get(name), Mapping)), None)
    file = folder / MODELOPT_FILE
    if said is None and file.is_file():
        said = read_json(file).get("quantization")
        if isinstance(said, Mapping):
            return _modelopt(said, str(file))
    if not isinstance(said, Mapping):
        return None
    where = f"{folder / 'config.json'}: quantization_config"
    if "quant_method" not in said and isinstance(said.get("quantization"), Mapping):
        return _modelopt(said["quantization"], where)  # ModelOpt's own file, put in whole
    method = str(said.get("quant_method", "")).lower()
    if method == "compressed-tensors":
        return _compressed_tensors(said, where)
    if method in ("modelopt", "modelopt_fp4", "nvfp4"):
        return _modelopt(said, where)
    if method == "fp8":
        return Declared(where, _block(said.get("weight_block_size"), where), _names(said, "modules_to_not_convert"))
    raise CheckpointError(
        f"{where}: quant_method: expected compressed-tensors, modelopt or fp8, found {said.get('quant_method')!r}; "
        f"{_INSTEAD}"
    )


def _compressed_tensors(said: Mapping[str, Any], where: str) -> Declared:
    groups = [group for group in _mapping(said.get("config_groups")).values() if isinstance(group, Mapping)]
    formats = {str(place["format"]) for place in (said, *groups) if place.get("format") is not None}
    if unknown := sorted(formats - _FORMATS):
        raise CheckpointError(f"{where}: format: expected one of {', '.join(sorted(_FORMATS))}, found {unknown[0]!r}")
    if (sparse := _mapping(said.get("sparsity_config")).get("format", "dense")) != "dense":
        raise CheckpointError(f"{where}: sparsity_config: format: expected dense, found {sparse!r}")
    blocks = {_block(_mapping(group.get("weights")).get("block_structure"), where) for group in groups} - {None}
    return Declared(where, blocks.pop() if len(blocks) == 1 else None, _names(said, "ignore"))


def _modelopt(said: Mapping[str, Any], where: str) -> Declared:
    layers = said.get("quantized_layers")
    kinds = [_mapping(layer).get("quant_algo") for layer in _mapping(layers).values()]
    for algorithm in (said.get("quant_algo"), *kinds):
        if algorithm is not None and str(algorithm).upper() not in _ALGORITHMS:
            raise CheckpointError(
                f"{where}: quant_algo: expected one of {', '.join(sorted(_ALGORITHMS))}, found {algorithm!r}"
            )
    left_out = (*_names(said, "exclude_modules"), *_names(said, "ignore"))
    return Declared(where, None, left_out, frozenset(layers) if isinstance(layers, Mapping) else None)


def check_complete(declared: Declared, stored: Mapping[str, Stored]) -> list[str]:
    """Matrices in full precision that the files should have quantised: not left out by name, and of a kind that is
    quantised elsewhere."""
    quantised = {_kind(key): found.values.kind for key, found in stored.items() if found.scale is not None}
    return [
        f"half-quantised {key}: expected {quantised[_kind(key)]} like others of its kind, found {found.values.kind} in "
        f"{found.values.file.name}, and {declared.where} does not leave it out"
        for key, found in stored.items()
        if found.scale is None
        and len(found.shape) == 2
        and _kind(key) in quantised
        and not declared.leaves_out(key.removesuffix(".weight"))
    ]


def _kind(key: str) -> str:
    return re.sub(r"\d+", "#", key)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _names(said: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = said.get(key)
    return tuple(str(name) for name in value) if isinstance(value, Iterable) and not isinstance(value, str) else ()


def _block(value: Any, where: str) -> tuple[int, int] | None:
    if value is None:
        return None
    if isinstance(value, list) and len(value) == 2 and all(isinstance(size, int) and size > 0 for size in value):
        return value[0], value[1]
    raise CheckpointError(f"{where}: expected a block size such as [128, 128], found {value!r}")
