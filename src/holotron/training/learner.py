"""The losses: a model, the heads that exist only in training, and one forward pass over a packed batch.

Losses come out as sums; `counts` says what they are sums over. They are divided by the count of a whole step, all its
forward passes on all ranks, so neither the size of a pass nor the number of ranks changes what a token weighs.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holotron.errors import ConfigError
from holotron.kernels.layout import Layout
from holotron.model.config import ModelConfig, VisionConfig
from holotron.model.model import Holotron
from holotron.model.processor import normalise
from holotron.training.batches import UNKNOWN, Batch, token_grids
from holotron.training.places import PlaceHead, PointingHead, TileHead
from holotron.training.reading import ReadingHead, reading_loss, reading_weight

LOSSES = ("reply", "reading", "reading_rows", "place", "tile", "pointing", "aiming")


class Learner(nn.Module):
    def __init__(self, model: Holotron, losses: Collection[str] = ()) -> None:
        """`losses` beside that of replies: each has a head of its own."""
        super().__init__()
        self.model = model
        self.always_see = False  # shards are gathered by all ranks together: one without pictures looks at a blank
        self.heads = nn.ModuleDict({name: _head(name, model.config) for name in LOSSES[1:] if name in losses})
        self.heads.to(device=model.device, dtype=model.dtype)
        self._stream_TD = torch.empty(0)  # of the pass under way, where the three below look at it
        if not {"tile", "pointing", "aiming"}.isdisjoint(self.heads):
            pattern = model.config.decoder.pattern
            layer = pattern.rindex("*") if "*" in pattern else len(pattern) - 1
            model.language_model.backbone.layers[layer].register_forward_pre_hook(self._keep_stream)

    def counts(self, batch: Batch) -> Tensor:
        """How much each of `LOSSES` is summed over in this batch."""
        read = torch.zeros((), device=batch.ids_T.device)
        if "reading" in self.heads and batch.slots_nRC is not None:
            read = reading_weight(batch.slots_nRC)
        rows = int(token_grids(batch.tiles_n3HW, batch.sizes, self.model.config).prod(1).sum())
        asked = (len(batch.pointing.label_p), len(batch.aiming.label_p))
        replies, placed, *pointed = read.new_tensor([len(batch.targets_l), rows, *asked])
        numbered = (batch.numbers_i != UNKNOWN).sum().to(read)
        return torch.stack([replies, read, read, placed, numbered, *pointed])

    def forward(self, batch: Batch, pixels_n3HW: Tensor | None) -> Tensor:
        """The summed `LOSSES`."""
        sums = dict.fromkeys(LOSSES, torch.zeros((), device=batch.ids_T.device))
        rows = None
        if pixels_n3HW is None and self.always_see:
            size = self.model.config.image.tile_size
            features, blank = self.see(torch.zeros(1, 3, size, size, device=batch.ids_T.device, dtype=self.model.dtype))
            sums["reply"] = 0 * (features.sum() + blank.sum())
        elif pixels_n3HW is not None and batch.sizes is not None:
            rows = self.see_sizes(pixels_n3HW, batch.sizes)
        elif pixels_n3HW is not None:
            features, rows = self.see(pixels_n3HW)
            if "place" in self.heads:
                sums["place"] = self.heads["place"](rows)
            if "reading" in self.heads and batch.slots_nRC is not None:
                for name, scores in self.read(features, rows, pixels_n3HW, batch.slot_tiles).items():
                    sums[name] = reading_loss(scores, batch.slots_nRC)
        if batch.lengths:
            hidden = self.think(batch, rows)
            logits = self.model.language_model.logits(hidden.index_select(0, batch.before_l))
            logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
            sums["reply"] = sums["reply"] + F.cross_entropy(logits, batch.targets_l, reduction="sum")
            if "tile" in self.heads and len(batch.places_i):
                sums["tile"] = self.heads["tile"](self._stream_TD.index_select(0, batch.places_i), batch.numbers_i)
            for name, questions in (("pointing", batch.pointing), ("aiming", batch.aiming)):
                if name in self.heads and len(questions.label_p):
                    asking = self._stream_TD.index_select(0, questions.asking_p)
                    shown = self._stream_TD.index_select(0, questions.places_j)
                    sums[name] = self.heads[name](asking, shown, questions.question_j, questions.label_p)
            self._stream_TD = torch.empty(0)
        return torch.stack([sums[name] for name in LOSSES])

    # ------------------------------------------------------------------------------------------------------- the parts

    def see(self, pixels_n3HW: Tensor) -> tuple[Tensor, Tensor]:
        """The tower's patches [n, L, V], and the language model's rows [n, tokens, levels * D]."""
        return self.model.see(pixels_n3HW)

    def see_sizes(self, pixels_n3HW: Tensor, sizes: np.ndarray) -> Tensor:
        """The language model's rows for pictures of several sizes, one picture after the other: [rows, levels * D].
        Those of one size go through the tower together."""
        parts: list[Tensor] = [pixels_n3HW] * len(sizes)
        for height, width in np.unique(sizes, axis=0).tolist():
            same = np.flatnonzero((sizes == (height, width)).all(1))
            there = torch.from_numpy(same).to(pixels_n3HW.device)
            for n, rows in zip(same, self.see(pixels_n3HW[there, :, :height, :width])[1], strict=True):
                parts[n] = rows
        return torch.cat(parts)

    def look(self, batch: Batch) -> Tensor | None:
        """The language model's rows for a batch's tiles; None where there are none."""
        if not len(batch.tiles_n3HW):
            return None
        pixels = self.pixels(batch.tiles_n3HW)
        return self.see(pixels)[1] if batch.sizes is None else self.see_sizes(pixels, batch.sizes)

    def read(self, features: Tensor, rows: Tensor, pixels: Tensor, tiles: Tensor) -> dict[str, Tensor]:
        """Scores of every reading head for the given tiles."""
        height, width = self._grid(pixels)
        scores = {}
        for name, source in (("reading", features), ("reading_rows", rows)):
            head = self.heads[name]
            assert isinstance(head, ReadingHead)
            scores[name] = head(source.index_select(0, tiles), height // head.side, width // head.side)
        return scores

    def think(self, batch: Batch, rows: Tensor | None) -> Tensor:
        """The decoder's final hidden vectors, [T, D]."""
        decoder = self.model.language_model
        x, deep = decoder.embed(batch.ids_T), None
        if rows is not None and len(batch.places_i):
            seen = rows.flatten(0, -2).index_select(0, batch.rows_i)
            x, deep = self.model.show(x, batch.places_i, seen)
        return decoder(x, Layout.build(batch.lengths, shift_3T=batch.shift_3T, device=x.device), None, deep)

    def _keep_stream(self, layer: nn.Module, inputs: tuple[Tensor, Tensor | None, Any, Any]) -> None:
        added, stream = inputs[:2]
        self._stream_TD = added if stream is None else stream + added

    def predict(self, batch: Batch, rows: Tensor | None) -> Tensor:
        """Logits for the learnt tokens alone: a vocabulary is wide and most tokens are only read."""
        return self.model.language_model.logits(self.think(batch, rows).index_select(0, batch.before_l))

    def pixels(self, tiles: Tensor) -> Tensor:
        return normalise(tiles, self.model.config.image, self.model.dtype)

    def _grid(self, pixels: Tensor) -> tuple[int, int]:
        patch = self.model.config.image.patch_size
        return pixels.shape[-2] // patch, pixels.shape[-1] // patch


def _head(name: str, config: ModelConfig) -> nn.Module:
    vision, projector = config.vision, config.projector
    if not isinstance(vision, VisionConfig) or projector is None:
        raise ConfigError(f"the {name} loss needs a RADIO tower; {config.name or 'this model'} has none")
    width, side = config.decoder.hidden, vision.grid // projector.shuffle
    match name:
        case "reading":
            return ReadingHead(vision.hidden)
        case "reading_rows":
            return ReadingHead(width, projector.shuffle)
        case "place":
            return PlaceHead(width, side, side)
        case "tile":
            return TileHead(width, config.image.max_tiles + 1)
        case _:
            return PointingHead(width)
