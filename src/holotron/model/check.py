"""Would this model load and run? Answered from its small files, before any weights are there.

    report = check("Hcompany/Holotron-12B")         # a hub name: kilobytes are fetched (the tokenizer is a few MB)
    report.loads, report.problems                   # a folder, or a preset, works the same

What is looked at: `config.json` (family, sizes, what is not supported), the names of all tensors from the index, or
names and shapes from the headers where the weight files are there, tokenizer and chat template (an example with text, a
picture and a tool call is rendered), the tokens that end a reply and those that stand for pictures.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from holotron.errors import HolotronError
from holotron.model.config import ModelConfig
from holotron.model.families import family_of, load_config
from holotron.model.formats import other_form, other_tokenizer
from holotron.model.hf_json import read_preprocessor
from holotron.model.loading import agreed_tokens, byte_processor, resolve
from holotron.model.model import Holotron
from holotron.model.processor import Processor, PromptLimits
from holotron.model.processor.folder import template_sources
from holotron.model.processor.tiling import disagreements
from holotron.model.weights.declared import is_activation_scale, read_declared
from holotron.model.weights.headers import read_headers
from holotron.model.weights.hub import looks_like_hub_id, snapshot
from holotron.model.weights.load import check_tensors, fitted
from holotron.model.weights.names import Entry, entries
from holotron.model.weights.shards import shard_files, weight_map
from holotron.model.weights.spelling import respelt

SMALL_FILES = ["*.json", "*.jinja", "*.md", "LICENSE*", "NOTICE*"]
_LISTED = 8

_TOOL = {
    "type": "function",
    "function": {
        "name": "click",
        "description": "Click the element at x, y.",
        "parameters": {
            "type": "object",
            "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
            "required": ["x", "y"],
        },
    },
}


@dataclass
class Report:
    source: str
    problems: list[str] = field(default_factory=list)  # why it would not load or run
    notes: list[str] = field(default_factory=list)  # what one should know all the same
    family: str = ""
    parameters: int = 0
    layers: str = ""
    context: int = 0
    sees: bool = False
    tensors: str = ""  # how many were accounted for, and by what
    quantised: str = ""
    stop_tokens: dict[int, str] = field(default_factory=dict)  # the one that the template writes first
    image_tokens: dict[int, str] = field(default_factory=dict)
    template: str = ""  # whose it is
    example: str = ""  # rendered
    example_tokens: int = 0
    config: ModelConfig | None = None

    @property
    def loads(self) -> bool:
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        values = {name: value for name, value in vars(self).items() if name != "config"}
        return {"loads": self.loads} | values


def check(source: str | Path) -> Report:
    """Never raises for what is wrong with the model: that is what the report says."""
    report = Report(str(source))
    try:
        found = small_files(source)
        config = found if isinstance(found, ModelConfig) else load_config(found)
        folder = None if isinstance(found, ModelConfig) else found
        report.config = _network(report, config, folder, whole=not _of_the_hub(source))
        _conversation(report, report.config, folder)
    except HolotronError as error:
        report.problems.append(str(error))
    return report


def small_files(source: str | Path) -> Path | ModelConfig:
    """A folder (of a hub repository only the small files are fetched), or a preset's configuration."""
    return snapshot(str(source), SMALL_FILES) if _of_the_hub(source) else resolve(source)


def _of_the_hub(source: str | Path) -> bool:
    return looks_like_hub_id(str(source)) and not Path(source).is_dir()


def _network(report: Report, config: ModelConfig, folder: Path | None, *, whole: bool) -> ModelConfig:
    """The network and its tensors. `whole`: if some weight files are there, all have to be; nobody will fetch the
    others."""
    report.family = config.family
    wanted: list[Entry] = []
    try:
        # First, for what cannot be read in any way has the wrong names too.
        declared = read_declared(folder, config.raw) if folder is not None else None
        if folder is None:
            report.tensors = "a preset: random weights, no files"
        elif (files := shard_files(folder)) and _readable(files, indexed=weight_map(folder) is not None, whole=whole):
            config, headers = fitted(config, read_headers(folder))
            wanted = _entries(config)
            stored = check_tensors(folder, config, wanted, headers)
            report.tensors = f"{len(wanted)} of {len(wanted)} by name and shape, from the headers of {len(files)} files"
            small = sorted({found.values.kind for found in stored.values() if found.scale is not None})
            report.quantised = ", ".join("NVFP4" if kind == "U8" else kind for kind in small)
        elif (placed := weight_map(folder)) is not None:
            wanted = _entries(config)
            _names(report, config, wanted, placed)
        elif form := other_form(folder):
            report.problems.append(f"{folder} holds no .safetensors file: {form}")
        else:
            report.notes.append("no index and no weight files: tensors could not be accounted for")
            report.tensors = "not checked"
        if declared is not None and not report.quantised:
            report.quantised = f"as {declared.where} says"
    except HolotronError as error:
        report.problems.append(str(error))
    model = _meta(config)
    decoder = config.decoder
    report.parameters = sum(parameter.numel() for parameter in model.parameters())
    report.layers, report.context = decoder.pattern, decoder.max_positions
    report.sees = config.vision is not None
    return config


