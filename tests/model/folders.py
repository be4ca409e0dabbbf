"""Checkpoint folders to change a little: the tiny model with all its files, as `holotron model init` writes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from holotron.model.loading import load_model
from holotron.model.weights import save_checkpoint


def tiny_folder(folder: Path, source: str = "tiny") -> Path:
    model, processor = load_model(source, device="cpu")
    save_checkpoint(model, folder)
    processor.save(folder)
    return folder


def edit(file: Path, **changes: Any) -> None:
    """Set values of a JSON file; None takes the key away."""
    values = json.loads(file.read_text()) if file.exists() else {}
    values |= changes
    file.write_text(json.dumps({key: value for key, value in values.items() if value is not None}))
