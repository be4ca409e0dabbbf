"""Several ranks: who we are, sums over all of us, and the model in shards (FSDP2).

    torchrun --nproc-per-node 8 -m holotron train sft RECIPE.toml

Each rank reads its own samples and holds a shard of every layer. Without `torchrun` there is one rank and none of this
does anything.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn

from holotron.errors import ConfigError
from holotron.model.loading import usable_device
from holotron.training.learner import Learner

_CPU = torch.device("cpu")


@dataclass(frozen=True)
class Ranks:
    rank: int = 0
    count: int = 1
    device: torch.device = _CPU

    @property
    def first(self) -> bool:
        return self.rank == 0

    @property
    def several(self) -> bool:
        return self.count > 1

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over all ranks, in place."""
        if self.several:
            dist.all_reduce(tensor)
        return tensor

    def gather(self, value: int) -> list[int]:
        """Every rank's value, for every rank."""
        if not self.several:
            return [value]
        values = torch.zeros(self.count, dtype=torch.int64, device=self.device)
        values[self.rank] = value
        return [int(v) for v in self.sum(values)]

    def agree(self, value: bool) -> bool:
        """What the first rank says: clocks differ, and decisions that involve all must not."""
        return bool(self.gather(int(value))[0])

    def barrier(self) -> None:
        if self.several:
            dist.barrier()


def alone(device: str | None = None) -> Ranks:
    """One rank, for training that cannot be spread. `device`: cuda or cpu; by default the GPU if there is one."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError("this kind of training runs in one process; start it without torchrun")
    return Ranks(device=usable_device(device))


@contextmanager
def ranks(device: str | None = None) -> Iterator[Ranks]:
    """The ranks that `torchrun` started, or one alone. `device`: cuda or cpu; by default the GPU if there is one."""
    here = usable_device(device)
    if "WORLD_SIZE" not in os.environ:
        yield Ranks(device=here)
        return
    kind = here.type
    local = int(os.environ.get("LOCAL_RANK", "0"))
    where = torch.device(kind, local) if kind == "cuda" else torch.device(kind)
    if kind == "cuda":
        torch.cuda.set_device(where)
    dist.init_process_group("nccl" if kind == "cuda" else "gloo")
    try:
        yield Ranks(dist.get_rank(), dist.get_world_size(), where)
    finally:
        dist.destroy_process_group()


def shard(learner: Learner, where: Ranks) -> None:
    """Split every layer over the ranks. The decay parameters of Mamba stay whole on each: they are a few numbers per
    layer, in fp32 beside 16-bit matrices, which a shard cannot mix."""
    if not where.several:
        return
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(where.device.type, (where.count,))
    whole = set(unsharded(learner))
    model = learner.model
    blocks: list[nn.Module] = list(model.language_model.backbone.layers)
    if model.vision_model is not None:
        blocks += list(model.vision_model.blocks)
    for block in blocks:
        fully_shard(block, mesh=mesh, ignored_params=whole & set(block.parameters()))
    fully_shard(learner, mesh=mesh, ignored_params=whole)
    learner.always_see = model.vision_model is not None


@contextmanager
def gathered(learner: Learner) -> Iterator[None]:
    """Inside, the parts of the model may be called by themselves, not only through the learner's `forward`. Every rank
    has to make the same calls."""
    from torch.distributed.fsdp import FSDPModule

    if not isinstance(learner, FSDPModule):
        yield
        return
    learner.unshard()
    try:
        yield
    finally:
        learner.reshard()


def unsharded(learner: Learner) -> list[nn.Parameter]:
    return [p for name, p in learner.named_parameters() if name.rsplit(".", 1)[-1] in ("A_log", "D", "dt_bias")]


def average_unsharded(learner: Learner, where: Ranks) -> None:
    """What FSDP does for its shards, for the parameters it leaves alone: the mean gradient over all ranks."""
    if where.several:
        for parameter in unsharded(learner):
            if parameter.grad is not None:
                parameter.grad = where.sum(parameter.grad) / where.count
