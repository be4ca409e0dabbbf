"""Tokens that a checkpoint names outside of `tokenizer.json`: by hand, or by a tool that wrote only its own files.

transformers adds them when it loads the tokenizer, and so do we: a text would be other tokens without.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import tokenizers

from holotron.errors import CheckpointError, ConfigError
from holotron.model.hf_json import read_json

_NAMED = ("unk_token", "sep_token", "pad_token", "cls_token", "mask_token")  # without those that begin and end a text


class Added(NamedTuple):
    token: tokenizers.AddedToken
    id: int | None  # as the file says
    file: Path


def added_tokens(folder: Path, settings: Mapping[str, Any], special: Mapping[str, str]) -> list[Added]:
    """In the order in which they are added. `settings` is tokenizer_config.json, `special` the tokens with names."""
    file = folder / "tokenizer_config.json"
    extra = settings.get("extra_special_tokens") or settings.get("additional_special_tokens") or []
    named = [special[name] for name in _NAMED if name in special]
    try:
        extra = [*(extra.values() if isinstance(extra, Mapping) else extra)]
        found = [
            Added(_token(token), int(index), file)
            for index, token in (settings.get("added_tokens_decoder") or {}).items()
        ]
        older = folder / "added_tokens.json"
        if "added_tokens_decoder" not in settings and older.is_file():
            marked = {*named, *(_token(token).content for token in extra)}
            found = [Added(_plain(text, text in marked), index, older) for text, index in read_json(older).items()]
        found.sort(key=lambda added: added.id or 0)
        return found + [Added(_token(token), None, file) for token in (*named, *extra)]
    except (TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"{file}: its tokens cannot be read ({error})") from None


def _token(said: Any) -> tokenizers.AddedToken:
    if not isinstance(said, Mapping):
        return _plain(said, special=True)
    if not said.get("content"):
        raise ValueError("one has no content")
    flags = {name: bool(said[name]) for name in ("single_word", "lstrip", "rstrip", "normalized") if name in said}
    return tokenizers.AddedToken(said["content"], special=bool(said.get("special", False)), **flags)


def _plain(text: str, special: bool) -> tokenizers.AddedToken:
    return tokenizers.AddedToken(text, special=special, normalized=not special)


def add_missing(backend: tokenizers.Tokenizer, added: Iterable[Added]) -> None:
    """Those that the tokenizer does not treat as one token already."""
    known = {token.content for token in backend.get_added_tokens_decoder().values()}
    for token, wanted, file in added:
        if token.content in known:
            continue
        known.add(token.content)
        backend.add_tokens([token])
        if wanted is not None and (index := backend.token_to_id(token.content)) != wanted:
            raise CheckpointError(
                f"{file} gives {token.content!r} the id {wanted}, but behind the tokens of tokenizer.json its id is "
                f"{index}"
            )
