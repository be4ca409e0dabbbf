"""Stored responses on disk, one JSON file each, beside the sessions of the journal: should this process be killed,
another one continues them. See `journal` for who can read them and for how long they stay."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from holotron.server.journal import RESPONSES
from holotron.server.private import private_folder
from holotron.server.responses.items import Json
from holotron.server.responses.store import Stored


class ResponseFiles:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def save(self, told: Json) -> None:
        path = self._path(told["owner"], told["id"])
        private_folder(self._folder, told["owner"], RESPONSES)
        new = path.with_suffix(".new")
        new.touch(0o600)
        new.write_text(json.dumps(told))
        new.replace(path)

    def gone(self, stored: Stored) -> None:
        """It cannot be asked for any more; later ones may still need what it says."""
        path = self._path(stored.owner, stored.id)
        with contextlib.suppress(OSError):
            path.replace(path.with_suffix(".gone"))

    def remove(self, stored: Stored) -> None:
        path = self._path(stored.owner, stored.id)
        path.unlink(missing_ok=True)
        path.with_suffix(".gone").unlink(missing_ok=True)

    def chain(self, owner: str, id: str) -> list[Json]:
        """It and those it continues, the first one first. Nothing, if it is not there."""
        chain: list[Json] = []
        wanted: str | None = id
        while wanted is not None:
            path = self._path(owner, wanted)
            told = _read(path) or (_read(path.with_suffix(".gone")) if chain else None)
            if told is None or told["owner"] != owner:
                break
            chain.append(told | {"gone": not path.exists()})
            wanted = told["previous"]
        return chain[::-1]

    def _path(self, owner: str, id: str) -> Path:
        return self._folder / owner / RESPONSES / f"{id}.json"


def _read(path: Path) -> Json | None:
    try:
        told: Json = json.loads(path.read_text())
        return told
    except (OSError, ValueError):
        return None
