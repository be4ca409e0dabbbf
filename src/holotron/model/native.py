"""Runs a decoder through the native CPU kernels where they can replace the layers' own forward exactly.

That is: inference in fp32 with a memory, and nothing but the plain layers of the hybrid. An adapter around a
projection, 8-bit weights, experts, rotary positions or a hook send the pass through the layers as usual.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from holotron.kernels import native
from holotron.kernels.dispatch import reference_wanted
from holotron.kernels.layout import Layout
from holotron.model.cache import Cache
from holotron.model.config import DecoderConfig
from holotron.model.layers import MLP, Attention, Mamba2, Projection, RMSNorm

if TYPE_CHECKING:
    from holotron.model.decoder import Decoder


M = TypeVar("M", bound=nn.Module)


class NativeDecoder:
    """Keeps the addresses of a decoder's weights for the native code, and notices when they have changed."""

    def __init__(self) -> None:
        self._seen: _Seen | None = None
        self._program: native.Program | None = None

    def __getstate__(self) -> dict[str, None]:
        return dict.fromkeys(self.__dict__)  # a copy of a decoder has other addresses

    def forward(self, decoder: Decoder, x_TD: Tensor, layout: Layout, cache: Cache) -> Tensor | None:
        """The final hidden vectors, or None where this pass is not for the native kernels."""
        if x_TD.device.type != "cpu" or torch.is_grad_enabled() or cache.replay is not None or reference_wanted():
            return None
        memories = (cache.ssm_RLHPN, cache.conv_RLKC, cache.kv_ZL2zkD)
        if any(t.dtype != torch.float32 or not t.is_contiguous() for t in (x_TD, *memories)):
            return None
        if self._seen is None or not self._seen.unchanged():
            self._seen = _Seen()
            self._program = _program(decoder, self._seen)
        if self._program is None or self._seen.hooked() or not _fits(x_TD, layout, *memories):
            return None
        return self._program.forward(x_TD, layout, *memories)


def native_head(head: nn.Linear, hidden_TD: Tensor) -> Tensor | None:
    """The logits of a few tokens, or None where that is not for the native kernels."""
    if hidden_TD.device.type != "cpu" or torch.is_grad_enabled() or reference_wanted() or hidden_TD.dim() != 2:
        return None
    if type(head) is not nn.Linear or head.bias is not None or head._forward_hooks or head._forward_pre_hooks:
        return None
    if any(t.dtype != torch.float32 or not t.is_contiguous() for t in (hidden_TD, head.weight)):
        return None
    if len(hidden_TD) > native.FEW or hidden_TD.shape[1] != head.weight.shape[1]:
        return None
    library = native.library()
    return native.linear(library, hidden_TD, head.weight) if library is not None else None


def _fits(x_TD: Tensor, layout: Layout, ssm_RLHPN: Tensor, _: Tensor, kv_ZL2zkD: Tensor) -> bool:
    """Whether a layout speaks of what is there: the layers raise an error where native code would read elsewhere."""
    pages = len(layout.pages_SM) == layout.num_sequences and layout.page_size == kv_ZL2zkD.shape[3]
    return (
        len(x_TD) == layout.num_tokens
        and (max(layout.rows) < len(ssm_RLHPN) or not ssm_RLHPN.shape[1])
        and (pages or not kv_ZL2zkD.shape[1])
    )


