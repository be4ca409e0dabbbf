"""Streaming load of a published checkpoint: check every name, shape and kind first, then copy piece by piece.

    model = load_checkpoint("Holotron-12B", device="cuda")
    model = load_checkpoint("Holotron-12B", device="cuda", weight_dtype=torch.float8_e4m3fn)

Nothing is read twice and no second copy of the model, or of any large tensor, exists at any time: the modules are built
without storage, in the form they will have; every tensor's header is compared with what the configuration demands; only
then is memory taken and filled, some rows at a time (`reader`). Files in 8 or 4 bits are unpacked on the way
(`stored`). If anything is wrong there is one error that lists it all and no model.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from holotron.errors import CheckpointError, ConfigError
from holotron.model.config import ModelConfig, VisionConfig
from holotron.model.families import family_of, load_config
from holotron.model.model import Holotron
from holotron.model.weights.declared import Declared, check_complete, is_activation_scale, read_declared
from holotron.model.weights.eight_bit import narrow, scales_of
from holotron.model.weights.fused import unfused
from holotron.model.weights.headers import Header, read_headers
from holotron.model.weights.names import Entry, entries
from holotron.model.weights.reader import Reader
from holotron.model.weights.rehearsal import PATIENCE, rehearse_in_background
from holotron.model.weights.spelling import respelt
from holotron.model.weights.storage import allocate
from holotron.model.weights.stored import PLAIN, Stored, Unreadable, copy_into, find
from holotron.model.weights.tied import untied_if_different

log = logging.getLogger(__name__)

_LISTED = 12  # problems shown in one error; the rest are counted

Progress = Callable[[int, int], None]  # numbers done, numbers in all


def load_checkpoint(
    path: str | Path,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype | None = None,
    weight_dtype: torch.dtype | None = None,
    progress: Progress | None = None,
) -> Holotron:
    """The model in `path`, in the files' own dtype unless another is asked for (bf16 where they are quantised or F16).
    `weight_dtype` float8_e4m3fn keeps recurrent, MLP and expert matrices in 8 bits, for inference; files that are in
    8-bit floats by tensor or by row are then taken as they are."""
    folder = Path(path)
    if not folder.is_dir():
        raise CheckpointError(f"there is no folder {folder}")
    config = load_config(folder)
    config, headers = fitted(config, read_headers(folder))
    with torch.device("meta"):
        model = Holotron(config)
    wanted = entries(model)
    stored = check_tensors(folder, config, wanted, headers)
    model.to(dtype or _main_dtype(stored))
    if weight_dtype is not None:
        narrow(model, torch.device(device), weight_dtype)
    rehearsal = rehearse_in_background(config, torch.device(device), model.dtype, weight_dtype)
    allocate(model, device)
    _fill(model, wanted, stored, progress)
    if rehearsal is not None:
        rehearsal.join(PATIENCE)  # what it compiles is needed next, and its memory by whatever comes then
    model.file_dtypes = {key: found.values.dtype for key, found in stored.items() if found.scale is None}
    return model.eval().requires_grad_(False)


def read_config(path: str | Path) -> ModelConfig:
    """The configuration of a checkpoint folder without loading it; fitted to the tensors where there are any."""
    config = load_config(path)
    if not list(Path(path).glob("*.safetensors")):
        return config
    return fitted(config, read_headers(Path(path)))[0]


def fitted(config: ModelConfig, headers: dict[str, Header]) -> tuple[ModelConfig, dict[str, Header]]:
    """Configuration and tensors as they belong together: by the family's names, sizes from the tensors, a head of its
    own if there is one, every expert by itself."""
    headers = respelt(headers, family_of(config))
    config = untied_if_different(fit_to_tensors(config, _shapes(headers)), headers)
    return config, unfused(headers, config)


def _shapes(headers: Mapping[str, Header]) -> dict[str, tuple[int, ...]]:
    return {key: header.shape for key, header in headers.items()}


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
    if (up := shapes.get("mlp1.1.weight", shapes.get("mlp1.1.weight_packed"))) is not None:
        projector = replace(projector, width=up[0])
    return replace(config, vision=vision, projector=projector)


def check_tensors(
    folder: Path, config: ModelConfig, wanted: list[Entry], headers: Mapping[str, Header]
) -> dict[str, Stored]:
    """Where each wanted tensor lies; one error for everything that is missing, misshapen, unreadable or unknown."""
    declared = read_declared(folder, config.raw)
    stored: dict[str, Stored] = {}
    problems: list[str] = []
    for entry in wanted:
        try:
            stored[entry.key] = find(entry.key, entry.shape, headers, declared.block if declared else None)
        except Unreadable as why:
            problems.append(f"{_trouble(entry, headers):11} {entry.key}: {why}")
    # A tensor that cannot be read has its scales beside it all the same: they are not what is wrong.
    taken = {key for found in stored.values() for key in found.keys}
    taken |= {entry.key + end for entry in wanted if entry.key not in stored for end in _ENDINGS}
    others = [key for key in headers if key not in taken]
    family = family_of(config)
    ignored = family.ignored
    unknown = [key for key in others if not ignored.search(key) and not is_activation_scale(key)]
    problems += [f"unexpected  {key}: found {list(headers[key].shape)} in {headers[key].file.name}" for key in unknown]
    if family.neutral is not None:
        problems += _factors({key: headers[key] for key in others if family.neutral.search(key)})
    if declared is not None:
        problems += check_complete(declared, stored)
    if problems:
        more = f"\n  ... and {len(problems) - _LISTED} more" if len(problems) > _LISTED else ""
        lines = "\n  ".join(problems[:_LISTED])
        raise CheckpointError(f"{folder} does not fit its config.json ({len(problems)} problems):\n  {lines}{more}")
    _tell(folder, declared, stored, others)
    return stored


def _factors(headers: Mapping[str, Header]) -> list[str]:
    """Those that are not one. They are small, so they are looked at rather than believed."""
    with Reader("cpu") as reader:
        return [
            f"unsupported {key}: expected ones, which change nothing, found other factors in {header.file.name}"
            for key, header in headers.items()
            if header.kind not in PLAIN or not bool((reader.whole(header).float() == 1).all())
        ]


_ENDINGS = ("", "_packed", "_scale", "_scale_inv", "_scale_2", "_global_scale", "_zero_point", "_shape")


def _trouble(entry: Entry, headers: Mapping[str, Header]) -> str:
    found = headers.get(entry.key)
    if found is None:
        return "unreadable" if f"{entry.key}_packed" in headers else "missing"
    return "wrong shape" if found.shape != entry.shape and found.kind != "U8" else "unreadable"


def _tell(folder: Path, declared: Declared | None, stored: Mapping[str, Stored], others: list[str]) -> None:
    """One line for each thing about the files that somebody might wonder about."""
    kinds = Counter("NVFP4" if found.packed else found.values.kind for found in stored.values() if found.scale)
    if kinds:
        counted = ", ".join(f"{count} matrices in {kind}" for kind, count in kinds.items())
        log.info("%s is quantised: %s (%s)", folder, counted, declared.where if declared else "no file says so")
    scales = [key for key in others if is_activation_scale(key)]
    if scales:
        log.info("%s: %d scales for activations, keys and values are of no use here", folder, len(scales))
    if unused := [key for key in others if not is_activation_scale(key)]:
        log.warning("%s: %d tensors are of no use here and were left out: %s", folder, len(unused), _kinds(unused))


def _kinds(keys: list[str]) -> str:
    """Keys by their first two parts, with how many of each."""
    counts = Counter(".".join(key.split(".")[:2]) for key in keys)
    shown = [f"{start}.* ({count})" for start, count in counts.most_common(_LISTED)]
    return ", ".join([*shown, "..."] if len(counts) > _LISTED else shown)


def _main_dtype(stored: Mapping[str, Stored]) -> torch.dtype:
    """The dtype of the largest tensor: small ones (decays, router biases) are often kept wider. Instead of half
    precision bf16: these models were trained in it, and what they compute may be too large for the other."""
    largest = max(stored.values(), key=lambda found: math.prod(found.shape))
    half = largest.scale is not None or largest.values.dtype is torch.float16
    return torch.bfloat16 if half else largest.values.dtype


def _fill(model: Holotron, wanted: list[Entry], stored: Mapping[str, Stored], progress: Progress | None) -> None:
    targets: dict[str, Tensor] = dict(model.state_dict(keep_vars=True))
    scales = scales_of(model)
    total, done = sum(math.prod(entry.shape) for entry in wanted), 0

    def place(entry: Entry) -> tuple[str, int]:
        values = stored[entry.key].values
        return str(values.file), values.start

    with torch.no_grad(), Reader(model.device) as reader:
        for entry in sorted(wanted, key=place):  # every file from its beginning to its end
            target, scale = targets[entry.parameter], scales.get(entry.parameter)
            if entry.index is not None:
                target, scale = target[entry.index], scale[entry.index] if scale is not None else None
            copy_into(stored[entry.key], reader, target, scale)
            done += math.prod(entry.shape)
            if progress:
                progress(done, total)
