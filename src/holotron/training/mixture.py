"""The order of samples: an endless sequence of draws from weighted sources, the same for everyone who has the seed.

Draw number i names a source and an index in it. Finite sources are shuffled anew every time they have been gone
through. Nothing has to be remembered but the number of draws so far: that is the whole data state of a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from holotron.errors import ConfigError
from holotron.training.samples import Sample, joined

CHUNK = 32  # samples that a worker makes in one go
_BLOCK = 4_096


class Source(Protocol):
    @property
    def size(self) -> int | None:
        """How many different samples there are; None: endless."""

    def sample(self, index: int, rng: np.random.Generator) -> Sample:
        """Sample number `index`; whatever is random about it comes from `rng`."""


@dataclass(frozen=True)
class Draw:
    number: int
    source: int
    index: int


class Mixture:
    def __init__(self, weights: Sequence[float], sizes: Sequence[int | None], seed: int) -> None:
        if any(size == 0 for size in sizes):
            raise ConfigError(f"data source {list(sizes).index(0)} is empty")
        self._shares = np.asarray(weights, np.float64) / sum(weights)
        self._sizes = list(sizes)
        self._seed = seed

    def draws(self, start: int = 0, step: int = 1) -> Iterator[Draw]:
        """Draws number start, start + step, ... (each rank takes its own)."""
        counts = np.zeros(len(self._sizes), np.int64)  # draws of each source so far
        number, block = start, 0
        while True:
            chosen = np.random.default_rng([self._seed, 0, block]).choice(len(self._shares), _BLOCK, p=self._shares)
            begin = block * _BLOCK
            if number < begin + _BLOCK:
                place = np.empty(_BLOCK, np.int64)
                for source in range(len(self._sizes)):
                    mine = chosen == source
                    place[mine] = counts[source] + np.arange(mine.sum())
                while number < begin + _BLOCK:
                    source = int(chosen[number - begin])
                    yield Draw(number, source, self._index(source, int(place[number - begin])))
                    number += step
            counts += np.bincount(chosen, minlength=len(counts))
            block += 1

    def _index(self, source: int, place: int) -> int:
        size = self._sizes[source]
        if size is None:
            return place
        epoch, within = divmod(place, size)
        return int(_shuffled(self._seed, source, epoch, size)[within])


@lru_cache(maxsize=16)
def _shuffled(seed: int, source: int, epoch: int, size: int) -> np.ndarray:
    return np.random.default_rng([seed, 1, source, epoch]).permutation(size)


# -------------------------------------------------------------------------------------------------------- making them


class _Samples(Dataset[Sample]):
    def __init__(self, sources: Sequence[Source], seed: int) -> None:
        self._sources = sources
        self._seed = seed

    def __getitem__(self, draw: Draw) -> Sample:
        rng = np.random.default_rng([self._seed, 2, draw.number])
        return self._sources[draw.source].sample(draw.index, rng)


def sample_stream(
    sources: Sequence[Source],
    weights: Sequence[float],
    *,
    seed: int,
    start: int = 0,
    step: int = 1,
    workers: int = 0,
    chunk: int = CHUNK,
    device: torch.device | str = "cpu",
) -> Iterator[Sample]:
    """Samples in the mixture's order, their pictures on `device`, made by worker processes that run ahead."""
    mixture = Mixture(weights, [source.size for source in sources], seed)
    device = torch.device(device)
    loader = DataLoader(
        _Samples(sources, seed),
        batch_sampler=_Chunks(mixture, start, step, chunk),
        num_workers=workers,
        collate_fn=_pack,
        pin_memory=workers > 0 and device.type == "cuda",
        prefetch_factor=2 if workers else None,  # a chunk of large screens is 50 MB of shared memory
        worker_init_fn=_one_thread,
    )
    for packed in loader:
        yield from _unpack(packed, device)


@dataclass
class _Chunks:
    """Groups of draws for the loader. An object rather than a generator: loaders ask for an iterator themselves."""

    mixture: Mixture
    start: int
    step: int
    chunk: int

    def __iter__(self) -> Iterator[list[Draw]]:
        draws = self.mixture.draws(self.start, self.step)
        while True:
            yield [next(draws) for _ in range(self.chunk)]


def _pack(samples: list[Sample]) -> dict[str, Any]:
    """All pictures of a chunk in one tensor: one shared block to hand over, one copy to the device."""
    counts = [len(sample.tiles) for sample in samples]
    tiles, sizes = joined([sample.tiles for sample in samples], [sample.sizes for sample in samples])
    parts = np.split(sizes, np.cumsum(counts)[:-1]) if sizes is not None else [None] * len(samples)
    rest = [replace(s, tiles=torch.empty(0), sizes=own) for s, own in zip(samples, parts, strict=True)]
    return {"tiles": tiles, "counts": counts, "samples": rest}


def _unpack(packed: dict[str, Any], device: torch.device) -> Iterator[Sample]:
    tiles = packed["tiles"].to(device, non_blocking=True)
    for sample, mine in zip(packed["samples"], tiles.split(packed["counts"]), strict=True):
        yield replace(sample, tiles=mine)


def _one_thread(_: int) -> None:
    torch.set_num_threads(1)
