"""Rows of the vision tower, kept by tile content for all sessions.

A tile that has been encoded once is not encoded again, whoever shows it, for as long as it stays in the cache. The
cache is sized in bytes and forgets the least recently used. Tiles of several sessions go through the tower together,
and so do all tiles of a picture, though an iteration may read only the first of them.

On a GPU the tower runs from captured graphs, one for each number of tiles that comes up again: its five hundred
kernels take the host longer to launch than the device needs for a screenshot in 8 bits.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from holotron.engine.capture import Captured, Recorder
from holotron.engine.log import Tile, TileSpan
from holotron.kernels.dispatch import use_triton
from holotron.model.looks import looks_of, patches_of_look
from holotron.model.model import Holotron
from holotron.model.processor.images import normalise

MOST_GRAPHS = 16
MOST_TILES_AHEAD = 18  # two large screenshots: with more than that at once, none are encoded before they are shown


class VisionCache:
    def __init__(self, model: Holotron, limit_bytes: int, batch: int) -> None:
        self._model = model
        self._limit = limit_bytes
        self._batch = batch
        self._rows: OrderedDict[bytes, Tensor] = OrderedDict()
        self._tower = _Tower(model)
        self.bytes_used = 0
        self.encoded = 0
        self.reused = 0

    def rows(self, spans: Sequence[TileSpan], ahead: Sequence[Tile] = ()) -> dict[bytes, Tensor]:
        """The rows of each tile, by key; those not known yet are encoded. `ahead`: tiles that will be asked for next,
        encoded with them if there is room to keep them."""
        wanted = {span.tile.key: span.tile for span in spans}
        found = {key: self._rows[key] for key in wanted if key in self._rows}
        for key in found:
            self._rows.move_to_end(key)
        missing = [tile for key, tile in wanted.items() if key not in found]
        # A tile cut by the end of an iteration is looked up twice; only its beginning counts.
        self.reused += max(0, sum(span.offset == 0 for span in spans) - len(missing))
        if missing:
            missing += self._worth_while(missing, ahead)
        if self._model.config.image.sparse:
            for some in self._batches(missing):
                found |= self._keep(some, self._tower.rows_of_groups(some))
            return found
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
        self._tower.clear()
        self.bytes_used = 0

    def _worth_while(self, now: list[Tile], ahead: Sequence[Tile]) -> list[Tile]:
        """Of tiles that will be needed, those not known; none, if all together are too many."""
        known = {tile.key for tile in now}
        later = {tile.key: tile for tile in ahead if tile.key not in known and tile.key not in self._rows}
        config = self._model.config
        tile_bytes = config.tokens_per_tile * config.levels * config.decoder.hidden * self._model.dtype.itemsize
        together = len(now) + len(later)
        return list(later.values()) if together <= MOST_TILES_AHEAD and together * tile_bytes <= self._limit else []

    def _encode(self, tiles: list[Tile]) -> dict[bytes, Tensor]:
        shape = (len(tiles), *tiles[0].pixels.shape)
        # From memory that is not pinned, the copy would wait for all that the device still has to do.
        pixels = torch.empty(shape, dtype=torch.uint8, pin_memory=self._model.device.type == "cuda")
        torch.stack([tile.pixels for tile in tiles], out=pixels)
        return self._keep(tiles, self._tower.rows(pixels))

    def _batches(self, tiles: list[Tile]) -> Iterator[list[Tile]]:
        """Tiles that are read in part, as many at once as are no more work than a batch of whole ones. Each brings the
        tower's prefix along, however little of it is read."""
        config = self._model.config
        batch: list[Tile] = []
        room = most = self._batch * patches_of_look(config, config.tokens_per_tile)
        for tile in tiles:
            needed = patches_of_look(config, tile.rows)
            if batch and needed > room:
                yield batch
                batch, room = [], most
            batch.append(tile)
            room -= needed
        if batch:
            yield batch

    def _keep(self, tiles: list[Tile], rows: Tensor) -> dict[bytes, Tensor]:
        self.encoded += len(tiles)
        # Copies: a view would keep the whole batch alive, and the next batch may be written to the same place.
        parts = rows.split([tile.rows for tile in tiles])
        fresh = {tile.key: part.clone() for tile, part in zip(tiles, parts, strict=True)}
        for key, part in fresh.items():
            if part.nbytes <= self._limit:
                self._rows[key] = part
                self.bytes_used += part.nbytes
        while self.bytes_used > self._limit:
            self.bytes_used -= self._rows.popitem(last=False)[1].nbytes
        return fresh


class _Tower:
    """The tower and the projector; from captured graphs where there can be any."""

    def __init__(self, model: Holotron) -> None:
        self._model = model
        self._graphs: OrderedDict[torch.Size, tuple[Tensor, Captured]] = OrderedDict()  # least recently used first
        self._recorder: Recorder | None = None
        image = model.config.image
        fixed = model.vision_model is not None and not image.dynamic and not image.sparse
        with torch.no_grad():
            if fixed and use_triton(model.language_model.backbone.embeddings.weight):
                self._recorder = Recorder(model.device)

    def rows(self, pixels: Tensor) -> Tensor:
        """Rows of tiles in the host's memory; valid until the next call."""
        if self._recorder is None:
            return self._encode(pixels.to(self._model.device, non_blocking=True))
        known = self._graphs.get(pixels.shape)
        if known is None:
            known = self._made(pixels.shape, self._recorder)
        self._graphs.move_to_end(pixels.shape)
        there, tower = known
        there.copy_(pixels, non_blocking=True)
        return tower()

    def rows_of_groups(self, tiles: list[Tile]) -> Tensor:
        """Rows of the groups that are read of each tile."""
        model = self._model
        step = model.config.image.patch_size * model.config.image.downsample
        parts, groups = list[Tensor](), list[np.ndarray]()
        for tile in tiles:
            mine = tile.groups if tile.groups is not None else np.arange(tile.rows, dtype=np.int32)
            rows, columns = tile.grid
            squares = tile.pixels.view(3, rows, step, columns, step).permute(1, 3, 0, 2, 4).flatten(0, 1)
            parts.append(squares[torch.from_numpy(mine).long()])
            groups.append(mine)
        counts = [len(mine) for mine in groups]
        looks = looks_of(model.config, counts, np.concatenate(groups), model.device)
        return model.encode_groups(normalise(torch.cat(parts).to(model.device), model.config.image, model.dtype), looks)

    def clear(self) -> None:
        if self._recorder is not None and self._graphs:
            self._recorder.clear()
        self._graphs.clear()

    def _made(self, shape: torch.Size, recorder: Recorder) -> tuple[Tensor, Captured]:
        if len(self._graphs) >= MOST_GRAPHS:
            torch.cuda.synchronize(self._model.device)  # it may be running
            self._graphs.popitem(last=False)
        there = torch.empty(shape, dtype=torch.uint8, device=self._model.device)
        self._graphs[shape] = (there, Captured(lambda: self._encode(there), recorder))
        return self._graphs[shape]

    def _encode(self, pixels: Tensor) -> Tensor:
        model = self._model
        return model.encode_tiles(normalise(pixels, model.config.image, model.dtype))
