"""JSON files of checkpoints, read the way their writers mean them.

The published `config.json` is not strict JSON (it holds `Infinity`), so reading is tolerant: `Infinity`, `NaN` and
trailing commas pass.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from holotron.errors import ConfigError
from holotron.model.formats import LFS_POINTER, is_lfs_pointer


def read_json(path: Path) -> dict[str, Any]:
    """The object that a file holds; a `ConfigError` says what is wrong with it."""
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors put a mark at the beginning
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text: {error}") from error
    try:
        data = json.loads(text)
    except json.JSONDecodeError:
        try:
            data = json.loads(_without_trailing_commas(text))
        except json.JSONDecodeError as error:
            if is_lfs_pointer(path):
                raise ConfigError(f"{path}: {LFS_POINTER}") from None
            raise ConfigError(
                f"{path} is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}"
            ) from error
    except RecursionError:
        raise ConfigError(f"{path} is not a configuration: its JSON is nested too deeply") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{path} must hold a JSON object, found {type(data).__name__}")
    return data


def read_preprocessor(folder: Path) -> dict[str, Any]:
    """What a checkpoint's files say of images beside config.json: a part of the processor's file, as transformers 5
    writes it, or else a file of its own, which is then the older one. Nothing, if there is neither."""

    def optional(name: str) -> dict[str, Any]:
        return read_json(folder / name) if (folder / name).is_file() else {}

    inner = optional("processor_config.json").get("image_processor")
    said = inner if isinstance(inner, dict) else optional("preprocessor_config.json")
    return {key: value for key, value in said.items() if value is not None}


def _without_trailing_commas(text: str) -> str:
    # Strings are matched first so that a comma inside one is left alone.
    return re.sub(r'("(?:[^"\\]|\\.)*")|,(\s*[}\]])', lambda m: m[1] or m[2], text)
