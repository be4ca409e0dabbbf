"""The processor's files in a checkpoint folder, as Hugging Face lays them out.

tokenizer.json            vocabulary and merges
tokenizer_config.json     names of special tokens, and tokens that the vocabulary lacks (or added_tokens.json); in older
                          checkpoints also the chat template
special_tokens_map.json   the names again (read where the former is silent)
chat_template.jinja       the chat template (or chat_template.json); more of them by name in additional_chat_templates
config.json               image settings, ids of the image tokens
preprocessor_config.json  image settings again (read where config.json is silent), or processor_config.json
generation_config.json    which tokens end a reply; how its publishers sample
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holotron.errors import CheckpointError, ConfigError
from holotron.model.families import families, recognise
from holotron.model.families.base import Family, nested_decoder
from holotron.model.formats import other_tokenizer
from holotron.model.hf_json import read_json, read_preprocessor
from holotron.model.processor.added import added_tokens
from holotron.model.processor.sampling import SamplingDefaults
from holotron.model.processor.template import ChatTemplate
from holotron.model.processor.tiling import ImageConfig
from holotron.model.processor.tokenizer import Tokenizer

_SPECIAL = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


@dataclass(frozen=True, slots=True)
class ProcessorFiles:
    tokenizer: Tokenizer
    template: ChatTemplate
    images: ImageConfig | None
    sampling: SamplingDefaults


def read(path: Path) -> ProcessorFiles:
    def optional(name: str) -> dict[str, Any]:
        return read_json(path / name) if (path / name).is_file() else {}

    if not (path / "tokenizer.json").is_file():
        raise CheckpointError(other_tokenizer(path))
    config, settings, generation = (
        optional("config.json"),
        optional("tokenizer_config.json"),
        optional("generation_config.json"),
    )
    known = recognise(config)
    family = known or Family()
    named = optional("special_tokens_map.json") | {key: value for key, value in settings.items() if value is not None}
    special = {name: _content(named[name]) for name in _SPECIAL if named.get(name) is not None}

    image, start, end = family.image_tokens
    tokenizer = Tokenizer.from_file(
        path / "tokenizer.json",
        special=special,
        eos_ids=_eos_ids(path, generation, config),
        eos_tokens=[family.chat.end] if family.chat is not None else [],
        image=image,
        image_start=start,
        image_end=end,
        added=added_tokens(path, settings, special),
    )
    preprocessor = read_preprocessor(path)
    images = known.images(config, preprocessor) if known is not None else _images(config, preprocessor)
    if images is not None:
        _check_image_ids(tokenizer, config, family, path)
    sources = template_sources(path)
    written = {name: ChatTemplate(source, special, tokenizer.image) for name, source in sources.items()}
    template = written.get("default") or _builtin_for(tokenizer)
    template.for_tools = written.get("tool_use")
    return ProcessorFiles(tokenizer, template, images, SamplingDefaults.from_hf(generation))


def write(
    path: Path,
    tokenizer: Tokenizer,
    template: ChatTemplate,
    images: ImageConfig | None,
    sampling: SamplingDefaults,
) -> None:
    path.mkdir(parents=True, exist_ok=True)
    tokenizer.backend.save(str(path / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        **tokenizer.special,
    }
    _write_json(path / "tokenizer_config.json", settings)
    (path / "chat_template.jinja").write_text(template.source, encoding="utf-8")
    if template.for_tools is not None:
        (path / "additional_chat_templates").mkdir(exist_ok=True)
        (path / "additional_chat_templates" / "tool_use.jinja").write_text(template.for_tools.source, encoding="utf-8")
    generation = sampling.to_hf() | ({"eos_token_id": sorted(tokenizer.eos_ids)} if tokenizer.eos_ids else {})
    if generation:
        _write_json(path / "generation_config.json", generation)
    if images is not None:
        _write_json(path / "preprocessor_config.json", images.to_hf())


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _content(token: Any) -> str:
    """A token is written as its text, or as an object that holds it."""
    content = token.get("content") if isinstance(token, Mapping) else token
    if not isinstance(content, str):
        raise ConfigError(f"tokenizer_config.json: a token must be a text or an object with content, found {token!r}")
    return content


def _images(config: Mapping[str, Any], preprocessor: Mapping[str, Any]) -> ImageConfig | None:
    """Of a folder without a network of ours. None unless one of the two describes images; `config.json` wins."""
    if not preprocessor and "vision_config" not in config and "force_image_size" not in config:
        return None
    return ImageConfig.from_hf(config, preprocessor)


def _eos_ids(path: Path, generation: Mapping[str, Any], config: Mapping[str, Any]) -> set[int]:
    """Whichever file names a token as an end means it: the published ones differ, and each alone is too short."""
    ids: set[int] = set()
    for name, source in (
        ("generation_config.json", generation),
        ("config.json", config),
        ("config.json", nested_decoder(config)),
    ):
        eos = source.get("eos_token_id") if isinstance(source, Mapping) else None
        found = eos if isinstance(eos, list) else [] if eos is None else [eos]
        if not all(type(index) is int for index in found):
            raise ConfigError(f"{path / name}: eos_token_id must be a token id or a list of them, found {eos!r}")
        ids.update(found)
    return ids


def _check_image_ids(tokenizer: Tokenizer, config: Mapping[str, Any], family: Family, path: Path) -> None:
    """The network overwrites rows by id and the tokenizer writes ids by name: they have to mean the same ones."""
    for token, keys in (
        (tokenizer.image, ("img_context_token_id", "image_token_id", "image_token_index")),
        (tokenizer.image_start, ("img_start_token_id", "vision_start_token_id")),
        (tokenizer.image_end, ("img_end_token_id", "vision_end_token_id")),
    ):
        for key in keys:
            if (wanted := config.get(key)) is not None and tokenizer.token_id(token) != wanted:
                raise CheckpointError(
                    f"{path / 'config.json'} says {key} = {wanted}, but tokenizer.json gives {token!r} the id "
                    f"{tokenizer.token_id(token)}"
                )
    said = any(config.get(key) is not None for key in ("img_context_token_id", "image_token_id", "image_token_index"))
    if family.model_types and not said and tokenizer.image_id != family.image_ids[0]:
        raise CheckpointError(
            f"{path / 'config.json'} does not say which token is a picture (img_context_token_id); this family's is "
            f"{family.image_ids[0]}, but tokenizer.json gives {tokenizer.image!r} the id {tokenizer.image_id}"
        )


def template_sources(path: Path) -> dict[str, str]:
    """The checkpoint's own chat templates by name, one of them "default"; none, if it brings none."""
    jinja = path / "chat_template.jinja"
    if jinja.is_file():
        others = {file.stem: file for file in sorted((path / "additional_chat_templates").glob("*.jinja"))}
        return {name: _template_text(file) for name, file in {**others, "default": jinja}.items()}
    for name in ("chat_template.json", "processor_config.json", "tokenizer_config.json"):
        file = path / name
        said = source = read_json(file).get("chat_template") if file.is_file() else None
        if isinstance(source, list):  # several by name: {"name": "default", "template": ...}
            source = {entry.get("name"): entry.get("template") for entry in source if isinstance(entry, Mapping)}
        if not source:
            continue
        by_name = source if isinstance(source, Mapping) else {"default": source}
        if not all(isinstance(key, str) and isinstance(text, str) for key, text in by_name.items()):
            raise CheckpointError(
                f"{file}: chat_template must be a text, found {type(said).__name__} (several need names)"
            )
        if "default" not in by_name and len(by_name) > 1:
            raise CheckpointError(f"{file}: of the chat templates {', '.join(sorted(by_name))} none is called default")
        return {"default": next(iter(by_name.values())), **by_name}
    return {}


def _template_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(f"cannot read the chat template {file}: {error}") from error


def _builtin_for(tokenizer: Tokenizer) -> ChatTemplate:
    for chat in (family.chat for family in families()):
        if chat is not None and tokenizer.token_id(chat.mark) is not None:
            return ChatTemplate.builtin(chat.template, tokenizer.special, tokenizer.image)
    raise ConfigError("the checkpoint has no chat template, and its tokens fit none of ours; add chat_template.jinja")
