"""Parameters that need care: kept in fp32 whatever the model is cast to, or used through what is computed from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn


class Derived:
    """A function of one parameter. Outside of training it is computed once, until the parameter changes, and stays at
    its address, where a captured graph reads it."""

    def __init__(self, compute: Callable[[Tensor], Tensor]) -> None:
        self._compute = compute
        self._known: tuple[tuple[Any, ...], Tensor] | None = None

    def __call__(self, parameter: Tensor) -> Tensor:
        if torch.is_grad_enabled() or parameter.is_inference():
            return self._compute(parameter)
        key = (parameter._version, parameter.data_ptr(), parameter.dtype)
        if self._known is None or self._known[0] != key:
            with torch.inference_mode(False), torch.no_grad():
                value = self._compute(parameter)
                if self._known is not None and self._known[0][1:] == key[1:]:
                    value = self._known[1].copy_(value)
                self._known = (key, value)
        return self._known[1]


class Refreshed(nn.Module):
    """A module that computes with something derived from its parameters."""

    @torch.no_grad()
    def refresh(self) -> None:
        """The parameters were overwritten in place: so is what was computed from them."""
        raise NotImplementedError


class Decaying(Refreshed):
    """A recurrent layer. Casting the model to 16 bits leaves the parameters of its decay in fp32: rounding them changes
    the whole memory."""

    wide: ClassVar[tuple[str, ...]] = ("A_log", "dt_bias")  # one number for every head each, made in this order
    A_log: nn.Parameter
    dt_bias: nn.Parameter

    def __init__(self, heads: int) -> None:
        super().__init__()
        for name in self.wide:
            setattr(self, name, nn.Parameter(torch.zeros(heads)))
        self._rates = Derived(_decay_rates)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        kept = {name: getattr(self, name).data for name in self.wide}
        super()._apply(fn, recurse)
        for name, before in kept.items():
            parameter = getattr(self, name)
            if parameter.dtype in (torch.bfloat16, torch.float16):
                parameter.data = before.to(device=parameter.device, dtype=torch.float32)
        return self

    def decay_rates(self) -> Tensor:
        return self._rates(self.A_log)

    @torch.no_grad()
    def refresh(self) -> None:
        self.decay_rates()


def _decay_rates(A_log_H: Tensor) -> Tensor:
    return -torch.exp(A_log_H)
