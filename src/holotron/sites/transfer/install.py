"""A virtual environment for somebody else's application, made once under the user's cache.

    python = installed("trac", ["Trac==1.6"])       # the interpreter that has these packages, and nothing of ours

It is whole or absent: the folder gets its name only when all packages are in, so a killed installation leaves nothing
that looks finished.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from holotron.errors import ConfigError

MOST_SECONDS = 900  # for each of the two commands


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "holotron" / "transfer"


def installed(name: str, packages: Sequence[str]) -> Path:
    """Another list of packages, or another Python, is another environment: nothing old is ever run by mistake."""
    mark = hashlib.sha256("\n".join((sys.version, *packages)).encode()).hexdigest()[:12]
    target = cache_folder() / f"{name}-{mark}"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        making = Path(tempfile.mkdtemp(prefix=f"making-{name}-", dir=target.parent))
        try:
            run([sys.executable, "-m", "venv", str(making)])
            run([str(making / "bin" / "python"), "-m", "pip", "install", "--quiet", *packages])
            making.rename(target)  # only commands with a path inside them mind, and none of them is used
        except OSError as error:
            if not target.exists():  # else somebody was faster
                raise ConfigError(f"{target} cannot be made: {error}") from error
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return target / "bin" / "python"


def run(command: Sequence[str]) -> None:
    """A command that has to succeed; if not, its last line is the reason."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=MOST_SECONDS)
    except subprocess.TimeoutExpired:
        raise ConfigError(f"{' '.join(command)} took more than {MOST_SECONDS} seconds") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise ConfigError(f"{' '.join(command)} failed: {said[-1] if said else f'status {done.returncode}'}")
