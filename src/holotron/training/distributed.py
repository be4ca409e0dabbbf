"""Several ranks: who we are, sums over all of us, and the model in shards (FSDP2).

    torchrun --nproc-per-node 8 -m holotron train sft RECIPE.toml
    holotron train sft RECIPE.toml --ray ADDRESS --ranks 8

Each rank reads its own samples and holds a shard of every layer. Without either there is one rank and none of this does
anything.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

from holotron.model.loading import usable_device
from holotron.training.learner import Learner

_CPU = torch.device("cpu")
# Ranks wait for the first one while it plays or judges. One that died is noticed by whoever started them, not by this.
_PATIENCE = timedelta(days=7)
T = TypeVar("T")


@dataclass(frozen=True)
class Ranks:
    rank: int = 0
    count: int = 1
    device: torch.device = _CPU
    control: Any = None  # the group in which Python objects are told: gloo, also beside NCCL

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

    def most(self, values: Sequence[int]) -> list[int]:
        """Of each value, the greatest that any rank has."""
        if not self.several:
            return list(values)
        tensor = torch.tensor(values, dtype=torch.int64, device=self.device)
        dist.all_reduce(tensor, dist.ReduceOp.MAX)
        return [int(value) for value in tensor]

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

    def told(self, value: T | None) -> T:
        """The first rank's value, for every rank."""
        box = [value]
        if self.several:
            dist.broadcast_object_list(box, src=0, group=self.control)
        return cast(T, box[0])

    def dealt(self, shares: Sequence[T] | None) -> T:
        """Of the first rank's list, every rank's own entry."""
        if not self.several:
            assert shares is not None
            return shares[0]
        box: list[Any] = [None]
        dist.scatter_object_list(box, list(shares) if shares is not None else None, src=0, group=self.control)
        return cast(T, box[0])

    def barrier(self) -> None:
        if self.several:
            dist.barrier(self.control)


@contextmanager
def ranks(device: str | None = None) -> Iterator[Ranks]:
    """The ranks that `torchrun` or Ray Train started, or one alone. `device`: cuda or cpu; by default the GPU if there
    is one."""
    here = usable_device(device)
    if "WORLD_SIZE" not in os.environ:
        yield Ranks(device=here)
        return
    kind = here.type
    where = torch.device(kind, _local_gpu()) if kind == "cuda" else torch.device(kind)
    if kind == "cuda":
        torch.cuda.set_device(where)
    ours = not dist.is_initialized()  # Ray Train has made the group already
    if ours:
        dist.init_process_group("nccl" if kind == "cuda" else "gloo", timeout=_PATIENCE if kind == "cpu" else None)
    try:
        several = dist.get_world_size() > 1
        control = dist.new_group(backend="gloo", timeout=_PATIENCE) if several else None
        yield Ranks(dist.get_rank(), dist.get_world_size(), where, control)
    finally:
        if ours:
            dist.destroy_process_group()


def _local_gpu() -> int:
    """Which of the visible GPUs is this rank's: each has one to itself, and may see no other."""
    return int(os.environ.get("LOCAL_RANK", "0")) % max(torch.cuda.device_count(), 1)


def shard(learner: Learner, where: Ranks) -> None:
    """Split every layer over the ranks. The decay parameters of Mamba stay whole on each: they are a few numbers per
    layer, in fp32 beside 16-bit matrices, which a shard cannot mix."""
    if not where.several:
        return
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    mesh = init_device_mesh(where.device.type, (where.count,))
    whole = set(unsharded(learner))
    model = learner.model
    blocks: list[nn.Module] = list(model.language_model.backbone.layers)
    if model.vision_model is not None:
        blocks += list(model.vision_model.blocks)
    for block in blocks:
        fully_shard(block, mesh=mesh, ignored_params=whole & set(block.parameters()))
    fully_shard(learner, mesh=mesh, ignored_params=whole)
    for method in learner.ENTRANCES:
        register_fsdp_forward_method(learner, method)


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
        reshard(learner)


def reshard(learner: Learner) -> None:
    """Forget what was gathered: shards have been written since, or will be."""
    from torch.distributed.fsdp import FSDPModule

    if isinstance(learner, FSDPModule):
        learner.reshard()


def unsharded(learner: Learner) -> list[nn.Parameter]:
    return [p for name, p in learner.named_parameters() if name.rsplit(".", 1)[-1] in ("A_log", "D", "dt_bias")]


def average_unsharded(learner: Learner, where: Ranks) -> None:
    """What FSDP does for its shards, for the parameters it leaves alone: the mean gradient over all ranks."""
    if not where.several:
        return
    learning = [parameter for parameter in unsharded(learner) if parameter.requires_grad]
    used = where.most([parameter.grad is not None for parameter in learning])
    for parameter in (parameter for parameter, anywhere in zip(learning, used, strict=True) if anywhere):
        own = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        parameter.grad = where.sum(own) / where.count
