"""From a name to a model that runs: a hub id, a local folder, or a preset with random weights.

model, processor = load_model("Hcompany/Holotron-12B")
model, processor = load_model("runs/my-checkpoint", device="cuda")
model, processor = load_model("Hcompany/Holotron-12B", weight_dtype=torch.float8_e4m3fn)   # on a card of 24 GB
model, processor = load_model("tiny")                       # random weights, for tests and benchmarks
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch

from holotron.errors import ConfigError
from holotron.model.bundled import BUNDLED, bundled_folder
from holotron.model.config import ModelConfig, TokenIds
from holotron.model.families import family_of
from holotron.model.formats import GGUF
from holotron.model.hf_json import read_preprocessor
from holotron.model.model import Holotron
from holotron.model.presets import PRESETS, preset
from holotron.model.processor import Processor, PromptLimits
from holotron.model.processor.tiling import disagreements
from holotron.model.weights.hub import looks_like_hub_id, snapshot
from holotron.model.weights.initialise import random_model
from holotron.model.weights.load import Progress, load_checkpoint, read_config
from holotron.registry import did_you_mean

log = logging.getLogger(__name__)

UNTRAINED = "preset:"  # asks for random weights also where a trained model of that name is bundled


class Loaded(NamedTuple):
    model: Holotron
    processor: Processor


def resolve(source: str | Path) -> Path | ModelConfig:
    """A folder with a checkpoint, or the configuration of a preset. Hub ids are looked up in the local cache first and
    downloaded when a network exists."""
    text = str(source)
    if text.startswith(UNTRAINED):
        return preset(text.removeprefix(UNTRAINED))
    if text == BUNDLED:
        return bundled_folder()
    if text in PRESETS:
        return preset(text)
    if text and Path(text).is_dir():
        return Path(text)
    if looks_like_hub_id(text):
        return snapshot(text)
    if not text:
        raise ConfigError("name a model: a folder, a hub id such as 'Hcompany/Holotron-12B', or a preset such as tiny")
    if text.endswith(".gguf"):
        raise ConfigError(f"{text}: {GGUF}")
    if Path(text).exists():
        raise ConfigError(f"{text} is a file; a model is a folder, with config.json and its weights in it")
    if "://" in text:
        raise ConfigError(
            f"{text} is an address; name a model by its hub id, such as 'Hcompany/Holotron-12B', or a folder"
        )
    if "/" in text:
        raise ConfigError(f"there is no folder {text}")
    raise ConfigError(
        f"{text!r} is neither a folder, nor a hub id such as 'Hcompany/Holotron-12B', nor a preset: "
        f"{did_you_mean(text, PRESETS)}"
    )


def usable_device(wanted: torch.device | str | None = None) -> torch.device:
    """Where a model can run: what was asked for, if it is there; by default the GPU, or else the CPU."""
    if wanted is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(wanted)
    except RuntimeError:
        raise ConfigError(f"{wanted!r} is no device; say cpu, cuda, or cuda:1 for the second GPU") from None
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if count <= (device.index or 0):
            found = "no GPU that torch can use" if not count else f"{count} GPU{'s' if count > 1 else ''}, from cuda:0"
            raise ConfigError(f"{device} was asked for, and there is {found} here; on the CPU: --device cpu")
    return device


def model_config(source: str | Path) -> ModelConfig:
    """What a model is, without its weights. Of a hub repository only `config.json` is fetched."""
    if looks_like_hub_id(str(source)) and not Path(source).is_dir():
        return read_config(snapshot(str(source), ["config.json"]))
    found = resolve(source)
    return found if isinstance(found, ModelConfig) else read_config(found)


def load_model(
    source: str | Path,
    *,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
    weight_dtype: torch.dtype | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Loaded:
    """The model and its processor, ready for inference. `device` defaults to the GPU when there is one; `dtype` to the
    files' own (bf16 for random weights on a GPU, fp32 on a CPU). `weight_dtype` float8_e4m3fn keeps recurrent, MLP and
    expert matrices in 8 bits: they are rounded while they are read, so that memory for 8 bits suffices."""
    device = usable_device(device)
    found = resolve(source)
    if isinstance(found, ModelConfig):
        dtype = dtype or (torch.bfloat16 if device.type == "cuda" else torch.float32)
        model = random_model(found, device=device, dtype=dtype, weight_dtype=weight_dtype, seed=seed)
        return Loaded(model.eval().requires_grad_(False), byte_processor(found))
    if dtype is None and device.type == "cpu":
        dtype = torch.float32  # few CPUs multiply 16-bit numbers at speed
    model = load_checkpoint(found, device=device, dtype=dtype, weight_dtype=weight_dtype, progress=progress)
    limits = PromptLimits(max_tokens=model.config.decoder.max_positions)
    processor = Processor.from_folder(found, limits=limits)
    for line in disagreements(model.config.raw or {}, read_preprocessor(found)):
        log.warning("%s: %s", found, line)
    model.config = replace(model.config, tokens=agreed_tokens(model.config, processor))
    return Loaded(model, processor)


def agreed_tokens(config: ModelConfig, processor: Processor) -> TokenIds:
    """What the network's configuration and the tokenizer's files say together: every token that either of them calls an
    end, the one that the chat template writes first; the tags around pictures, by name; and ids that no token has,
    which are never to be sampled."""
    tokens, tokenizer = config.tokens, processor.tokenizer
    vocab, known = config.decoder.vocab, tokenizer.token_bytes
    ends = dict.fromkeys([*processor.stop_ids, *tokens.eos])
    absent = [index for index, text in enumerate(known) if not text]
    sees = config.vision is not None
    return replace(
        tokens,
        image_start=tokenizer.image_start_id if sees and tokenizer.image_start_id is not None else tokens.image_start,
        image_end=tokenizer.image_end_id if sees and tokenizer.image_end_id is not None else tokens.image_end,
        eos=tuple(index for index in ends if index < vocab),
        unsampled=frozenset([*absent, *range(len(known), vocab)]),
    )


def byte_processor(config: ModelConfig) -> Processor:
    """For models that come without a tokenizer: one token per byte, special tokens where the configuration has them."""
    tokens, sees = config.tokens, config.vision is not None
    limits = PromptLimits(max_tokens=config.decoder.max_positions)
    return Processor.for_bytes(
        config.image if sees else None,
        template="turns" if config.name == BUNDLED else "chatml",
        limits=limits,
        image=tokens.image if sees else None,
        image_start=tokens.image_start if sees else None,
        image_end=tokens.image_end if sees else None,
        bos=tokens.bos,
        eos=tokens.eos[0],
        names=family_of(config).image_tokens,
    )
