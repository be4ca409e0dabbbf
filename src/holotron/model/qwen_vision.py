"""The vision tower of Qwen3-VL and Qwen3.5, and the mergers behind it, under their published names.

A picture of any size (a multiple of `patch * merge` a side) becomes patches; each attends to the whole picture, with a
learned position added at the start and rows and columns turned by in every head. Four neighbouring patches then become
one token. Patches lie in the order of these squares throughout, so that a merger only has to read four at a time.

Deepstack (Qwen3-VL): a few layers inside the tower have mergers of their own. A picture's token is then several
vectors: the first stands in the token's place, the others are added behind the first layers of the decoder. They travel
side by side in one long row, [tokens, levels * D], so whoever keeps rows of pictures keeps all of it.

Legend: n pictures, L patches of one, V tower width, D hidden of the language model.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holotron.kernels.attention import attend_tiles
from holotron.model.config import QwenVisionConfig
from holotron.model.vision import LayerNorm

THETA = 10_000.0  # of the rotation inside the tower


class PatchEmbed(nn.Module):
    def __init__(self, config: QwenVisionConfig) -> None:
        super().__init__()
        size = (config.frames, config.patch, config.patch)
        self.proj = nn.Conv3d(3, config.hidden, size, stride=size)  # never called: patches do not overlap

    def forward(self, patches_nLP: Tensor) -> Tensor:
        return F.linear(patches_nLP, self.proj.weight.flatten(1), self.proj.bias)


class PositionTable(nn.Module):
    def __init__(self, config: QwenVisionConfig) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(config.grid**2, config.hidden))

    def forward(self, rows: int, columns: int) -> Tensor:
        """The learned square table resampled to rows x columns, [rows, columns, V]."""
        grid = round(len(self.weight) ** 0.5)
        table = self.weight.to(torch.promote_types(self.weight.dtype, torch.float32)).view(1, grid, grid, -1)
        table = F.interpolate(table.permute(0, 3, 1, 2), size=(rows, columns), mode="bilinear", align_corners=True)
        return table[0].permute(1, 2, 0).to(self.weight.dtype)


class Attention(nn.Module):
    def __init__(self, config: QwenVisionConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.qkv = nn.Linear(config.hidden, 3 * config.hidden)
        self.proj = nn.Linear(config.hidden, config.hidden)

    def forward(self, x_nLV: Tensor, cos_L1h: Tensor, sin_L1h: Tensor) -> Tensor:
        parts = self.qkv(x_nLV).unflatten(-1, (3, self.heads, -1))  # n, L, 3, heads, head dim
        first, second = parts[:, :, :2].to(cos_L1h.dtype).chunk(2, dim=-1)
        cos, sin = cos_L1h[:, None], sin_L1h[:, None]
        turned = torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(parts.dtype)
        return self.proj(attend_tiles(torch.cat([turned, parts[:, :, 2:]], dim=2).flatten(2), self.heads))


class MLP(nn.Module):
    def __init__(self, config: QwenVisionConfig) -> None:
        super().__init__()
        self.linear_fc1 = nn.Linear(config.hidden, config.mlp)
        self.linear_fc2 = nn.Linear(config.mlp, config.hidden)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear_fc2(F.gelu(self.linear_fc1(x), approximate="tanh"))


class Block(nn.Module):
    """As in the decoder, the residual stream travels beside what is to be added to it next."""

    def __init__(self, config: QwenVisionConfig) -> None:
        super().__init__()
        self.norm1 = LayerNorm(config.hidden, config.eps)
        self.attn = Attention(config)
        self.norm2 = LayerNorm(config.hidden, config.eps)
        self.mlp = MLP(config)

    def forward(self, x: Tensor, stream: Tensor | None, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        normed, stream = self.norm1.after(x, stream)
        normed, stream = self.norm2.after(self.attn(normed, cos, sin), stream)
        return self.mlp(normed), stream


class QwenVisionTower(nn.Module):
    """Normalised pixels [n, 3, H, W] to patch features [n, L, V], in the order of the mergers' squares: those of every
    deepstack layer, and those of the last layer."""

    def __init__(self, config: QwenVisionConfig) -> None:
        super().__init__()
        self.config = config
        self.patch_embed = PatchEmbed(config)
        self.pos_embed = PositionTable(config)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))

    def forward(self, pixels_n3HW: Tensor) -> list[Tensor]:
        c = self.config
        rows, columns = pixels_n3HW.shape[-2] // c.patch, pixels_n3HW.shape[-1] // c.patch
        x: Tensor = self.patch_embed(self._patches(pixels_n3HW, rows, columns))
        x = x + self._squares(self.pos_embed(rows, columns))
        cos, sin = self._angles(rows, columns, x)
        stream: Tensor | None = None
        levels: list[Tensor] = []
        for n, block in enumerate(self.blocks):
            x, stream = block(x, stream, cos, sin)
            if n in c.deepstack:
                levels.append(x + stream)
        return [*levels, x if stream is None else x + stream]

    def _patches(self, pixels_n3HW: Tensor, rows: int, columns: int) -> Tensor:
        """[n, L, 3 * frames * patch * patch]. A still picture is the same in every frame."""
        c = self.config
        count = len(pixels_n3HW)
        split = (count, 3, rows // c.merge, c.merge, c.patch, columns // c.merge, c.merge, c.patch)
        patches = pixels_n3HW.reshape(split).permute(0, 2, 5, 3, 6, 1, 4, 7).unsqueeze(6)
        still = patches.expand(*(-1,) * 6, c.frames, -1, -1)
        return still.reshape(count, rows * columns, -1)

    def _squares(self, grid_RC: Tensor) -> Tensor:
        """Something of every patch, [rows, columns, ...], in the order of squares: [L, ...]."""
        m = self.config.merge
        rows, columns, *rest = grid_RC.shape
        return grid_RC.view(rows // m, m, columns // m, m, *rest).transpose(1, 2).flatten(0, 3)

    def _angles(self, rows: int, columns: int, like: Tensor) -> tuple[Tensor, Tensor]:
        """Half of the pairs of a head turn with the row of a patch, half with its column; [L, 1, pairs] each."""
        device, dtype = like.device, torch.promote_types(like.dtype, torch.float32)
        pairs = self.config.hidden // self.config.heads // 4
        period = THETA ** (torch.arange(pairs, device=device, dtype=dtype) / pairs)
        row = torch.arange(rows, device=device, dtype=dtype)[:, None, None].expand(-1, columns, -1)
        column = torch.arange(columns, device=device, dtype=dtype)[None, :, None].expand(rows, -1, -1)
        angle = self._squares(torch.cat([row / period, column / period], dim=-1))[:, None]
        return angle.cos(), angle.sin()


class PatchMerger(nn.Module):
    """Patches that lie together to one vector of the language model's size. Those of deepstack norm the four patches as
    one, the last one each by itself."""

    def __init__(self, config: QwenVisionConfig, hidden: int, *, norm_last: bool) -> None:
        super().__init__()
        self.width = config.hidden * config.merge**2
        self.norm_last = norm_last
        self.norm = nn.LayerNorm(self.width if norm_last else config.hidden, config.eps)
        self.linear_fc1 = nn.Linear(self.width, self.width)
        self.linear_fc2 = nn.Linear(self.width, hidden)

    def forward(self, x_nLV: Tensor) -> Tensor:
        together = (len(x_nLV), -1, self.width)
        x = self.norm(x_nLV.reshape(together)) if self.norm_last else self.norm(x_nLV).reshape(together)
        return self.linear_fc2(F.gelu(self.linear_fc1(x)))


class QwenMerger(nn.Module):
    """The tower's levels to rows of the language model, side by side: [n, tokens, levels * D], last layer first."""

    def __init__(self, config: QwenVisionConfig, hidden: int) -> None:
        super().__init__()
        self.merger = PatchMerger(config, hidden, norm_last=False)
        self.deepstack_merger_list = nn.ModuleList(
            PatchMerger(config, hidden, norm_last=True) for _ in config.deepstack
        )

    def forward(self, levels: list[Tensor]) -> Tensor:
        deeper = [merger(x) for merger, x in zip(self.deepstack_merger_list, levels[:-1], strict=True)]
        return torch.cat([self.merger(levels[-1]), *deeper], dim=-1)
