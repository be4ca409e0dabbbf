"""Rows of the vision tower, kept by tile content for all sessions.

A tile that has been encoded once is not encoded again, whoever shows it, for as long as it stays in the cache. The
cache is sized in bytes and forgets the least recently used. Tiles of several sessions go through the tower together.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor

from holotron.engine.log import Tile, TileSpan
from holotron.model.model import Holotron
from holotron.model.processor.images import normalise


class VisionCache:
    def __init__(self, model: Holotron, limit_bytes: int, batch: int) -> None:
        self._model = model
        self._limit = limit_bytes
        self._batch = batch
        self._rows: OrderedDict[bytes, Tensor] = OrderedDict()
        self.bytes_used = 0
        self.encoded = 0
        self.reused = 0

    def rows(self, spans: Sequence[TileSpan]) -> dict[bytes, Tensor]:
        """The rows of each tile, by key; those not known yet are encoded."""
        wanted = {span.tile.key: span.tile for span in spans}
        found = {key: self._rows[key] for key in wanted if key in self._rows}
        for key in found:
            self._rows.move_to_end(key)
        missing = [tile for key, tile in wanted.items() if key not in found]
        # A tile cut by the end of an iteration is looked up twice; only its beginning counts.
        self.reused += max(0, sum(span.offset == 0 for span in spans) - len(missing))
        # Tiles of one shape form a batch. They differ only for models of dynamic resolution, where as many form one as
        # have the tokens of a batch of tiles.
        image = self._model.config.image
        shapes: dict[torch.Size, list[Tile]] = {}
        for tile in missing:
            shapes.setdefault(tile.pixels.shape, []).append(tile)
        for shape, same in shapes.items():
            count = max(1, self._batch * image.tokens_per_tile // image.tokens(*shape[-2:]))
            for start in range(0, len(same), count):
                found |= self._encode(same[start : start + count])
        return found

    def clear(self) -> None:
        """The tower has changed: what it said before is void."""
        self._rows.clear()
        self.bytes_used = 0

    def _encode(self, tiles: list[Tile]) -> dict[bytes, Tensor]:
        model = self._model
        shape = (len(tiles), *tiles[0].pixels.shape)
        # From memory that is not pinned, the copy would wait for all that the device still has to do.
        pixels = torch.empty(shape, dtype=torch.uint8, pin_memory=model.device.type == "cuda")
        torch.stack([tile.pixels for tile in tiles], out=pixels)
        there = pixels.to(model.device, non_blocking=True)
        rows = model.encode_tiles(normalise(there, model.config.image, model.dtype))
        self.encoded += len(tiles)
        fresh = {tile.key: part for tile, part in zip(tiles, rows.chunk(len(tiles)), strict=True)}
        for key, part in fresh.items():
            if part.nbytes <= self._limit:
                self._rows[key] = part.clone()  # a view would keep the whole batch alive
                self.bytes_used += part.nbytes
        while self.bytes_used > self._limit:
            self.bytes_used -= self._rows.popitem(last=False)[1].nbytes
        return fresh
