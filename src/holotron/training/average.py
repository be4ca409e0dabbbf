"""The mean of several policies that began as one.

    average([Path("runs/rl-1"), Path("runs/rl-2"), Path("runs/rl-3")], Path("runs/rl-mean"))

What runs of reinforcement learning change has a part that all of them share, because rewards ask for it, and a part of
each one's own, the random walk of noisy steps. The mean keeps the first and shrinks the second by the root of their
number. That holds for runs that began with the same weights and have not gone far; policies trained apart from the
start have nothing in common to keep.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from holotron.agent.profiles import profile_for, write_profile
from holotron.errors import InputError
from holotron.model.loading import load_model, resolve
from holotron.model.model import Holotron
from holotron.model.weights import save_checkpoint
from holotron.model.weights.card import ModelCard
from holotron.model.weights.names import named_tensors
from holotron.training.export import FOLDER


def average(sources: Sequence[Path], out: Path) -> None:
    """Write the mean of these checkpoints (or of the runs that hold them) as a checkpoint into `out`."""
    names = [source / FOLDER if (source / FOLDER).is_dir() else source for source in sources]
    if len(names) < 2:
        raise InputError("a mean is of two policies or more")
    folders = [_weights(name) for name in names]
    model, processor = load_model(folders[0], device="cpu")
    weights = _tensors(model)  # the model's own: no second copy of a large one
    for folder in folders[1:]:
        other = load_model(folder, device="cpu").model
        if replace(other.config, name=model.config.name) != model.config:
            raise InputError(f"{folder} is of another shape than {folders[0]}; a mean is of policies that began as one")
        for name, tensor in _tensors(other).items():
            weights[name] += tensor
    for tensor in weights.values():
        tensor /= len(folders)
    made = f"The mean of the weights of {len(folders)} policies: {', '.join(map(str, sources))}."
    # Matrices as in the files: the mean of 16-bit numbers would need more.
    dtype = min(model.file_dtypes.values(), key=lambda dtype: dtype.itemsize)
    save_checkpoint(model, out, dtype=dtype, card=ModelCard(out.name, str(names[0]), made))
    processor.save(out)
    write_profile(out, profile_for(str(names[0]), folders[0]))


def _tensors(model: Holotron) -> dict[str, Tensor]:
    """Each once: a head that is the table of embeddings is summed and divided with it."""
    return {name: tensor.detach() for name, tensor in named_tensors(model)}


def _weights(name: Path) -> Path:
    found = resolve(name)
    if not isinstance(found, Path):
        raise InputError(f"{name} is a preset without weights; a mean is of policies that have learnt")
    return found
