"""Checkpoints of a running training: whole or absent, and enough to go on as if nothing had happened.

    checkpoints/step-00001200/
        state.json              step, samples used up by each rank, tokens seen, seconds spent
        rank-0.safetensors      what the optimiser holds: fp32 weights and both moments; one file per rank

Everything else (learning rate, order of the data, augmentations) is a function of the recipe and the step. A checkpoint
is written under another name and moved into place, so a kill at any moment leaves the last one intact.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from holotron.errors import CheckpointError
from holotron.training.distributed import Ranks
from holotron.training.optimiser import Optimiser


@dataclass
class TrainingProgress:
    """How far a run has come."""

    step: int = 0
    seconds: float = 0.0
    tokens: int = 0  # read or learnt, image tokens included
    learnt: int = 0  # tokens that carried loss
    pictures: int = 0  # tiles encoded
    samples: int = 0
    positions: list[int] = field(default_factory=lambda: [0])  # of each rank's data
    more: dict[str, Any] = field(default_factory=dict)  # what else a kind of training has to remember, as JSON


class Checkpoints:
    def __init__(self, folder: Path, keep: int, ranks: Ranks) -> None:
        self._folder = folder
        self._keep = keep
        self._ranks = ranks

    def latest(self) -> Path | None:
        found = sorted(self._folder.glob("step-*"))
        return found[-1] if found else None

    def save(self, progress: TrainingProgress, optimiser: Optimiser) -> Path:
        final = self._folder / f"step-{progress.step:08d}"
        draft = self._folder / f".{final.name}.partial"
        if self._ranks.first:
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir(parents=True)
        self._ranks.barrier()
        tensors = {name: tensor.detach().cpu() for name, tensor in optimiser.state().items()}
        save_file(tensors, draft / self._file)
        self._ranks.barrier()
        if self._ranks.first:
            (draft / "state.json").write_text(json.dumps(asdict(progress), indent=2) + "\n")
            shutil.rmtree(final, ignore_errors=True)
            draft.rename(final)
            for old in sorted(self._folder.glob("step-*"))[: -self._keep]:
                shutil.rmtree(old, ignore_errors=True)
        self._ranks.barrier()
        return final

    def load(self, path: Path, optimiser: Optimiser) -> TrainingProgress:
        try:
            progress = TrainingProgress(**json.loads((path / "state.json").read_text()))
            if len(progress.positions) != self._ranks.count:
                raise CheckpointError(
                    f"{path} was written by {len(progress.positions)} ranks and there are {self._ranks.count} now; an "
                    "exact resume needs the same number. To go on with another, start a new run from its export"
                )
            tensors = load_file(path / self._file)
        except (OSError, ValueError, TypeError, SafetensorError) as error:
            raise CheckpointError(f"{path} cannot be read: {error}") from error
        mine = optimiser.state()
        if wrong := sorted(mine.keys() ^ tensors.keys()):
            raise CheckpointError(f"{path} is of another model or recipe: {wrong[0]} and {len(wrong) - 1} more differ")
        with torch.no_grad():
            for name, tensor in mine.items():
                if tensor.shape != tensors[name].shape:
                    raise CheckpointError(f"{path}: {name} has another shape")
                tensor.copy_(tensors[name])
        optimiser.restored()
        return progress

    @property
    def _file(self) -> str:
        return f"rank-{self._ranks.rank}.safetensors"
