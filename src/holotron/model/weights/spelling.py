"""The same tensors by other names: files in which a tool has left the path by which it reached the model.

A checkpoint that was trained, pruned or merged elsewhere may call `model.language_model.layers.0...` what its family
calls `model.layers.0...` (`Family.spellings`), or carry the wrapper that its trainer had around the model. What is read
is the same; we write the family's own names.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import TypeVar

from holotron.errors import CheckpointError
from holotron.model.families.base import Family

log = logging.getLogger(__name__)

_WRAPPERS = re.compile(r"^(?:module\.|base_model\.model\.)+|(?:^|(?<=\.))_orig_mod\.")  # DDP, PEFT, torch.compile

T = TypeVar("T")


def spelt(key: str, family: Family) -> str:
    """What the family calls a tensor that a file calls `key`."""
    bare = _WRAPPERS.sub("", key)
    for theirs, ours in family.spellings:
        if found := re.match(theirs, bare):
            return ours + bare[found.end() :]
    return bare


def respelt(tensors: Mapping[str, T], family: Family) -> dict[str, T]:
    """Whatever is known of tensors by name, by the family's names."""
    found: dict[str, T] = {}
    origin: dict[str, str] = {}
    for key, value in tensors.items():
        name = spelt(key, family)
        if name in found:
            raise CheckpointError(f"{origin[name]} and {key} are the same tensor, {name}: expected one of them")
        found[name], origin[name] = value, key
    if other := next(((key, name) for name, key in origin.items() if key != name), None):
        log.info("tensors go by other names than usual: %s is read as %s", *other)
    return found
