"""Errors of other libraries that are the machine's doing and not a bug: no space, no permission, no memory, no GPU."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from holotron.errors import CapacityError, HolotronError, MissingDependency, StorageError

# package -> the extra that brings it
EXTRAS = {
    "huggingface_hub": "hub", "triton": "gpu",
    "fastapi": "serve", "uvicorn": "serve", "prometheus_client": "serve", "llguidance": "serve", "httpx": "serve",
    "playwright": "agent", "miniwob": "agent", "openai": "agent", "pyarrow": "agent",
    "peft": "train", "tensorboard": "train", "matplotlib": "plot",
}  # fmt: skip


def explained(error: BaseException, words: Sequence[str]) -> HolotronError | None:
    """One sentence for it, with what to do; None: we do not know it, so it is a bug. `words` are the command line: what
    the file system says about a path that stands in it is the user's to put right."""
    if isinstance(error, ImportError) and (package := (error.name or "").partition(".")[0]) in EXTRAS:
        return MissingDependency.extra(package, EXTRAS[package])
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":  # torch's, of a GPU
        return CapacityError("not enough memory. `holotron plan MODEL` says what fits; fewer sessions need less")
    from holotron.storage.files import refusal

    if (refused := refusal(error)) is not None or not isinstance(error, OSError) or error.filename is None:
        return refused
    path = Path(os.fsdecode(error.filename))
    named = [part for word in words for part in (word, word.partition("=")[2]) if part]
    bare = path.with_name(path.stem)  # a library that draws puts .png behind a name that has no ending
    if any(path.is_relative_to(one) or Path(one).is_relative_to(path) or Path(one) == bare for one in named):
        return StorageError(f"{path}: {error.strerror}. Name another path")
    return None
