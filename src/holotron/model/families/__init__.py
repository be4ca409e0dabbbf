"""Model families, one file each: how to recognise a checkpoint, read and write its configuration, name its tensors,
show it pictures, talk to it, and how its publishers run it as an agent.

    config = load_config("Holotron-12B")              # a folder with config.json, of whatever family
    family = family_of(config)                        # its description, see `base.Family`
    dump_config(config)                               # back to what config.json holds

A family of your own is a class with the methods of `base.Family`, registered under a name:

    @FAMILIES.register("mine")                        # or an entry point of the group "holotron.families"
    class Mine(Family): ...
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holotron.errors import ConfigError
from holotron.model.families.base import AgentDefaults, Chat, Family, ImageTokens
from holotron.model.formats import adapter_beside, other_form
from holotron.model.hf_json import read_json, read_preprocessor
from holotron.registry import Registry

if TYPE_CHECKING:
    from holotron.model.config import ModelConfig

__all__ = [
    "FAMILIES",
    "AgentDefaults",
    "Chat",
    "Family",
    "ImageTokens",
    "agent_defaults",
    "dump_config",
    "families",
    "family",
    "family_of",
    "load_config",
    "parse_config",
    "recognise",
]

_HERE = "holotron.model.families"
FAMILIES: Registry[type[Family]] = Registry(
    "model family",
    "holotron.families",
    {
        "nemotron_vl": f"{_HERE}.nemotron_vl",
        "nemotron_omni": f"{_HERE}.nemotron_omni",
        "nemotron_h": f"{_HERE}.nemotron_h",
        "qwen3": f"{_HERE}.qwen3",
        "qwen3_vl": f"{_HERE}.qwen3_vl",
        "qwen3_5": f"{_HERE}.qwen3_5",
        "qwen3_5_vl": f"{_HERE}.qwen3_5_vl",
        "hosted": f"{_HERE}.hosted",
    },
)


@cache
def family(name: str) -> Family:
    return FAMILIES.get(name)()


def families() -> Iterator[Family]:
    return (family(name) for name in FAMILIES.names())


def family_of(config: ModelConfig) -> Family:
    return family(config.family)


def recognise(data: Mapping[str, Any]) -> Family | None:
    """The family that a `config.json` belongs to."""
    return next((known for known in families() if known.recognises(data)), None)


def agent_defaults(name: str) -> AgentDefaults | None:
    """How to run the model of this name as an agent. Of several descriptions the most particular one counts: the one
    that fits the longest piece of the name."""
    fits = (
        (len(found[0]), known)
        for each in families()
        for known in each.agents
        if (found := re.search(known.names, name.lower()))
    )
    return max(fits, key=lambda fit: fit[0], default=(0, None))[1]


def load_config(path: str | Path) -> ModelConfig:
    """Read a checkpoint folder's `config.json` (or the file itself)."""
    path = Path(path)
    file = path / "config.json" if path.is_dir() else path
    if path.is_dir() and not file.is_file():
        raise ConfigError(f"{path} holds no config.json: {other_form(path) or 'a checkpoint folder needs one'}")
    if path.is_dir() and (adapter := adapter_beside(path)):
        raise ConfigError(adapter)
    return parse_config(read_json(file), str(file), read_preprocessor(file.parent) or None)


def parse_config(
    data: Mapping[str, Any], where: str = "config.json", preprocessor: Mapping[str, Any] | None = None
) -> ModelConfig:
    found = recognise(data)
    if found is None:
        known = ", ".join(kind for each in families() for kind in each.model_types)
        raise ConfigError(
            f"{where}: model_type {data.get('model_type')!r} (architectures {data.get('architectures')}) belongs to no "
            f"family that is known here; known are {known}"
        )
    return found.read(data, where, preprocessor)


def dump_config(config: ModelConfig) -> dict[str, Any]:
    """A `config.json` in the published form. A loaded model keeps the file it came from, sizes included; only its
    references to Python files, which are not copied along, are pointed to the repository that has them."""
    known = family_of(config)
    written = dict(config.raw) if config.raw is not None else known.write(config)
    classes = written.pop("auto_map", None)
    if isinstance(classes, Mapping) and known.code:
        names = {kind: str(name).rpartition("--") for kind, name in classes.items()}
        written["auto_map"] = {kind: f"{where or known.code}--{name}" for kind, (where, _, name) in names.items()}
    return written
