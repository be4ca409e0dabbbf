"""Errors of other libraries that are the machine's doing and not a bug: no space, no permission, no memory, no GPU."""

from __future__ import annotations

from holotron.errors import CapacityError, HolotronError, MissingDependency

# package -> the extra that brings it
EXTRAS = {
    "huggingface_hub": "hub", "triton": "gpu",
    "fastapi": "serve", "uvicorn": "serve", "prometheus_client": "serve", "llguidance": "serve", "httpx": "serve",
    "playwright": "agent", "miniwob": "agent", "openai": "agent", "pyarrow": "agent",
    "peft": "train", "tensorboard": "train", "matplotlib": "plot",
}  # fmt: skip


def explained(error: BaseException) -> HolotronError | None:
    """One sentence for it, with what to do; None: we do not know it, so it is a bug."""
    if isinstance(error, ImportError) and (package := (error.name or "").partition(".")[0]) in EXTRAS:
        return MissingDependency.extra(package, EXTRAS[package])
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":  # torch's, of a GPU
        return CapacityError("not enough memory. `holotron plan MODEL` says what fits; fewer sessions need less")
    from holotron.storage.files import refusal

    return refusal(error)
