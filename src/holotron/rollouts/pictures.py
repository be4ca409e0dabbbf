"""Screenshots by content: `images/ab/abcd....png`. The same picture is stored once, whoever took it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from holotron.errors import InputError
from holotron.storage.files import exists, make_folder, read_file, replace_file
from holotron.types import Observation

SUFFIXES = {"image/png": ".png", "image/jpeg": ".jpg", "image/webp": ".webp"}


def picture_name(observation: Observation) -> str:
    """What a screenshot is called, by its content: abcd....png. Empty for a kind that is not stored."""
    suffix = SUFFIXES.get(observation.mime)
    return "" if suffix is None else hashlib.sha256(observation.image).hexdigest() + suffix


class Pictures:
    def __init__(self, run: Path) -> None:
        self._run = run
        self._problems: dict[str, str] = {}

    def keep(self, observation: Observation) -> str:
        """Store a screenshot; its path relative to the run directory."""
        called = picture_name(observation)
        if not called:
            raise InputError(f"cannot store a screenshot of type {observation.mime!r}; use PNG or JPEG")
        name = f"images/{called[:2]}/{called}"
        path = self._run / name
        if not exists(path):
            make_folder(path.parent)
            replace_file(path, observation.image)
        return name

    def problem(self, name: str) -> str:
        """What is wrong with a stored picture; "" if it is what its name says."""
        if name not in self._problems:
            try:
                right = hashlib.sha256(read_file(self._run / name)).hexdigest() == Path(name).stem
                self._problems[name] = "" if right else "it is damaged"
            except FileNotFoundError:
                self._problems[name] = "it is missing"
        return self._problems[name]

    def load(self, name: str) -> bytes:
        path = self._run / name
        try:
            return read_file(path)
        except FileNotFoundError:
            raise InputError(f"the run {self._run} lacks {name}; was its images folder copied along?") from None
