"""Streaming load of a published checkpoint: check every name and shape first, then copy tensor by tensor.

Nothing is read twice and no second copy of the model exists at any time: the modules are built without storage, every
tensor's header is compared with what the configuration demands, and only then is memory taken and filled. If anything
is wrong there is one error that lists it all and no model.
"""

from __future__ import annotations

import logging
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from holotron.errors import CheckpointError, ConfigError
from holotron.model.config import ModelConfig, VisionConfig
from holotron.model.families import family_of, load_config
from holotron.model.model import Holotron
from holotron.model.weights.fused import Header, read, unfused
from holotron.model.weights.int8 import SCALE, from_int8
from holotron.model.weights.names import Entry, entries
from holotron.model.weights.shards import shard_files
from holotron.model.weights.storage import allocate
from holotron.model.weights.tied import untied_if_different

log = logging.getLogger(__name__)

_LISTED = 12  # problems shown in one error; the rest are counted

Progress = Callable[[int, int], None]  # bytes done, bytes in all


def load_checkpoint(
    path: str | Path,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype | None = None,
    progress: Progress | None = None,
) -> Holotron:
    """The model in `path`, in the files' own dtype unless another is asked for."""
    folder = Path(path)
    if not folder.is_dir():
        raise CheckpointError(f"there is no folder {folder}")
    config = load_config(folder)
    files = _shards(folder)
    headers = _headers(files)
    config = fit_to_tensors(config, _shapes(headers))
    config = untied_if_different(config, headers)
    headers = unfused(headers, config)
    shapes = _shapes(headers)

    with torch.device("meta"):
        model = Holotron(config)
    wanted = entries(model)
    _check_precision(folder, config, wanted, headers)
    dtypes = {entry.key: _DTYPES[headers[entry.key].kind] for entry in wanted if entry.key in headers}
    unused = _check(folder, wanted, shapes, dtypes, family_of(config).ignored)
    if unused:
        log.warning("%s: %d tensors are of no use here and were left out: %s", folder, len(unused), _kinds(unused))
    model.to(dtype or _main_dtype(dtypes, wanted))
    allocate(model, device)
    _fill(model, wanted, headers, progress)
    model.file_dtypes = dtypes
    return model.eval().requires_grad_(False)


def read_config(path: str | Path) -> ModelConfig:
    """The configuration of a checkpoint folder without loading it; fitted to the tensors where there are any."""
    config = load_config(path)
    if not list(Path(path).glob("*.safetensors")):
        return config
    return fit_to_tensors(config, _shapes(_headers(_shards(Path(path)))))


def _shards(folder: Path) -> list[Path]:
    files = shard_files(folder)
    if not files:
        raise CheckpointError(f"{folder} holds no .safetensors file")
    if missing := [file.name for file in files if not file.exists()]:
        lacking = ", ".join(missing[:_LISTED]) + (" ..." if len(missing) > _LISTED else "")
        raise CheckpointError(
            f"{folder} lacks {lacking} of {len(files)} files that belong together; the download is incomplete"
        )
    return files


def _headers(files: list[Path]) -> dict[str, Header]:
    """What there is to know of every tensor without reading any data."""
    headers: dict[str, Header] = {}
    for file in files:
        with _open(file) as shard:
            for key in shard.keys():  # noqa: SIM118 (not a dict)
                if key in headers:
                    raise CheckpointError(f"{key} is in both {headers[key].file.name} and {file.name}")
                piece = shard.get_slice(key)
                headers[key] = Header(tuple(piece.get_shape()), piece.get_dtype(), file)
    return headers


def _shapes(headers: Mapping[str, Header]) -> dict[str, tuple[int, ...]]:
    return {key: header.shape for key, header in headers.items()}


_DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I8": torch.int8,
}  # fmt: skip


def _open(file: Path) -> safe_open:
    try:
        return safe_open(str(file), framework="pt")
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{file} is not a complete safetensors file ({error}); download it again") from error


_EMBEDDINGS = (
    "language_model.backbone.embeddings.weight",
    "backbone.embeddings.weight",
    "model.embed_tokens.weight",
    "model.language_model.embed_tokens.weight",
)


