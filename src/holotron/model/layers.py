"""The norms and the mixers (Gated DeltaNet is in `delta`). Module and parameter names are those of the published
checkpoint.

Legend: T packed tokens, D hidden, H heads, P head dim, G groups, N state, C conv channels, K taps, E experts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holotron.errors import ConfigError
from holotron.kernels.attention import attend
from holotron.kernels.conv import causal_conv
from holotron.kernels.experts import Routing, Stacks, different_sizes, mix, route, router_logits
from holotron.kernels.layout import Layout
from holotron.kernels.linear import Quantized, linear, quantize, relu2
from holotron.kernels.norm import add_rms_norm, gated_rms_norm, rms_norm
from holotron.kernels.rotary import Rotation, norm_and_rotate, rotate
from holotron.kernels.scan import Ring, state_space_scan
from holotron.model.config import AttentionConfig, MambaConfig, MLPConfig, MoEConfig
from holotron.model.derived import Decaying, Derived, Refreshed


class RMSNorm(nn.Module):
    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    @property
    def gain(self) -> Tensor:
        """What the normed vector is multiplied by."""
        return self.weight

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.gain, self.eps)

    def after(
        self, x_TD: Tensor, stream_TD: Tensor | None, quantized: bool = False
    ) -> tuple[Tensor | Quantized, Tensor]:
        """Add x to the residual stream (which x begins, if there is none yet); the normed sum (in 8 bits, if what comes
        next wants it so), and the sum."""
        return add_rms_norm(x_TD, stream_TD, self.gain, self.eps, quantized)


class CentredRMSNorm(RMSNorm, Refreshed):
    """Its weight is the distance of the gain from one. The sum is taken in fp32: in 16 bits it would lose the weight's
    last digits."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__(size, eps)
        nn.init.zeros_(self.weight)
        self._gain = Derived(_one_more)

    @property
    def gain(self) -> Tensor:
        return self._gain(self.weight)

    @torch.no_grad()
    def refresh(self) -> None:
        self._gain(self.weight)


def _one_more(weight_D: Tensor) -> Tensor:
    return 1 + weight_D.to(torch.promote_types(weight_D.dtype, torch.float32))


class Projection(nn.Linear):
    """A product whose weight may be kept in 8 bits with one scale per output channel."""

    scale: Tensor | None

    def __init__(self, inputs: int, outputs: int, bias: bool = False) -> None:
        super().__init__(inputs, outputs, bias=bias)
        self.register_buffer("scale", None, persistent=False)
        self._dtype = self.weight.dtype  # of the results

    @property
    def quantized(self) -> bool:
        return self.scale is not None

    def forward(self, x_TI: Tensor | Quantized) -> Tensor:
        if self.scale is None:
            assert isinstance(x_TI, Tensor)
            return F.linear(x_TI, self.weight, self.bias)
        return linear(x_TI, Quantized(self.weight, self.scale), self.bias).to(self._dtype)

    @torch.no_grad()
    def quantize(self) -> None:
        """From here on in 8 bits, for inference."""
        self._dtype, weight = self.weight.dtype, self.weight.detach()
        if weight.is_cuda and any(size % 16 for size in weight.shape):
            raise ConfigError(f"8-bit products need sizes that divide by 16; a projection here is {list(weight.shape)}")
        if weight.is_meta:  # only its size is asked for
            values = weight.new_empty(weight.shape, dtype=torch.float8_e4m3fn)
            scale = weight.new_empty((len(weight), 1), dtype=torch.float32)
        else:
            values, scale = quantize(weight)
        self.weight = nn.Parameter(values, requires_grad=False)
        self.scale = scale

    @torch.no_grad()
    def load(self, weight: Tensor) -> None:
        """New values, in place."""
        if self.scale is None:
            self.weight.copy_(weight, non_blocking=True)
        else:
            values, scale = quantize(weight.to(self.weight.device, self._dtype))
            self.weight.copy_(values)
            self.scale.copy_(scale)


