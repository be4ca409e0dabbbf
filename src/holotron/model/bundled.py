"""The small policy that ships inside the package."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

BUNDLED = "holotron-mini"


def bundled_folder() -> Path:
    return Path(str(files("holotron"))) / "assets" / BUNDLED