def fit_to_tensors(config: ModelConfig, shapes: Mapping[str, tuple[int, ...]]) -> ModelConfig:
    """Sizes that configuration files leave out or get wrong, read off the tensors: vocabulary rows (padded), prefix
    tokens, position grid, projector width."""
    for key in _EMBEDDINGS:
        if key in shapes and len(shapes[key]) == 2:
            config = replace(config, decoder=replace(config.decoder, vocab=shapes[key][0]))
    if config.vision is not None and config.tokens.image >= config.decoder.vocab:
        raise ConfigError(
            f"the image token is id {config.tokens.image} but the vocabulary has only {config.decoder.vocab} rows"
        )
    if not isinstance(config.vision, VisionConfig) or config.projector is None:
        return config
    generator = "vision_model.radio_model.model.patch_generator"
    vision = config.vision
    if (prefix := shapes.get(f"{generator}.cls_token.token")) is not None:
        vision = replace(vision, prefix=prefix[0])
    if (table := shapes.get(f"{generator}.pos_embed")) is not None:
        side = math.isqrt(table[1]) if len(table) == 3 else 0
        if side * side != table[-2]:
            raise CheckpointError(f"{generator}.pos_embed has {table[-2]} rows, which is not the square of a grid")
        vision = replace(vision, grid=side)
    projector = config.projector
    if (up := shapes.get("mlp1.1.weight")) is not None:
        projector = replace(projector, width=up[0])
    return replace(config, vision=vision, projector=projector)


def _check(
    folder: Path,
    wanted: list[Entry],
    shapes: Mapping[str, tuple[int, ...]],
    dtypes: Mapping[str, torch.dtype],
    ignored: re.Pattern[str],
) -> list[str]:
    """The keys that are there and not needed; one error for everything that is missing, misshapen or unknown."""
    problems: list[str] = []
    scales = {entry.key + SCALE: (entry.shape[0], 1) for entry in wanted if dtypes.get(entry.key) is torch.int8}
    for key, shape in scales.items():
        if shapes.get(key) != shape:
            found_scale = f"found {list(shapes[key])}" if key in shapes else "missing"
            problems.append(f"8-bit matrix without its scales {key}: expected {list(shape)}, {found_scale}")
    for entry in wanted:
        found = shapes.get(entry.key)
        if found is None:
            problems.append(f"missing     {entry.key}: expected {list(entry.shape)}")
        elif found != entry.shape:
            problems.append(f"wrong shape {entry.key}: expected {list(entry.shape)}, found {list(found)}")
    known = {entry.key for entry in wanted} | scales.keys()
    others = [key for key in shapes if key not in known]
    problems += [f"unexpected  {key}: found {list(shapes[key])}" for key in others if not ignored.search(key)]
    if problems:
        more = f"\n  ... and {len(problems) - _LISTED} more" if len(problems) > _LISTED else ""
        lines = "\n  ".join(problems[:_LISTED])
        raise CheckpointError(f"{folder} does not fit its config.json ({len(problems)} problems):\n  {lines}{more}")
    return others


def _check_precision(folder: Path, config: ModelConfig, wanted: list[Entry], headers: Mapping[str, Header]) -> None:
    """Quantised weights are numbers of another meaning: without their scales they would load as nonsense."""
    said = (config.raw or {}).get("quantization_config") or (config.raw or {}).get("compression_config")
    for entry in wanted:
        kind = headers[entry.key].kind if entry.key in headers else None
        if kind is not None and kind not in _DTYPES:
            method = f" ({said['quant_method']})" if isinstance(said, Mapping) and "quant_method" in said else ""
            raise CheckpointError(
                f"{folder} is quantised{method}: {entry.key} is stored as {kind}, and only {', '.join(_DTYPES)} can be "
                "loaded. Take the unquantised checkpoint; the engine can quantise its weights itself"
            )


def _kinds(keys: list[str]) -> str:
    """Keys by their first two parts, with how many of each."""
    counts = Counter(".".join(key.split(".")[:2]) for key in keys)
    shown = [f"{start}.* ({count})" for start, count in counts.most_common(_LISTED)]
    return ", ".join([*shown, "..."] if len(counts) > _LISTED else shown)


def _main_dtype(dtypes: Mapping[str, torch.dtype], wanted: list[Entry]) -> torch.dtype:
    """The dtype of the largest tensor: small ones (decays, router biases) are often kept wider."""
    largest = max(wanted, key=lambda entry: math.prod(entry.shape))
    return torch.bfloat16 if dtypes[largest.key] is torch.int8 else dtypes[largest.key]


def _fill(model: Holotron, wanted: list[Entry], headers: Mapping[str, Header], progress: Progress | None) -> None:
    targets: dict[str, Tensor] = dict(model.state_dict(keep_vars=True))
    total = sum(math.prod(entry.shape) for entry in wanted)
    done = 0
    by_file: dict[Path, list[Entry]] = {}
    for entry in wanted:
        by_file.setdefault(headers[entry.key].file, []).append(entry)
    with torch.no_grad():
        for file, group in by_file.items():
            with _open(file) as shard:
                for entry in group:
                    try:
                        value = read(shard, entry.key, headers[entry.key])
                        if value.dtype is torch.int8:
                            value = from_int8(value, shard.get_tensor(entry.key + SCALE))
                    except SafetensorError as error:
                        raise CheckpointError(f"cannot read {entry.key} from {file}: {error}") from error
                    target = targets[entry.parameter]
                    (target if entry.index is None else target[entry.index]).copy_(value)
                    done += value.numel()
                    if progress:
                        progress(done, total)
