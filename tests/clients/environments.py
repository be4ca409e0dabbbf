"""Virtual environments for clients, one for each, because they pin versions of one another's packages.

Made on demand from a lock file into `.cache/clients`, and again when the lock file changes. To renew a lock file,
install the client into an empty environment and `pip freeze` it there.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / ".cache" / "clients"


def python_of(client: str) -> Path:
    """The Python of an environment that holds exactly what `<client>.txt` lists."""
    lock = HERE / f"{client}.txt"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    key = hashlib.sha256(lock.read_bytes() + version.encode()).hexdigest()[:12]
    folder = CACHE / f"{client}-{key}"
    python, done = folder / "bin" / "python", folder / "complete"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check", "-r", lock]
        subprocess.run(pip, check=True, env={**os.environ, "PIP_NO_INPUT": "1"})
        done.touch()
    return python
