"""What was run, in enough detail to run it again, and to refuse to mix it with anything else.

manifest = describe_run("rollout", policy=..., limits=...)
agree(folder, {"format": 1, **manifest})                                       # more seeds may be added
agree(folder, {"format": 1, "episodes": ids, **manifest}, equal=("config", "episodes"))    # neither more nor fewer
"""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import holotron
from holotron.errors import ConfigError, InputError
from holotron.storage.files import entries, exists, make_folder, read_file, replace_json
from holotron.storage.hardware import describe_hardware

MANIFEST = "manifest.json"
_PACKAGES = ("playwright", "miniwob", "openai", "torch", "pillow", "pyarrow")


def describe_run(
    kind: str,
    *,
    policy: Mapping[str, Any],
    limits: Mapping[str, Any],
    environment: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A manifest. `config` decides whether two runs are the same experiment; the rest says where it ran."""
    return {
        "kind": kind,
        "config": {"policy": dict(policy), "limits": dict(limits), "environment": dict(environment or {})},
        "holotron": holotron.__version__,
        "commit": source_commit(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: found for name in _PACKAGES if (found := _version(name))},
        "hardware": describe_hardware(),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def source_commit() -> str | None:
    """The commit of our source, when we run from a checkout of our own (not one that merely holds our install)."""
    package = Path(holotron.__file__).parent

    def git(*arguments: str) -> str | None:
        try:
            command = ["git", "-C", str(package), *arguments]
            done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    if git("ls-files", "--error-unmatch", "types.py") is None:
        return None
    commit = git("rev-parse", "HEAD")
    if commit is None:
        return None
    return f"{commit}+changes" if git("status", "--porcelain", "--", str(package)) else commit


# ------------------------------------------------------------------------------------------------- one folder, one run


def read_manifest(folder: Path, format: int) -> dict[str, Any]:
    try:
        manifest = json.loads(read_file(folder / MANIFEST))
        found = manifest.get("format")
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{folder} is not a run directory: it has no {MANIFEST}") from None
    except (ValueError, AttributeError) as error:
        raise InputError(f"{folder / MANIFEST} is damaged: {error}") from None
    if found != format:
        raise InputError(f"{folder} has format {found!r}; this version reads format {format}")
    return dict(manifest)


def agree(folder: Path, wanted: Mapping[str, Any], *, equal: Sequence[str] = ("config",)) -> dict[str, Any]:
    """Write the manifest of a new folder, or make sure that an old one is the same experiment: its entries that `equal`
    names must be the same. Gives the manifest that holds from now on."""
    wanted = json.loads(json.dumps(wanted))
    if not exists(folder / MANIFEST):
        make_folder(folder)
        if any(not name.startswith(".") for name in entries(folder)):  # a lock, the address of a live page
            raise ConfigError(
                f"{folder} is not empty and not a run directory: it has no {MANIFEST}. Choose another folder."
            )
        replace_json(folder / MANIFEST, wanted)
        return dict(wanted)
    found = read_manifest(folder, wanted["format"])
    different = [line for name in equal for line in differences(found.get(name), wanted.get(name), name)]
    if different:
        more = f"; and {len(different) - _MOST_SHOWN} more" if len(different) > _MOST_SHOWN else ""
        raise ConfigError(
            f"{folder} was made with another configuration ({'; '.join(different[:_MOST_SHOWN])}{more}). "
            "Use the same settings to go on with it, or choose another folder."
        )
    return found


_MOST_SHOWN = 5


def differences(old: Any, new: Any, where: str) -> list[str]:
    """What is not the same, line by line. A name below `config` is known to the reader without that word."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        keys = [*old, *(key for key in new if key not in old)]
        inside = "" if where == "config" else f"{where}."
        return [line for key in keys for line in differences(old.get(key), new.get(key), f"{inside}{key}")]
    if old == new:
        return []
    if _are_names(old) and _are_names(new):
        gone, come = sorted(set(old) - set(new)), sorted(set(new) - set(old))
        parts = [_some("new", come), _some("left out", gone)] if gone or come else ["in another order"]
        return [f"{where}: {', '.join(part for part in parts if part)}"]
    return [f"{where} was {old!r}, is {new!r}"]


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _some(word: str, names: list[str]) -> str:
    shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    return f"{len(names)} {word} ({shown})" if names else ""
