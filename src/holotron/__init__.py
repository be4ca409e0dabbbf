"""holotron: serve, run, measure and train computer-use policies of the Holotron family.

What is imported here is stable; everything else may move between 0.x versions.

    load_model      a checkpoint folder, hub id or preset -> (model, processor)
    Holotron        the network;  ModelConfig, preset: what it looks like;  DecoderState: what it remembers
    Processor       text, images and chat turns -> tokens and tiles
    Engine          sessions at high concurrency over one model
    save_checkpoint write a model in the published layout
    errors, types   what is raised; what is passed around (Task, Observation, Action, Step, Trajectory, Completion)

Names are resolved on first use: `import holotron` itself imports neither torch nor a browser.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_PUBLIC = {
    "Holotron": "holotron.model.model",
    "ModelConfig": "holotron.model.config",
    "DecoderState": "holotron.model.cache",
    "Processor": "holotron.model.processor",
    "load_model": "holotron.model.loading",
    "preset": "holotron.model.presets",
    "save_checkpoint": "holotron.model.weights",
    "Engine": "holotron.engine",
    "errors": "holotron.errors",
    "types": "holotron.types",
}

__all__ = [
    "DecoderState",
    "Engine",
    "Holotron",
    "ModelConfig",
    "Processor",
    "__version__",
    "errors",
    "load_model",
    "preset",
    "save_checkpoint",
    "types",
]

if TYPE_CHECKING:
    from holotron import errors, types
    from holotron.engine import Engine
    from holotron.model.cache import DecoderState
    from holotron.model.config import ModelConfig
    from holotron.model.loading import load_model
    from holotron.model.model import Holotron
    from holotron.model.presets import preset
    from holotron.model.processor import Processor
    from holotron.model.weights import save_checkpoint


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'holotron' has no attribute {name!r}")
    module = import_module(_PUBLIC[name])
    return module if name in ("errors", "types") else getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)
