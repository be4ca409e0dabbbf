"""Files that are whole or absent: written beside their place, then moved into it."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Any

TEMPORARY = ".tmp"


def replace_file(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Write `data` so that a reader, or a crash, sees the old file or the new one and nothing between. `durable` also
    survives a power cut."""
    temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}{TEMPORARY}")
    with temporary.open("wb") as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    temporary.replace(path)


def replace_json(path: Path, value: Any) -> None:
    replace_file(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode(), durable=True)


def sweep_temporaries(folder: Path) -> None:
    """Remove what a killed writer left behind."""
    for path in folder.glob(f"*{TEMPORARY}"):
        path.unlink(missing_ok=True)
