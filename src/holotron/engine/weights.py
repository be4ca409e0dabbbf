"""New weights for a running engine, in place: captured graphs read them where the old ones were.

A parameter's change comes whole, as a tensor; or as less than that: the few numbers that differ (`Sparse`), a product
of two thin matrices on top of what was loaded first (`LowRank`). Or it is announced and received while it is loaded
(`Arriving`), so that a second copy of the model need not fit beside the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from holotron.errors import CheckpointError, HolotronError
from holotron.model.adapters import merge_adapter
from holotron.model.derived import Refreshed
from holotron.model.layers import Experts, Projection
from holotron.model.model import Holotron

_VISION = ("vision_model.", "mlp1.")  # the tower and the projector


@dataclass(frozen=True)
class Sparse:
    """Numbers that take the place of others; the rest stays as it is. Exact, if the rest is what the sender has."""

    indices: Tensor  # in the flattened parameter
    values: Tensor


@dataclass(frozen=True)
class LowRank:
    """The parameter as it was when the first of these came, and `scale * up @ down`. Each replaces the one before."""

    down: Tensor  # [rank, columns]
    up: Tensor  # [rows, rank]
    scale: float


@dataclass(frozen=True)
class Arriving:
    """A tensor that is received when it is its turn."""

    shape: tuple[int, ...]
    receive: Callable[[], Tensor]


Change = Tensor | Sparse | LowRank | Arriving


class HalfLoaded(HolotronError):
    """New weights stopped arriving half-way: what the engine holds now is neither the old nor the new model."""


class WeightLoader:
    def __init__(self, model: Holotron) -> None:
        self._model = model
        self._bases: dict[str, Tensor] = {}  # parameters without their low-rank changes

    def load(self, changes: Mapping[str, Change]) -> bool:
        """All of them or, if one does not fit, none. Tells whether the vision side was among them."""
        model = self._model
        own = dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers())
        load: dict[str, Callable[[Tensor], None]] = {}  # what may have to be rounded to 8 bits
        for name, module in model.named_modules():
            if isinstance(module, Projection):
                load[f"{name}.weight"] = module.load
            elif isinstance(module, Experts):
                load |= {f"{name}.{part}": partial(module.load, part) for part in module.parts}
        for name, change in changes.items():
            if name not in own:
                raise CheckpointError(f"the model has no parameter {name!r}")
            _check(name, change, own[name])
        begun = ""
        try:
            with torch.no_grad():
                for name, change in changes.items():
                    begun = name
                    self._apply(name, change, own[name], load.get(name))
        except HolotronError:
            raise
        except Exception as error:
            raise HalfLoaded(f"new weights stopped arriving at {begun}: {error}") from error
        for module in model.modules():
            if isinstance(module, Refreshed):
                module.refresh()
        return any(name.startswith(_VISION) for name in changes)

    def _apply(self, name: str, change: Change, own: Tensor, load: Callable[[Tensor], None] | None) -> None:
        if isinstance(change, LowRank):
            if name not in self._bases:
                self._bases[name] = _copy_of(own)
            merge_adapter(self._bases[name], change.down, change.up, change.scale, out=own.data)
            return
        self._bases.pop(name, None)
        if isinstance(change, Sparse):
            flat = own.data.view(-1)
            flat[change.indices.to(flat.device).long()] = change.values.to(flat.device, flat.dtype)
            return
        tensor = change.receive() if isinstance(change, Arriving) else change
        if load is not None:
            load(tensor)
        else:
            own.copy_(tensor, non_blocking=True)


def _check(name: str, change: Change, own: Tensor) -> None:
    if isinstance(change, Tensor | Arriving):
        if tuple(change.shape) != tuple(own.shape):
            raise CheckpointError(f"{name} has shape {list(change.shape)}, the model's has {list(own.shape)}")
        return
    if not own.is_floating_point() or own.element_size() < 2:
        raise CheckpointError(f"{name} is kept in 8 bits here: send it whole, it cannot be changed in part")
    if isinstance(change, LowRank):
        if own.dim() != 2 or (change.up.shape[0], change.down.shape[1]) != tuple(own.shape):
            shapes = f"{list(change.up.shape)} by {list(change.down.shape)}"
            raise CheckpointError(f"{name} has shape {list(own.shape)}, which no adapter of {shapes} fits")
        if change.up.shape[1] != change.down.shape[0]:
            raise CheckpointError(f"{name}: an adapter's two matrices have different ranks")
        return
    if change.indices.shape != change.values.shape or change.indices.dim() != 1:
        raise CheckpointError(f"{name}: as many indices as values, please, each in one row")
    if len(change.indices) and not 0 <= int(change.indices.min()) <= int(change.indices.max()) < own.numel():
        raise CheckpointError(f"{name} has {own.numel():,} numbers; an index lies outside of them")
    if not own.data.is_contiguous():
        raise CheckpointError(f"{name} does not lie in one piece here: send it whole")


def _copy_of(own: Tensor) -> Tensor:
    """On the device if there is room for it, else on the host."""
    try:
        return own.detach().clone()
    except torch.OutOfMemoryError:
        return own.detach().cpu()
