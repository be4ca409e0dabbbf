"""What the families' readers and writers of `config.json` share.

Several generations of files describe the same thing under different names; all spellings are accepted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holotron.errors import ConfigError
from holotron.model.config import DecoderConfig, TokenIds


class Fields:
    """Look fields up by any of their names; say which names were tried when none is there."""

    def __init__(self, data: Mapping[str, Any], where: str) -> None:
        self.data, self.where = data, where

    def get(self, *names: str, default: Any = None) -> Any:
        for name in names:
            if self.data.get(name) is not None:
                return self.data[name]
        return default

    def need(self, *names: str) -> Any:
        value = self.get(*names)
        if value is None:
            raise ConfigError(f"{self.where} lacks {' / '.join(names)}")
        return value

    def integer(self, *names: str, default: int | None = None) -> int:
        value = self.get(*names, default=default) if default is not None else self.need(*names)
        if isinstance(value, bool) or not isinstance(value, int | float) or int(value) != value or value < 1:
            raise ConfigError(f"{self.where}: {names[0]} must be a positive whole number, found {value!r}")
        return int(value)

    def part(self, *names: str) -> Fields:
        """A section that has to be there."""
        value = self.need(*names)
        if not isinstance(value, Mapping):
            raise ConfigError(f"{self.where}: {names[0]} must be an object, found {type(value).__name__}")
        return Fields(value, f"{self.where}: {names[0]}")


def names_kind(data: Mapping[str, Any], kinds: tuple[str, ...]) -> bool:
    """Does a config.json call itself by one of these names?"""
    architectures = data.get("architectures")
    said = [data.get("model_type"), *(architectures if isinstance(architectures, list) else [])]
    return any(kind in said for kind in kinds)


def read_tokens(top: Mapping[str, Any], llm: Mapping[str, Any], image_ids: tuple[int, int, int]) -> TokenIds:
    """`image_ids` are the family's own. Where a file gives the image token alone, its tags follow it."""

    def either(name: str) -> Any:
        return top.get(name) if top.get(name) is not None else llm.get(name)

    eos = either("eos_token_id")
    image = either("img_context_token_id") or either("image_token_id") or image_ids[0]
    start, end = image_ids[1:] if image == image_ids[0] else (image + 1, image + 2)
    return TokenIds(
        image=image,
        image_start=either("img_start_token_id") or either("vision_start_token_id") or start,
        image_end=either("img_end_token_id") or either("vision_end_token_id") or end,
        bos=either("bos_token_id"),
        eos=tuple(eos) if isinstance(eos, list) else (eos,) if eos is not None else (),
        first_unsampled=either("first_unsampled_token_id"),
    )


def write_tokens(tokens: TokenIds) -> dict[str, Any]:
    return {
        "img_context_token_id": tokens.image,
        "img_start_token_id": tokens.image_start,
        "img_end_token_id": tokens.image_end,
        "bos_token_id": tokens.bos,
        "eos_token_id": list(tokens.eos),
        "first_unsampled_token_id": tokens.first_unsampled,
    }


def write_sizes(d: DecoderConfig) -> dict[str, Any]:
    return {
        "vocab_size": d.vocab,
        "hidden_size": d.hidden,
        "tie_word_embeddings": d.tied_embeddings,
        "max_position_embeddings": d.max_positions,
    }
