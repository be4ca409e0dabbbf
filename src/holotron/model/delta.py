"""Gated DeltaNet, the recurrent mixer of Qwen3.5. Module and parameter names are those of the published checkpoint.

Legend: T packed tokens, D hidden, G key heads, H value heads, K key dim, V value dim.
"""

from __future__ import annotations

from torch import Tensor, nn

from holotron.kernels.conv import causal_conv
from holotron.kernels.delta import gated_delta_rule
from holotron.kernels.layout import Layout
from holotron.kernels.linear import Quantized
from holotron.kernels.norm import rms_norm_gated
from holotron.model.config import DeltaConfig
from holotron.model.derived import Decaying
from holotron.model.layers import Projection, RMSNorm, quantized


class GatedDeltaNet(Decaying):
    def __init__(self, hidden: int, config: DeltaConfig, eps: float) -> None:
        super().__init__(config.value_heads)
        self.config = config
        self.in_proj_qkv = Projection(hidden, config.conv_channels)
        self.in_proj_z = Projection(hidden, config.inner)
        self.in_proj_b = Projection(hidden, config.value_heads)
        self.in_proj_a = Projection(hidden, config.value_heads)
        self.conv1d = nn.Conv1d(  # never called; holds weight [C, 1, K] under its published name
            config.conv_channels, config.conv_channels, config.kernel, groups=config.conv_channels, bias=False
        )
        self.norm = RMSNorm(config.value_dim, eps)  # of every head, with one weight for all
        self.out_proj = Projection(config.inner, hidden)

    @property
    def quantized(self) -> bool:
        return quantized(self.in_proj_qkv)

    def forward(self, x_TD: Tensor | Quantized, layout: Layout, cache: tuple[Tensor, Tensor] | None) -> Tensor:
        c = self.config
        conv_state, state = cache if cache is not None else (None, None)
        channels = causal_conv(self.in_proj_qkv(x_TD), self.conv1d.weight[:, 0], None, conv_state, layout)
        q, k, v = channels.split([c.keys, c.keys, c.inner], dim=-1)
        y_THV = gated_delta_rule(
            q.unflatten(-1, (c.key_heads, c.key_dim)),
            k.unflatten(-1, (c.key_heads, c.key_dim)),
            v.unflatten(-1, (c.value_heads, c.value_dim)),
            self.in_proj_a(x_TD),
            self.dt_bias,
            self.decay_rates(),
            self.in_proj_b(x_TD),
            state,
            layout,
            c.chunk,
        )
        gate_THV = self.in_proj_z(x_TD).unflatten(-1, (c.value_heads, c.value_dim))
        return self.out_proj(rms_norm_gated(y_THV, gate_THV, self.norm.weight, self.norm.eps).flatten(-2))