def quantized(module: nn.Module) -> bool:
    """Whether it wants its input in 8 bits. An adapter laid around a projection does not."""
    return isinstance(module, Projection) and module.quantized


class Mamba2(Decaying):
    wide = ("A_log", "D", "dt_bias")
    D: nn.Parameter

    def __init__(self, hidden: int, config: MambaConfig, eps: float) -> None:
        super().__init__(config.heads)
        self.config = config
        self.in_proj = Projection(hidden, config.projected)
        self.conv1d = nn.Conv1d(  # never called; holds weight [C, 1, K] and bias under their published names
            config.conv_channels,
            config.conv_channels,
            config.kernel,
            groups=config.conv_channels,
            bias=config.conv_bias,
        )
        nn.init.ones_(self.D)
        self.norm = RMSNorm(config.inner, eps)
        self.out_proj = Projection(config.inner, hidden)

    @property
    def quantized(self) -> bool:
        return quantized(self.in_proj)

    def forward(
        self, x_TD: Tensor | Quantized, layout: Layout, cache: tuple[Tensor, Tensor, Ring | None] | None
    ) -> Tensor:
        c = self.config
        conv_state, ssm_state, ring = cache if cache is not None else (None, None, None)
        gate, channels, dt_TH = self.in_proj(x_TD).split([c.inner, c.conv_channels, c.heads], dim=-1)
        if layout.shared is not None:
            channels, dt_TH = layout.shared.spread(channels), layout.shared.spread(dt_TH)
        channels = causal_conv(channels, self.conv1d.weight[:, 0], self.conv1d.bias, conv_state, layout)
        x, B, C = channels.split([c.inner, c.groups * c.state, c.groups * c.state], dim=-1)
        y_THP = state_space_scan(
            x.unflatten(-1, (c.heads, c.head_dim)),
            dt_TH,
            self.dt_bias,
            self.decay_rates(),
            B.unflatten(-1, (c.groups, c.state)),
            C.unflatten(-1, (c.groups, c.state)),
            self.D,
            ssm_state,
            layout,
            c.chunk,
            ring,
        )
        if layout.shared is not None:
            y_THP = layout.shared.gather(y_THP)
        norm, narrow = self.norm, quantized(self.out_proj)
        return self.out_proj(gated_rms_norm(y_THP.flatten(-2), gate, norm.weight, c.groups, norm.eps, narrow))


class Attention(nn.Module):
    quantized = False

    def __init__(self, hidden: int, config: AttentionConfig, eps: float, norm: type[RMSNorm] = RMSNorm) -> None:
        super().__init__()
        self.config = config
        width, kv_width = config.heads * config.head_dim, config.kv_heads * config.head_dim
        self.q_proj = nn.Linear(hidden, 2 * width if config.gated else width, bias=False)
        self.k_proj = nn.Linear(hidden, kv_width, bias=False)
        self.v_proj = nn.Linear(hidden, kv_width, bias=False)
        self.o_proj = nn.Linear(width, hidden, bias=False)
        self.q_norm = norm(config.head_dim, eps) if config.qk_norm else None
        self.k_norm = norm(config.head_dim, eps) if config.qk_norm else None
        self.rotation: Rotation | None = None
        if config.rope_theta is not None:
            self.rotation = Rotation(config.rope_theta, config.rotary_dim, config.sections)

    def forward(self, x_TD: Tensor, layout: Layout, cache: tuple[Tensor, Tensor] | None) -> Tensor:
        c, places = self.config, layout.positions_T
        q = self.q_proj(x_TD).unflatten(-1, (c.heads, -1))
        k = self.k_proj(x_TD).unflatten(-1, (c.kv_heads, c.head_dim))
        v = self.v_proj(x_TD).unflatten(-1, (c.kv_heads, c.head_dim))
        gate = None
        if c.gated:
            q, gate = q.chunk(2, dim=-1)  # side by side within every head
        if layout.shared is not None:
            q, k, v = (layout.shared.spread(t) for t in (q, k, v))
        if self.q_norm is not None and self.k_norm is not None and self.rotation is not None:
            gains = (self.q_norm.gain, self.k_norm.gain)
            q, k = norm_and_rotate(q, k, *gains, self.q_norm.eps, places, self.rotation, layout.shift_3T)
        elif self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        elif self.rotation is not None:
            q, k = rotate(q, k, places, self.rotation, layout.shift_3T)
        seen = attend(q, k, v, cache, layout, c.head_dim**-0.5)
        if layout.shared is not None:
            seen = layout.shared.gather(seen)
        if gate is not None:
            seen = seen * gate.sigmoid()
        return self.o_proj(seen.flatten(-2))


