"""What was run, in enough detail to run it again."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import holotron

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