def _readable(files: list[Path], *, indexed: bool, whole: bool) -> bool:
    """Are headers to be read? Where files are missing among others this ends in an error that names them, and so it
    does where links to them lead nowhere."""
    held = [file.exists() for file in files]
    return all(held) or (whole and any(held)) or not indexed


def _meta(config: ModelConfig) -> Holotron:
    with torch.device("meta"):
        return Holotron(config)


def _entries(config: ModelConfig) -> list[Entry]:
    return entries(_meta(config))


def _names(report: Report, config: ModelConfig, wanted: list[Entry], placed: Mapping[str, str]) -> None:
    """Without the weight files: names alone."""
    family = family_of(config)
    held = {key.removesuffix("_packed") for key in respelt(placed, family)}
    missing = [entry.key for entry in wanted if entry.key not in held and _fused(entry.key) not in held]
    # A head that is tied to the embeddings may be written out all the same.
    known = {entry.key for entry in wanted} | {family.tensor_key("language_model.lm_head.weight")}
    known |= {_fused(entry.key) for entry in wanted}
    ignored = family.ignored
    scales = ("_scale", "_scale_inv", "_scale_2", "_global_scale")
    others = [
        key
        for key in held - known
        if not is_activation_scale(key) and not any(key.endswith(end) and key[: -len(end)] in known for end in scales)
    ]
    unknown = sorted(key for key in others if not ignored.search(key))
    for kind, keys in (("the index lacks", missing), ("the index has what this family has not:", unknown)):
        if keys:
            more = f" and {len(keys) - _LISTED} more" if len(keys) > _LISTED else ""
            report.problems.append(f"{kind} {', '.join(keys[:_LISTED])}{more}")
    if len(others) > len(unknown):
        report.notes.append(f"{len(others) - len(unknown)} tensors are of no use here and are left out")
    report.tensors = f"{len(wanted) - len(missing)} of {len(wanted)} by name, from the index; shapes are in the weights"


def _fused(key: str) -> str:
    """The tensor that holds this matrix where all experts of a layer lie in one."""
    key = re.sub(r"\.experts\.\d+\.(gate|up)_proj\.weight$", ".experts.gate_up_proj", key)
    return re.sub(r"\.experts\.\d+\.down_proj\.weight$", ".experts.down_proj", key)


def _conversation(report: Report, config: ModelConfig, folder: Path | None) -> None:
    """Tokenizer, template, stop and image tokens."""
    limits = PromptLimits(max_tokens=max(config.decoder.max_positions, 1))
    if folder is None:
        processor = byte_processor(config)
    elif (folder / "tokenizer.json").is_file():
        processor = Processor.from_folder(folder, limits=limits)
    else:
        report.problems.append(other_tokenizer(folder))
        return
    if folder is not None and config.raw is not None and processor.images is not None:
        report.notes += disagreements(config.raw, read_preprocessor(folder))
    tokenizer = processor.tokenizer
    own = folder is not None and bool(template_sources(folder))
    report.template = "the checkpoint's own" if own else "ours: the checkpoint brings none"
    tokens = agreed_tokens(config, processor)
    report.stop_tokens = {index: tokenizer.decode([index], skip_control=False) for index in tokens.eos}
    if not tokens.eos:
        report.problems.append("no file names a token that ends a reply (eos_token_id)")
    if beyond := [index for index in processor.stop_ids if index >= config.decoder.vocab]:
        report.notes.append(f"stop tokens {beyond} lie beyond the vocabulary of {config.decoder.vocab:,} rows")
    if config.vision is not None:
        for index in (tokens.image, tokens.image_start, tokens.image_end):
            report.image_tokens[index] = tokenizer.decode([index], skip_control=False)
        if tokenizer.image_id != tokens.image:
            report.problems.append(
                f"pictures are token {tokens.image} for the network and {tokenizer.image_id} for the tokenizer"
            )
    if (more := tokenizer.vocab_size - config.decoder.vocab) > 0:
        report.notes.append(
            f"the last {more:,} of {tokenizer.vocab_size:,} tokens have no row in the network and cannot be used"
        )
    _example(report, processor)


def _example(report: Report, processor: Processor) -> None:
    picture: list[dict[str, Any]] = []
    if processor.images is not None:
        picture = [{"type": "image", "image": np.zeros((64, 64, 3), np.uint8)}]
    call = {"id": "call-1", "type": "function", "function": {"name": "click", "arguments": '{"x": 412, "y": 733}'}}
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You use a computer."},
        {"role": "user", "content": [*picture, {"type": "text", "text": "Open the settings."}]},
        {"role": "assistant", "content": "The gear is at the right.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call-1", "content": "done"},
        {"role": "user", "content": "And now?"},
    ]
    try:
        prompt = processor.render(messages, tools=[_TOOL], thinking=None)
        if "412" not in prompt.text:
            report.notes.append("the template leaves tool calls out")
    except HolotronError as error:
        report.notes.append(f"the template does not take tool calls: {error}")
        prompt = processor.render(messages[:2], thinking=None)
    report.example, report.example_tokens = prompt.text, len(prompt.ids)
    top = max(prompt.ids)
    if report.config is not None and top >= report.config.decoder.vocab:
        report.problems.append(f"the example has token {top}, the network {report.config.decoder.vocab:,} rows")