class MLP(nn.Module):
    def __init__(self, hidden: int, config: MLPConfig) -> None:
        super().__init__()
        self.gate_proj = Projection(hidden, config.width) if config.activation == "swiglu" else None
        self.up_proj = Projection(hidden, config.width)
        self.down_proj = Projection(config.width, hidden)

    @property
    def quantized(self) -> bool:
        return quantized(self.up_proj)

    def forward(self, x_TD: Tensor | Quantized, layout: Layout, cache: None = None) -> Tensor:
        up = self.up_proj(x_TD)
        if self.gate_proj is not None:
            return self.down_proj(F.silu(self.gate_proj(x_TD)) * up)
        return self.down_proj(relu2(up, quantized(self.down_proj)))


class Router(nn.Module):
    """Which experts read a token. With sigmoid scores, a learned bias decides who is chosen but not what they count."""

    e_score_correction_bias: Tensor | None

    def __init__(self, hidden: int, config: MoEConfig) -> None:
        super().__init__()
        self.routing = Routing(
            config.top_k, config.scoring, config.normalise, config.scale, config.groups, config.top_groups
        )
        self.weight = nn.Parameter(torch.empty(config.experts, hidden))
        biased = config.scoring == "sigmoid"
        self.register_buffer("e_score_correction_bias", torch.zeros(config.experts) if biased else None)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        """Casting the model to 16 bits leaves the bias in fp32: it tells apart experts that score nearly alike."""
        before = self.e_score_correction_bias
        super()._apply(fn, recurse)
        after = self.e_score_correction_bias
        if before is not None and after is not None and after.dtype in (torch.bfloat16, torch.float16):
            self.e_score_correction_bias = before.to(device=after.device, dtype=torch.float32)
        return self

    def forward(self, x_TD: Tensor) -> tuple[Tensor, Tensor]:
        """Chosen experts and their weights, both [T, top_k]."""
        return route(router_logits(x_TD, self.weight), self.e_score_correction_bias, self.routing)


