"""What the families' readers and writers of `config.json` share.

Several generations of files describe the same thing under different names; all spellings are accepted.
"""

from __future__ import annotations

import json
import math
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
        if not _is_number(value) or int(value) != value or not 1 <= value < _TOO_LARGE:
            raise ConfigError(f"{self.where}: {names[0]} must be a positive whole number, found {value!r}")
        return int(value)

    def number(self, *names: str, default: float) -> float:
        """A positive number."""
        value = self.get(*names, default=default)
        if not _is_number(value) or value <= 0:
            raise ConfigError(f"{self.where}: {names[0]} must be a positive number, found {value!r}")
        return float(value)

    def flag(self, *names: str, default: bool) -> bool:
        value = self.get(*names, default=default)
        if not isinstance(value, bool):
            raise ConfigError(f"{self.where}: {names[0]} must be true or false, found {value!r}")
        return value

    def only(self, name: str, *computed: str | bool) -> None:
        """Refuse whatever is not computed here; left out, it is the first."""
        if (value := self.get(name, default=computed[0])) not in computed:
            raise ConfigError(
                f"{self.where}: {name} {json.dumps(value)} is not supported; this family uses {json.dumps(computed[0])}"
            )

    def strings(self, *names: str) -> list[str] | None:
        value = self.get(*names)
        if value is not None and not (isinstance(value, list) and all(isinstance(item, str) for item in value)):
            raise ConfigError(f"{self.where}: {names[0]} must be a list of names, found {value!r}")
        return value

    def part(self, *names: str, optional: bool = False) -> Fields:
        """A section; an optional one may be absent."""
        value = self.get(*names, default={}) if optional else self.need(*names)
        if not isinstance(value, Mapping):
            raise ConfigError(f"{self.where}: {names[0]} must be an object, found {type(value).__name__}")
        return Fields(value, f"{self.where}: {names[0]}")


_TOO_LARGE = 2**40  # for a size


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def names_kind(data: Mapping[str, Any], kinds: tuple[str, ...]) -> bool:
    """Does a config.json call itself by one of these names?"""
    architectures = data.get("architectures")
    said = [data.get("model_type"), *(architectures if isinstance(architectures, list) else [])]
    return any(kind in said for kind in kinds)


def read_tokens(top: Mapping[str, Any], llm: Mapping[str, Any], image_ids: tuple[int, int, int]) -> TokenIds:
    """`image_ids` are the family's own. Where a file gives the image token alone, its tags follow it."""

    def either(*names: str) -> Any:
        return next((place[name] for name in names for place in (top, llm) if place.get(name) is not None), None)

    def one(*names: str) -> int | None:
        index = either(*names)
        if index is not None and (type(index) is not int or index < 0):
            raise ConfigError(f"config.json: {names[0]} must be a token id, found {index!r}")
        return index

    eos = either("eos_token_id")
    ends = eos if isinstance(eos, list) else [] if eos is None else [eos]
    if not all(type(index) is int for index in ends):
        raise ConfigError(f"config.json: eos_token_id must be a token id or a list of them, found {eos!r}")
    image, *tags = (
        one("img_context_token_id", "image_token_id"),
        one("img_start_token_id", "vision_start_token_id"),
        one("img_end_token_id", "vision_end_token_id"),
    )
    usual = image_ids if image in (None, image_ids[0]) else (image, image + 1, image + 2)
    start, end = (theirs if theirs is not None else ours for theirs, ours in zip(tags, usual[1:], strict=True))
    return TokenIds(
        image=usual[0],
        image_start=start,
        image_end=end,
        bos=one("bos_token_id"),
        eos=tuple(ends),
        first_unsampled=one("first_unsampled_token_id"),
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