class _Seen:
    """What was looked at, to notice cheaply when it is no longer so."""

    def __init__(self) -> None:
        self.entries: list[tuple[dict[str, Any], str, Any]] = []
        self.addresses: list[tuple[dict[str, Any], str, int]] = []
        self.hooks: list[dict[int, Any]] = []

    def module(self, parent: nn.Module, name: str, kind: type[M]) -> M | None:
        """A child of exactly this kind that does only what its class says, else None."""
        child = parent._modules.get(name)
        self.entries.append((parent._modules, name, child))
        if child is None or type(child) is not kind:
            return None
        self.hooks += [child._forward_hooks, child._forward_pre_hooks]
        return child

    def weight(self, module: nn.Module | None, size: int, name: str = "weight") -> int:
        """The address of a parameter of this many numbers that the native code can read, else 0."""
        tensor = module._parameters.get(name) if module is not None else None
        if module is None or tensor is None:
            return 0
        self.addresses.append((module._parameters, name, tensor.data_ptr()))
        plain = tensor.dtype == torch.float32 and tensor.device.type == "cpu" and tensor.is_contiguous()
        return tensor.data_ptr() if plain and tensor.numel() == size else 0

    def unchanged(self) -> bool:
        for holder, name, thing in self.entries:  # some hundreds, every pass: plain loops are the fastest
            if holder.get(name) is not thing:
                return False
        for holder, name, address in self.addresses:
            tensor = holder.get(name)
            if tensor is None or tensor.data_ptr() != address:
                return False
        return True

    def hooked(self) -> bool:
        return any(self.hooks)


def _program(decoder: Decoder, seen: _Seen) -> native.Program | None:
    config, backbone = decoder.config, decoder.backbone
    seen.hooks += [decoder._forward_hooks, decoder._forward_pre_hooks]
    seen.entries += [(decoder._modules, "backbone", backbone), (backbone._modules, "layers", backbone.layers)]
    layers = (native.Layer * len(config.pattern))()
    for i, (module, (letter, slot)) in enumerate(zip(backbone.layers, decoder._slot, strict=True)):
        seen.entries.append((backbone.layers._modules, str(i), module))
        seen.hooks += [module._forward_hooks, module._forward_pre_hooks]
        layers[i].slot = slot
        if not _describe(layers[i], module, letter, config, seen):
            return None
    last_norm = seen.weight(seen.module(backbone, "norm_f", RMSNorm), config.hidden)
    library = native.library()
    if library is None or not last_norm:
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


def _describe(layer: native.Layer, module: nn.Module, letter: str, config: DecoderConfig, seen: _Seen) -> bool:
    """Fill in one layer; whether it is one that the native code knows."""
    hidden = config.hidden
    layer.norm = seen.weight(seen.module(module, "norm", RMSNorm), hidden)
    wanted = [layer.norm]

    def projections(mixer: nn.Module, kind: type[nn.Module], **outputs: int) -> None:
        for i, (name, width) in enumerate(outputs.items()):
            layer.weights[i] = seen.weight(seen.module(mixer, name, kind), width * hidden)
            wanted.append(layer.weights[i])

    if letter == "M" and (mamba := seen.module(module, "mixer", Mamba2)) is not None:
        m = mamba.config
        layer.kind = native.MAMBA
        projections(mamba, Projection, in_proj=m.projected, out_proj=m.inner)
        conv = seen.module(mamba, "conv1d", nn.Conv1d)
        layer.conv = seen.weight(conv, m.conv_channels * m.kernel)
        layer.conv_bias = seen.weight(conv, m.conv_channels, "bias")
        for name in ("A_log", "D", "dt_bias"):
            setattr(layer, name, seen.weight(mamba, m.heads, name))
        layer.gated_norm = seen.weight(seen.module(mamba, "norm", RMSNorm), m.inner)
        wanted += [layer.conv, layer.A_log, layer.D, layer.dt_bias, layer.gated_norm]
        if m.conv_bias:
            wanted.append(layer.conv_bias)
    elif letter == "-" and (mlp := seen.module(module, "mixer", MLP)) is not None:
        if config.mlp is None or config.mlp.activation != "relu2":
            return False
        layer.kind = native.MLP
        projections(mlp, Projection, up_proj=config.mlp.width, down_proj=config.mlp.width)
    elif letter == "*" and (attention := seen.module(module, "mixer", Attention)) is not None:
        a = attention.config
        if a.qk_norm or a.gated or a.rope_theta is not None:
            return False
        layer.kind = native.ATTENTION
        width, kv_width = a.heads * a.head_dim, a.kv_heads * a.head_dim
        projections(attention, nn.Linear, q_proj=width, k_proj=kv_width, v_proj=kv_width, o_proj=width)
    else:
        return False
    return all(wanted)