class Experts(nn.Module):
    """All experts of a layer in stacked tensors (the checkpoint stores them one by one), which may be kept in 8 bits
    with one scale per output channel."""

    def __init__(self, hidden: int, config: MoEConfig) -> None:
        super().__init__()
        self.gate_proj: nn.Parameter | None = None
        if config.activation == "swiglu":
            self.gate_proj = nn.Parameter(torch.empty(config.experts, config.width, hidden))
        self.up_proj = nn.Parameter(torch.empty(config.experts, config.width, hidden))
        self.down_proj = nn.Parameter(torch.empty(config.experts, hidden, config.width))
        self.parts = [name for name, _ in self.named_parameters()]
        for name in self.parts:
            self.register_buffer(f"{name}_scale", None, persistent=False)
        self._dtype = self.up_proj.dtype  # of the results

    @property
    def quantized(self) -> bool:
        return self._scale("up_proj") is not None

    def _scale(self, name: str) -> Tensor | None:
        scale: Tensor | None = getattr(self, f"{name}_scale")
        return scale

    def _stack(self, name: str) -> Tensor | Quantized:
        scale, weight = self._scale(name), getattr(self, name)
        return weight if scale is None else Quantized(weight, scale)

    def forward(
        self, x_TD: Tensor | Quantized, chosen_Tk: Tensor, weight_Tk: Tensor, beside_TD: Tensor | None
    ) -> Tensor:
        gate = self._stack("gate_proj") if self.gate_proj is not None else None
        stacks = Stacks(self._stack("up_proj"), self._stack("down_proj"), gate)
        mixed = mix(x_TD, chosen_Tk, weight_Tk, stacks, beside_TD)
        return mixed.to(self._dtype) if self.quantized else mixed

    @torch.no_grad()
    def quantize(self) -> None:
        """From here on in 8 bits, for inference."""
        self._dtype = self.up_proj.dtype
        for name in self.parts:
            weight = getattr(self, name).detach()
            if weight.is_meta:  # only its size is asked for
                values = weight.new_empty(weight.shape, dtype=torch.float8_e4m3fn)
                scale = weight.new_empty((*weight.shape[:2], 1), dtype=torch.float32)
            else:
                values, scale = self._narrow(weight)
            setattr(self, name, nn.Parameter(values, requires_grad=False))
            setattr(self, f"{name}_scale", scale)

    @torch.no_grad()
    def load(self, name: str, weight: Tensor) -> None:
        """New values for one of the stacks, in place."""
        mine, scale = getattr(self, name), self._scale(name)
        if scale is None:
            mine.copy_(weight, non_blocking=True)
        else:
            values, new_scale = self._narrow(weight.to(mine.device, self._dtype))
            mine.copy_(values)
            scale.copy_(new_scale)

    @staticmethod
    def _narrow(weight_EOI: Tensor) -> Quantized:
        values, scale = quantize(weight_EOI.flatten(0, 1))
        return Quantized(values.view(weight_EOI.shape), scale.view(*weight_EOI.shape[:2], 1))


class MoE(nn.Module):
    """Routed experts beside one that reads every token."""

    quantized = False  # the router wants its input in full; whoever multiplies in 8 bits rounds it then

    def __init__(self, hidden: int, config: MoEConfig) -> None:
        super().__init__()
        inner = config.latent or hidden
        self.gate = Router(hidden, config)
        self.experts = Experts(inner, config)
        shared = MLPConfig(config.shared_width, config.activation)
        self.shared_experts = MLP(hidden, shared) if config.shared_width else None
        self.shared_expert_gate = nn.Linear(hidden, 1, bias=False) if config.shared_gate else None
        self.fc1_latent_proj = nn.Linear(hidden, inner, bias=False) if config.latent else None
        self.fc2_latent_proj = nn.Linear(inner, hidden, bias=False) if config.latent else None

    def forward(self, x_TD: Tensor, layout: Layout, cache: None = None) -> Tensor:
        chosen, weight = self.gate(x_TD)
        narrow_TD = quantize(x_TD) if self.experts.quantized else x_TD
        shared = self._shared(x_TD, narrow_TD, layout) if self.shared_experts is not None else None
        if self.fc1_latent_proj is None or self.fc2_latent_proj is None:
            return self.experts(narrow_TD, chosen, weight, shared)
        routed = self.fc2_latent_proj(self.experts(self.fc1_latent_proj(x_TD), chosen, weight, None))
        return routed if shared is None else routed + shared

    @torch.inference_mode()
    def rehearse(self, most_tokens: int) -> None:
        """Run once with every number of tokens that takes other kernels, so that nobody waits for a compiler later."""
        routing, weight = self.gate.routing, self.gate.weight
        for count in different_sizes(len(weight), routing.top_k, most_tokens):
            self(weight.new_ones(count, weight.shape[1]), Layout.build([count], device=weight.device))

    def _shared(self, x_TD: Tensor, narrow_TD: Tensor | Quantized, layout: Layout) -> Tensor:
        assert self.shared_experts is not None
        shared = self.shared_experts(narrow_TD if self.shared_experts.quantized else x_TD, layout)
        if self.shared_expert_gate is None:
            return shared
        return shared * self.shared_expert_gate(x_TD).sigmoid()
