"""Runs a decoder through the native CPU kernels where they can replace the layers' own forward exactly.

That is: inference in fp32 with a memory, and nothing but the plain layers of the hybrid: an adapter around a projection,
8-bit weights, experts, rotary positions or a hook send the pass through the layers as usual.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from holotron.kernels import native
from holotron.kernels.dispatch import reference_wanted
from holotron.kernels.layout import Layout
from holotron.model.cache import Cache
from holotron.model.layers import MLP, Attention, Mamba2, Projection, RMSNorm

if TYPE_CHECKING:
    from holotron.model.decoder import Decoder


class NativeDecoder:
    """Keeps the addresses of a decoder's weights for the native code, as long as they are still the decoder's."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._program: native.Program | None = None
        self._valid: Callable[[], bool] = lambda: False

    def forward(self, x_TD: Tensor, layout: Layout, cache: Cache) -> Tensor | None:
        """The final hidden vectors, or None where this pass is not for the native kernels."""
        if x_TD.device.type != "cpu" or torch.is_grad_enabled() or cache.replay is not None or reference_wanted():
            return None
        memories = (cache.ssm_RLHPN, cache.conv_RLKC, cache.kv_ZL2zkD)
        if any(t.dtype != torch.float32 or not t.is_contiguous() for t in (x_TD, *memories)):
            return None
        if not self._valid():
            self._prepare()
        return self._program.forward(x_TD, layout, *memories) if self._program is not None else None

    def _prepare(self) -> None:
        """Look at the decoder as it is now."""
        seen = _Seen()
        self._program = _program(self._decoder, seen)
        self._valid = seen.unchanged


class _Seen:
    """What was looked at, to notice cheaply when it is no longer so."""

    def __init__(self) -> None:
        self.entries: list[tuple[dict[str, Any], str, Any]] = []
        self.addresses: list[tuple[Tensor, int]] = []
        self.hooks: list[dict[int, Any]] = []

    def module(self, parent: nn.Module, name: str, kind: type[nn.Module]) -> nn.Module | None:
        """A child of exactly this kind that does only what its class says, else None."""
        child = parent._modules.get(name)
        self.entries.append((parent._modules, name, child))
        if child is None or type(child) is not kind:
            return None
        self.hooks += [child._forward_hooks, child._forward_pre_hooks]
        return child

    def weight(self, module: nn.Module | None, name: str = "weight") -> int:
        """The address of a parameter that the native code can read, else 0."""
        tensor = module._parameters.get(name) if module is not None else None
        if module is None or tensor is None:
            return 0
        self.entries.append((module._parameters, name, tensor))
        self.addresses.append((tensor, tensor.data_ptr()))
        plain = tensor.dtype == torch.float32 and tensor.device.type == "cpu" and tensor.is_contiguous()
        return tensor.data_ptr() if plain else 0

    def unchanged(self) -> bool:
        return (
            not any(self.hooks)
            and all(holder.get(name) is thing for holder, name, thing in self.entries)
            and all(tensor.data_ptr() == address for tensor, address in self.addresses)
        )


def _program(decoder: Decoder, seen: _Seen) -> native.Program | None:
    config, backbone = decoder.config, decoder.backbone
    seen.hooks += [decoder._forward_hooks, decoder._forward_pre_hooks]
    layers = (native.Layer * len(backbone.layers))()
    for i, (module, (letter, slot)) in enumerate(zip(backbone.layers, decoder._slot, strict=True)):
        seen.hooks += [module._forward_hooks, module._forward_pre_hooks]
        if not _describe(layers[i], module, letter, slot, seen):
            return None
    last_norm = seen.weight(seen.module(backbone, "norm_f", RMSNorm))
    library = native.library()
    if library is None or not last_norm or any(seen.hooks):
        return None
    m, a, mlp = config.mamba, config.attention, config.mlp
    shape = native.Shape(
        hidden=config.hidden,
        layers=len(layers),
        mamba_heads=m.heads if m else 0,
        mamba_dim=m.head_dim if m else 0,
        state=m.state if m else 0,
        groups=m.groups if m else 1,
        taps=m.kernel if m else 1,
        mlp=mlp.width if mlp else 0,
        heads=a.heads if a else 0,
        kv_heads=a.kv_heads if a else 0,
        head_dim=a.head_dim if a else 0,
        eps=config.eps,
        scale=a.head_dim**-0.5 if a else 0.0,
    )
    return native.Program(library, shape, layers, last_norm)


def _describe(layer: native.Layer, module: nn.Module, letter: str, slot: int, seen: _Seen) -> bool:
    """Fill in one layer; whether it is one that the native code knows."""
    layer.slot = slot
    layer.norm = seen.weight(seen.module(module, "norm", RMSNorm))
    wanted = [layer.norm]

    def projections(mixer: nn.Module, kind: type[nn.Module], *names: str) -> None:
        for i, name in enumerate(names):
            layer.weights[i] = seen.weight(seen.module(mixer, name, kind))
            wanted.append(layer.weights[i])

    if letter == "M" and (mixer := seen.module(module, "mixer", Mamba2)) is not None:
        layer.kind = native.MAMBA
        projections(mixer, Projection, "in_proj", "out_proj")
        conv = seen.module(mixer, "conv1d", nn.Conv1d)
        layer.conv, layer.conv_bias = seen.weight(conv), seen.weight(conv, "bias")
        for name in ("A_log", "D", "dt_bias"):
            setattr(layer, name, seen.weight(mixer, name))
        layer.gated_norm = seen.weight(seen.module(mixer, "norm", RMSNorm))
        wanted += [layer.conv, layer.A_log, layer.D, layer.dt_bias, layer.gated_norm]
        if mixer.config.conv_bias:
            wanted.append(layer.conv_bias)
    elif letter == "-" and (mixer := seen.module(module, "mixer", MLP)) is not None:
        if mixer.gate_proj is not None:
            return False
        layer.kind = native.MLP
        projections(mixer, Projection, "up_proj", "down_proj")
    elif letter == "*" and (mixer := seen.module(module, "mixer", Attention)) is not None:
        if mixer.config.qk_norm or mixer.config.rope_theta is not None:
            return False
        layer.kind = native.ATTENTION
        projections(mixer, nn.Linear, "q_proj", "k_proj", "v_proj", "o_proj")
    else:
        return False
    return all(wanted)
