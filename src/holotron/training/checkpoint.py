"""Checkpoints of a running training: whole or absent, and enough to go on as if nothing had happened.

    checkpoints/step-00001200/
        state.json              step, samples used up by each lane, tokens seen, seconds spent
        shard-*.safetensors     what the optimiser holds: fp32 weights and both moments; each rank writes its own parts

Everything else (learning rate, order of the data, augmentations) is a function of the recipe and the step. A checkpoint
is written under another name and moved into place, so a kill at any moment leaves the last one intact.

The files are those of torch's distributed checkpoints, in safetensors: each says which part of a tensor it holds, so
any number of ranks can read what any other number has written. All ranks need the same folder.
"""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch.distributed.checkpoint as dcp
from safetensors import SafetensorError
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.metadata import TensorStorageMetadata

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
    positions: list[int] = field(default_factory=lambda: [0])  # of each lane's data
    more: dict[str, Any] = field(default_factory=dict)  # what else a kind of training has to remember, as JSON


class Checkpoints:
    def __init__(self, folder: Path, keep: int, ranks: Ranks) -> None:
        self._folder = folder
        self._keep = keep
        self._ranks = ranks

    def latest(self) -> Path | None:
        """The same for every rank, also while another process tidies up."""
        found = sorted(self._folder.glob("step-*"))
        name = self._ranks.told(found[-1].name if found else "")
        return self._folder / name if name else None

    def save(self, progress: TrainingProgress, optimiser: Optimiser) -> Path:
        final = self._folder / f"step-{progress.step:08d}"
        draft = self._folder / f".{final.name}.partial"
        if self._ranks.first:
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir(parents=True)
        self._ranks.barrier()
        if not draft.is_dir():
            raise CheckpointError(f"rank {self._ranks.rank} does not see {draft}: all ranks need the same folder")
        writer = dcp.HuggingFaceStorageWriter(str(draft), save_distributed=True)
        with self._together() as how:
            dcp.save(optimiser.state(), storage_writer=writer, **how)
        if self._ranks.first:
            (draft / "state.json").write_text(json.dumps(asdict(progress), indent=2) + "\n")
            shutil.rmtree(final, ignore_errors=True)
            draft.rename(final)
            for old in sorted(self._folder.glob("step-*"))[: -self._keep]:
                shutil.rmtree(old, ignore_errors=True)
        self._ranks.barrier()
        return final

    def load(self, path: Path, optimiser: Optimiser) -> TrainingProgress:
        mine = optimiser.state()
        try:
            progress = TrainingProgress(**json.loads((path / "state.json").read_text()))
            reader = dcp.HuggingFaceStorageReader(str(path))
            found = reader.read_metadata().state_dict_metadata
            shapes = {name: tuple(it.size) for name, it in found.items() if isinstance(it, TensorStorageMetadata)}
            _check(path, mine, shapes)
            with self._together() as how:
                dcp.load(mine, storage_reader=reader, **how)
        except (OSError, ValueError, TypeError, KeyError, SafetensorError, CheckpointException) as error:
            raise CheckpointError(f"{path} cannot be read: {error}") from error
        optimiser.restored()
        return progress

    @contextmanager
    def _together(self) -> Iterator[dict[str, Any]]:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="torch.distributed is disabled")  # one rank needs no others
            yield {"process_group": self._ranks.control, "no_dist": not self._ranks.several}


def _check(path: Path, mine: dict[str, Tensor], shapes: dict[str, tuple[int, ...]]) -> None:
    if wrong := sorted(mine.keys() ^ shapes.keys()):
        raise CheckpointError(f"{path} is of another model or recipe: {wrong[0]} and {len(wrong) - 1} more differ")
    for name, tensor in mine.items():
        if tuple(tensor.shape) != shapes[name]:
            raise CheckpointError(f"{path}: {name} has another shape")
