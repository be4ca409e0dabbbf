"""The RADIO vision tower, pixel shuffle and projector: tiles of pixels in, rows for the language model out.

Of sparse pictures it reads some groups of each tile only (`Looks`), packed without padding.

The products of its layers and of the projector may be kept in 8 bits (`Holotron.quantize_vision`): norms, activations
and what they feed are then rounded row by row, while attention, the residual stream and the patches stay as they are.

Legend: n tiles, L patches per tile, p prefix tokens, V tower width, D hidden of the language model; K groups, T patches
and prefix tokens of all looks.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holotron.kernels.attention import attend_looks, attend_tiles
from holotron.kernels.linear import Quantized, gelu_quantized, linear_gelu, relu2
from holotron.kernels.norm import add_layer_norm
from holotron.model.config import ProjectorConfig, VisionConfig
from holotron.model.layers import Projection, RMSNorm, quantized
from holotron.model.looks import Looks


class PrefixTokens(nn.Module):
    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.zeros(config.prefix, config.hidden))


class PatchGenerator(nn.Module):
    """Pixels to patch embeddings with positions, behind a few learned prefix tokens that have none."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.config = config
        self.embedder = nn.Linear(3 * config.patch**2, config.hidden, bias=False)
        self.pos_embed = nn.Parameter(torch.zeros(1, config.grid**2, config.hidden))
        self.cls_token = PrefixTokens(config)
        self._resampled: dict[tuple[int, ...], Tensor] = {}  # of the present table, for inference

    def positions(self, rows: int, columns: int) -> Tensor:
        """A position for every patch. Outside of training they are resampled once, until the table changes."""
        table = self.pos_embed
        if torch.is_grad_enabled() or table.is_inference():
            return self._resample(rows, columns)
        key = (rows, columns, table._version, table.data_ptr())
        if key not in self._resampled:
            self._resampled = {k: v for k, v in self._resampled.items() if k[2:] == key[2:]}
            with torch.inference_mode(False):
                self._resampled[key] = self._resample(rows, columns).detach()
        return self._resampled[key]

    def _resample(self, rows: int, columns: int) -> Tensor:
        """The learned square table resampled to the longer side, then cut to rows x columns."""
        c = self.config
        table: Tensor = self.pos_embed
        side = max(rows, columns)
        if side != c.grid:
            square = table.to(torch.promote_types(table.dtype, torch.float32)).view(1, c.grid, c.grid, c.hidden)
            square = F.interpolate(
                square.permute(0, 3, 1, 2), size=(side, side), mode="bilinear", align_corners=c.align_corners
            )
            table = square.permute(0, 2, 3, 1).to(table.dtype).reshape(1, side * side, c.hidden)
        return table.view(side, side, c.hidden)[:rows, :columns].reshape(rows * columns, c.hidden)

    def forward(self, pixels_n3HW: Tensor) -> Tensor:
        p = self.config.patch
        n, _, height, width = pixels_n3HW.shape
        rows, columns = height // p, width // p
        patches = pixels_n3HW.view(n, 3, rows, p, columns, p).permute(0, 2, 4, 1, 3, 5).reshape(n, rows * columns, -1)
        x = self.embedder(patches) + self.positions(rows, columns)
        return torch.cat([self.cls_token.token.expand(n, -1, -1), x], dim=1)

    def groups(self, pixels_K3ss: Tensor, looks: Looks, side: int) -> Tensor:
        """The same for groups of pixels, of tiles of `side` x `side` patches: [T, V]."""
        p = self.config.patch
        count, _, step, _ = pixels_K3ss.shape
        per = step // p  # patches to a side of a group
        patches = pixels_K3ss.view(count, 3, per, p, per, p).permute(0, 2, 4, 1, 3, 5).reshape(count, per * per, -1)
        table = self.positions(side, side).unflatten(0, (side // per, per, side // per, per))
        table = table.transpose(1, 2).reshape(-1, per * per, self.config.hidden)  # by group, as its patches come
        x = self.embedder(patches) + table.index_select(0, looks.groups_K)
        prefix = self.cls_token.token.expand(len(looks.counts), -1, -1)
        return torch.cat([prefix.flatten(0, 1), x.flatten(0, 1)]).index_select(0, looks.order_T)


class VisionAttention(nn.Module):
    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.qkv = Projection(config.hidden, 3 * config.hidden, bias=True)
        self.proj = Projection(config.hidden, config.hidden, bias=True)

    def forward(self, qkv: Tensor, looks: Looks | None = None) -> Tensor:
        if looks is None:
            return attend_tiles(qkv, self.heads)
        return attend_looks(qkv, self.heads, looks.starts_S1, looks.lengths, looks.longest)


class VisionMLP(nn.Module):
    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.fc1 = Projection(config.hidden, config.mlp, bias=True)
        self.fc2 = Projection(config.mlp, config.hidden, bias=True)

    def forward(self, x: Tensor | Quantized) -> Tensor:
        if isinstance(x, Quantized):
            return self.fc2(gelu_quantized(self.fc1(x)))
        return self.fc2(linear_gelu(x, self.fc1.weight, self.fc1.bias))


class LayerNorm(nn.LayerNorm):
    def after(self, x: Tensor, stream: Tensor | None, narrow: bool = False) -> tuple[Tensor | Quantized, Tensor]:
        """Add x to the residual stream (which x begins, if there is none yet); the normed sum (in 8 bits, if what comes
        next wants it so), and the sum."""
        return add_layer_norm(x, stream, self.weight, self.bias, self.eps, narrow)


class VisionBlock(nn.Module):
    """As in the decoder, the residual stream travels beside what is to be added to it next."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.norm1 = LayerNorm(config.hidden, config.eps)
        self.attn = VisionAttention(config)
        self.norm2 = LayerNorm(config.hidden, config.eps)
        self.mlp = VisionMLP(config)

    def forward(self, x: Tensor, stream: Tensor | None, looks: Looks | None = None) -> tuple[Tensor, Tensor]:
        qkv, stream = self.asking(x, stream)
        return self.thinking(self.attn(qkv, looks), stream)

    def asking(self, x: Tensor, stream: Tensor | None) -> tuple[Tensor, Tensor]:
        """Up to the attention, the one part in which patches see each other."""
        normed, stream = self.norm1.after(x, stream, quantized(self.attn.qkv))
        return self.attn.qkv(normed), stream

    def thinking(self, seen: Tensor, stream: Tensor) -> tuple[Tensor, Tensor]:
        """What comes of it."""
        normed, stream = self.norm2.after(self.attn.proj(seen), stream, quantized(self.mlp.fc1))
        return self.mlp(normed), stream


class VisionTransformer(nn.Module):
    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.patch_generator = PatchGenerator(config)
        self.blocks = nn.ModuleList(VisionBlock(config) for _ in range(config.layers))

    def forward(self, pixels_n3HW: Tensor) -> Tensor:
        return self._through(self.patch_generator(pixels_n3HW))

    def groups(self, pixels_K3ss: Tensor, looks: Looks, side: int) -> Tensor:
        return self._through(self.patch_generator.groups(pixels_K3ss, looks, side), looks)

    def _through(self, x: Tensor, looks: Looks | None = None) -> Tensor:
        stream: Tensor | None = None
        for block in self.blocks:
            x, stream = block(x, stream, looks)
        return x if stream is None else x + stream


class RadioModel(nn.Module):
    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.model = VisionTransformer(config)


class VisionTower(nn.Module):
    """Normalised pixels [n, 3, H, W] to patch features [n, rows * columns, V]; prefix tokens are dropped."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.config = config
        self.radio_model = RadioModel(config)

    @property
    def blocks(self) -> nn.ModuleList:
        return self.radio_model.model.blocks

    def forward(self, pixels_n3HW: Tensor) -> Tensor:
        return self.radio_model.model(pixels_n3HW)[:, self.config.prefix :]

    def groups(self, pixels_K3ss: Tensor, looks: Looks, side: int) -> Tensor:
        """Groups of tiles of `side` x `side` patches to features of their patches, line after line: [K, patches, V]."""
        seen = self.radio_model.model.groups(pixels_K3ss, looks, side).index_select(0, looks.patches_P)
        return seen.unflatten(0, (len(pixels_K3ss), -1))


def pixel_shuffle(x_nLV: Tensor, rows: int, columns: int, factor: int) -> Tensor:
    """Each factor x factor square of patches becomes one row, channels ordered (dy, dx, channel)."""
    n, _, width = x_nLV.shape
    x = x_nLV.view(n, rows // factor, factor, columns // factor, factor, width)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(n, -1, factor * factor * width)


class Projector(nn.Sequential):
    """Published under the name `mlp1`: norm, up, squared ReLU (which has no weights), down."""

    def __init__(self, vision: VisionConfig, config: ProjectorConfig, hidden: int) -> None:
        shuffled = vision.hidden * config.shuffle**2
        super().__init__(
            RMSNorm(shuffled, config.eps),
            Projection(shuffled, config.width),
            nn.Identity(),
            Projection(config.width, hidden),
        )

    def forward(self, x: Tensor) -> Tensor:
        norm, up, down = self[0], self[1], self[3]
        assert isinstance(norm, RMSNorm)
        normed = norm.after(x.flatten(0, -2), None, True)[0] if quantized(up) else norm(x)
        out: Tensor = down(relu2(up(normed), quantized(down)))
        return out.view(*x.shape[:-1], -1)
