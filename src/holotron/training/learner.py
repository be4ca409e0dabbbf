"""The losses: a model, the heads that exist only in training, and one forward pass over a packed batch.

Losses come out as sums; `counts` says what they are sums over. They are divided by the count of a whole step, all its
forward passes on all ranks, so neither the size of a pass nor the number of ranks changes what a token weighs.

Where the model lies in shards, its parts are gathered by all ranks together, so all must call the same parts equally
often. `Calls` says how often that is; whoever has less to look at looks at a blank, and learns nothing from it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holotron.errors import ConfigError
from holotron.kernels.layout import Layout
from holotron.model.config import ModelConfig, VisionConfig
from holotron.model.looks import Looks
from holotron.model.model import Holotron
from holotron.model.processor.images import channels, rescale
from holotron.training.augment import relight
from holotron.training.batches import UNKNOWN, Batch, token_grids
from holotron.training.places import PlaceHead, PointingHead, TileHead
from holotron.training.reading import ReadingHead, reading_weight

LOSSES = ("reply", "reading", "reading_rows", "place", "tile", "pointing", "aiming")


@dataclass(frozen=True)
class Calls:
    """Of the parts of a model in one pass, on every rank alike."""

    looks: int  # of the tower
    thinks: bool  # the decoder, once or not at all
    heads: tuple[bool, ...]  # which of those there are

    def numbers(self) -> list[int]:
        return [self.looks, int(self.thinks), *map(int, self.heads)]

    @classmethod
    def of(cls, numbers: Sequence[int]) -> Calls:
        looks, thinks, *heads = numbers
        return cls(looks, bool(thinks), tuple(map(bool, heads)))


class Learner(nn.Module):
    # Beside `forward`, what may be called from outside while the model lies in shards.
    ENTRANCES: ClassVar[Sequence[str]] = ("rows_of", "score")

    def __init__(self, model: Holotron, losses: Collection[str] = ()) -> None:
        """`losses` beside that of replies: each has a head of its own."""
        super().__init__()
        self.model = model
        # What is done to pixels one by one; `compiling` puts fused forms in their place.
        self.relight: Callable[..., Tensor] = relight
        self.rescale: Callable[..., Tensor] = rescale
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

    def calls(self, batch: Batch) -> Calls:
        """What a pass over this batch calls."""
        sizes = 1 if batch.sizes is None else len(np.unique(batch.sizes, axis=0))
        looks, thinks = sizes if len(batch.tiles_n3HW) else 0, bool(batch.lengths)
        tiled = looks > 0 and batch.sizes is None
        read = tiled and batch.slots_nRC is not None
        used = {
            "reading": read,
            "reading_rows": read,
            "place": tiled,
            "tile": thinks and len(batch.places_i) > 0,
            "pointing": thinks and len(batch.pointing.label_p) > 0,
            "aiming": thinks and len(batch.aiming.label_p) > 0,
        }
        return Calls(looks, thinks, tuple(used[name] for name in self.heads))

    def forward(self, batch: Batch, pixels_n3HW: Tensor | None, calls: Calls | None = None) -> Tensor:
        """The summed `LOSSES`. `calls`: those to make, where the model lies in shards."""
        sums = dict.fromkeys(LOSSES, torch.zeros((), device=batch.ids_T.device))
        rows = None
        if calls is not None:
            sums["reply"] = self._blank_looks(batch, calls)
        if pixels_n3HW is not None and batch.sizes is not None:
            rows = self.see_sizes(pixels_n3HW, batch.sizes)
        elif pixels_n3HW is not None:
            features, rows = self.see(pixels_n3HW, batch.looks)
            if "place" in self.heads:
                sums["place"] = self.heads["place"](rows, None if batch.looks is None else batch.looks.groups_K)
            if "reading" in self.heads and batch.slots_nRC is not None:
                for name, head, seen, *cells in self._readers(features, rows, pixels_n3HW, batch.slot_tiles):
                    sums[name] = head.loss(seen, batch.slots_nRC, *cells)
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
        elif calls is not None and calls.thinks:
            sums["reply"] = sums["reply"] + self._blank_thought(batch.ids_T.device)
        self._stream_TD = torch.empty(0)
        return torch.stack([sums[name] for name in LOSSES])

    def rows_of(self, pixels_n3HW: Tensor, looks: Looks | None = None) -> Tensor:
        """The language model's rows for tiles of one size."""
        return self.see(pixels_n3HW, looks)[1]

    def score(self, batch: Batch, calls: Calls | None = None) -> tuple[Tensor, Tensor]:
        """Logits for the learnt tokens; and a zero to add to the loss, with which this rank makes as many `calls` as
        the others."""
        device = batch.ids_T.device
        zero = torch.zeros((), device=device) if calls is None else self._blank_looks(batch, calls)
        if batch.lengths:
            return self.predict(batch, self.look(batch)), zero
        if calls is not None and calls.thinks:
            zero = zero + self._blank_thought(device)
        return torch.empty((0, self.model.config.decoder.vocab), device=device), zero

    # -------------------------------------------------------------------------------------- nothing to see, nor to say

    def _blank_looks(self, batch: Batch, calls: Calls) -> Tensor:
        """A zero with a gradient for what another rank uses and this one does not. Gradients are summed over the ranks
        parameter by parameter, so none may be missing on one of them."""
        image, tiled = self.model.config.image, isinstance(self.model.config.vision, VisionConfig)
        side = image.tile_size if tiled else image.patch_size * image.downsample
        total = torch.zeros((), device=batch.ids_T.device)
        for _ in range(calls.looks - self.calls(batch).looks):
            blank = torch.zeros(1, 3, side, side, device=total.device, dtype=self.model.dtype)
            total = total + sum(part.sum() for part in self.see(blank))
        used = [head for head, wanted in zip(self.heads.values(), calls.heads, strict=True) if wanted]
        return 0 * (total + sum(p.sum() for head in used for p in head.parameters()))

    def _blank_thought(self, device: torch.device) -> Tensor:
        decoder = self.model.language_model
        x = decoder.embed(torch.zeros(1, dtype=torch.int64, device=device))
        return 0 * decoder.logits(decoder(x, Layout.build((1,), device=device), None, None)).sum()

    # ------------------------------------------------------------------------------------------------------- the parts

    def see(self, pixels_n3HW: Tensor, looks: Looks | None = None) -> tuple[Tensor, Tensor]:
        """The tower's patches [n, L, V], and the language model's rows [n, tokens, levels * D]. Of sparse pictures the
        tiles are groups of tiles, each of one token."""
        return self.model.see(pixels_n3HW) if looks is None else self.model.see_groups(pixels_n3HW, looks)

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
        return self.see(pixels, batch.looks)[1] if batch.sizes is None else self.see_sizes(pixels, batch.sizes)

    def read(self, features: Tensor, rows: Tensor, pixels: Tensor, tiles: Tensor) -> dict[str, Tensor]:
        """Scores of every reading head for the given tiles."""
        return {name: head(*seen) for name, head, *seen in self._readers(features, rows, pixels, tiles)}

    def _readers(
        self, features: Tensor, rows: Tensor, pixels: Tensor, tiles: Tensor
    ) -> Iterator[tuple[str, ReadingHead, Tensor, int, int]]:
        """Every reading head with what it sees of the given tiles: features of cells, in so many rows and columns."""
        height, width = self._grid(pixels)
        for name, source in (("reading", features), ("reading_rows", rows)):
            head = self.heads[name]
            assert isinstance(head, ReadingHead)
            yield name, head, source.index_select(0, tiles), height // head.side, width // head.side

    def think(self, batch: Batch, rows: Tensor | None) -> Tensor:
        """The decoder's final hidden vectors, [T, D]."""
        decoder = self.model.language_model
        x, deep = decoder.embed(batch.ids_T), None
        if rows is not None and len(batch.places_i):
            seen = rows.flatten(0, -2).index_select(0, batch.rows_i)
            x, deep = self.model.show(x, batch.places_i, seen)
        layout = Layout.build(batch.lengths, shift_3T=batch.shift_3T, device=x.device)
        return decoder(x, replace(layout, shared=batch.shared), None, deep)

    def _keep_stream(self, layer: nn.Module, inputs: tuple[Tensor, Tensor | None, Any, Any]) -> None:
        added, stream = inputs[:2]
        self._stream_TD = added if stream is None else stream + added

    def predict(self, batch: Batch, rows: Tensor | None) -> Tensor:
        """Logits for the learnt tokens alone: a vocabulary is wide and most tokens are only read."""
        return self.model.language_model.logits(self.think(batch, rows).index_select(0, batch.before_l))

    def pixels(self, tiles: Tensor) -> Tensor:
        return self.rescale(tiles, *channels(self.model.config.image, tiles.device), self.model.dtype)

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
