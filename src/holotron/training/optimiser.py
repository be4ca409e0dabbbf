"""AdamW on fp32 copies, and the learning rate over a run.

The network computes in its own dtype (bf16 on a GPU, fp32 on a CPU), with no autocast: the trainer's numbers are those
the engine serves. Sixteen bits are too coarse to collect small updates, so for every 16-bit parameter that learns the
optimiser keeps an fp32 original, steps on that, and rounds it into the network. Parameters that are fp32 already are
their own originals.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from holotron.errors import ConfigError
from holotron.training.recipe import OptimiserPart, SchedulePart


class Optimiser:
    def __init__(self, named: Iterable[tuple[str, nn.Parameter]], recipe: OptimiserPart) -> None:
        self.recipe = recipe
        self.parameters = {name: parameter for name, parameter in named if parameter.requires_grad}
        if not self.parameters:
            raise ConfigError("nothing learns: model.learn names no part that this model has")
        # Of a sharded parameter each rank keeps and updates its own shard, as a plain tensor. An fp32 parameter and its
        # original are the same memory.
        self.originals = {name: nn.Parameter(_local(p.detach()).float()) for name, p in self.parameters.items()}
        matrices = [self.originals[name] for name, p in self.parameters.items() if p.dim() > 1]
        others = [self.originals[name] for name, p in self.parameters.items() if p.dim() <= 1]  # norms, biases, decays
        groups = [{"params": matrices, "weight_decay": recipe.weight_decay}, {"params": others, "weight_decay": 0.0}]
        self._adam = torch.optim.AdamW(
            [group for group in groups if group["params"]],
            lr=recipe.lr,
            betas=recipe.betas,
            eps=recipe.eps,
            fused=next(iter(self.originals.values())).is_cuda,
        )
        self._rounded = [
            (_local(p.detach()), self.originals[n]) for n, p in self.parameters.items() if p.dtype != torch.float32
        ]

    def step(self, lr: float) -> Tensor:
        """Clip, update, and clear the gradients. Returns the norm of the gradient before clipping."""
        gradients = {name: p.grad for name, p in self.parameters.items() if p.grad is not None}
        sharded: list[Tensor] = []
        whole: list[Tensor] = []
        wide = _wide([_local(gradient) for gradient in gradients.values()])
        for (name, gradient), mine in zip(gradients.items(), wide, strict=True):
            self.originals[name].grad = mine
            (sharded if isinstance(gradient, DTensor) else whole).append(mine)
        norm = clip(whole, sharded, self.recipe.clip)
        for group in self._adam.param_groups:
            group["lr"] = lr
        self._adam.step()
        if self._rounded:
            with torch.no_grad():
                torch._foreach_copy_([p for p, _ in self._rounded], [o for _, o in self._rounded])
        for name in gradients:
            self.originals[name].grad = self.parameters[name].grad = None
        return norm

    # ------------------------------------------------------------------------------------------------------------ state

    def state(self) -> dict[str, Tensor]:
        """Everything a step depends on, by name: the tensors themselves, to be read or overwritten. Those of a sharded
        parameter say which part of the whole they are."""
        return {
            f"{name}/{part}": like(self.parameters[name], tensor) if tensor.dim() else tensor
            for name, original in self.originals.items()
            for part, tensor in {"weight": original.detach(), **self._moments(original)}.items()
        }

    def _moments(self, original: nn.Parameter) -> dict[str, Tensor]:
        if original not in self._adam.state:  # never stepped: as Adam would start
            self._adam.state[original] = {
                "step": torch.zeros((), device=original.device if original.is_cuda else "cpu"),
                "exp_avg": torch.zeros_like(original),
                "exp_avg_sq": torch.zeros_like(original),
            }
        return self._adam.state[original]

    @torch.no_grad()
    def restored(self) -> None:
        """After the tensors of `state` were overwritten in place: round the originals into the network again."""
        for parameter, original in self._rounded:
            parameter.copy_(original)


def like(parameter: Tensor, local: Tensor) -> Tensor:
    """A rank's own part of something that is sharded as this parameter is, if it is."""
    if not isinstance(parameter, DTensor):
        return local
    mesh, placements, shape, stride = parameter.device_mesh, parameter.placements, parameter.shape, parameter.stride()
    return DTensor.from_local(local, mesh, placements, shape=shape, stride=stride)


def _local(tensor: Tensor) -> Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


@torch.no_grad()
def _wide(gradients: list[Tensor]) -> list[Tensor]:
    """In fp32; those that are already, themselves. One launch instead of one for each."""
    narrow = [g for g in gradients if g.dtype != torch.float32]
    copies = [torch.empty_like(g, dtype=torch.float32) for g in narrow]
    if narrow:
        torch._foreach_copy_(copies, narrow)
    new = iter(copies)
    return [g if g.dtype == torch.float32 else next(new) for g in gradients]


@torch.no_grad()
def clip(whole: list[Tensor], sharded: list[Tensor], limit: float) -> Tensor:
    """Scale all gradients so that their common norm is at most `limit`; the norm before is returned. Of sharded ones
    every rank holds a part. Nothing here waits for the device."""
    device = (whole or sharded)[0].device
    total = torch.zeros((), device=device)
    if sharded:
        total += torch.stack(torch._foreach_norm(sharded)).square().sum()
        dist.all_reduce(total)
    if whole:
        total += torch.stack(torch._foreach_norm(whole)).square().sum()
    norm = total.sqrt()
    torch._foreach_mul_([*whole, *sharded], (limit / (norm + 1e-6)).clamp(max=1.0))
    return norm


def learning_rate(peak: float, schedule: SchedulePart, step: int, progress: float) -> float:
    """The rate for this step; `progress` is the part of the run that is over, from 0 to 1."""
    warm = min(1.0, (step + 1) / schedule.warmup) if schedule.warmup else 1.0
    start = 1 - schedule.decay_share
    if progress <= start or not schedule.decay_share:
        return peak * warm
    fall = min(1.0, (progress - start) / schedule.decay_share)
    height = 1 - fall if schedule.decay == "linear" else (1 + math.cos(math.pi * fall)) / 2
    return peak * warm * (schedule.final + (1 - schedule.final) * height)
