"""Screenshots by content: `images/ab/abcd....png`. The same picture is stored once, whoever took it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from holotron.errors import InputError
from holotron.storage.files import replace_file
from holotron.types import Observation

_SUFFIX = {"image/png": ".png", "image/jpeg": ".jpg", "image/webp": ".webp"}


class Pictures:
    def __init__(self, run: Path) -> None:
        self._run = run

    def keep(self, observation: Observation) -> str:
        """Store a screenshot; its path relative to the run directory."""
        digest = hashlib.sha256(observation.image).hexdigest()
        suffix = _SUFFIX.get(observation.mime)
        if suffix is None:
            raise InputError(f"cannot store a screenshot of type {observation.mime!r}; use PNG or JPEG")
        name = f"images/{digest[:2]}/{digest}{suffix}"
        path = self._run / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, observation.image)
        return name

    def load(self, name: str) -> bytes:
        path = self._run / name
        try:
            return path.read_bytes()
        except FileNotFoundError:
            raise InputError(f"the run {self._run} lacks {name}; was its images folder copied along?") from None
