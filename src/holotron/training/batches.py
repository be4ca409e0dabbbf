"""Packing: samples become one long row of tokens per forward pass, with nothing padded and nothing mixed.

    tokens    | a a a a | b b b b b b | c c |         one `Layout` of three sequences
    learnt    |     x x |       x x x |   x |         replies only

Every sequence starts from an empty memory, because the layout says where it starts: the scan's state, the convolution's
taps and the attention's view all end at its edges. Samples are taken in order until a budget is full, so the budget
bounds memory and nothing else.

With `reuse`, samples pass through a replay buffer: each step brings in a share of fresh ones and shows a random choice
of all that are in it. Which ones follows from the seed and the step, and the buffer from the number of samples so far,
so a resumed run rebuilds it by making the last few thousand samples again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from holotron.errors import InputError
from holotron.kernels.shared import Shared
from holotron.model.config import ModelConfig
from holotron.model.looks import Looks, looks_of
from holotron.model.positions import Shown, packed_shifts, stretches
from holotron.training.recipe import BatchPart
from holotron.training.samples import NOWHERE, Sample, Sizes, TokenSequence, joined

UNKNOWN = -100  # torch's mark for a label that does not count
_PATIENCE = 100  # samples that no batch can hold, one after the other, before a run gives up

Stream = Callable[[int], Iterator[Sample]]  # the samples of a lane, from a given number on


class Pointing(NamedTuple):
    """Who asks which picture for what. Legend: p questions, j image tokens in all their pictures."""

    asking_p: Tensor  # where in the row the token is that asks
    places_j: Tensor  # and where the image tokens are
    question_j: Tensor  # which of the p questions each is asked
    label_p: Tensor  # which of the j tokens is the answer


@dataclass(frozen=True)
class Batch:
    """One forward pass. Legend: T tokens, S sequences, n tiles, i image tokens, l learnt tokens."""

    lengths: tuple[int, ...]
    ids_T: Tensor
    tiles_n3HW: Tensor  # uint8
    places_i: Tensor  # where in the row image tokens are
    rows_i: Tensor  # and which row of all tiles' rows each of them stands for
    numbers_i: Tensor  # and in which tile of its picture that is; UNKNOWN where a sample does not say
    before_l: Tensor  # the token before each learnt one: its hidden vector predicts it
    targets_l: Tensor
    slots_nRC: Tensor | None  # uint8, None when no sample knows its characters
    slot_tiles: Tensor  # the tiles they belong to
    pointing: Pointing  # the token before a picture: which of its tokens will the reply point at?
    aiming: Pointing  # the token before a place in a reply: which of the picture's tokens shows it?
    samples: int
    shift_3T: Tensor | None = None  # of a model whose positions have three axes, see `model.positions`
    sizes: Sizes = None  # of the tiles, where they differ
    looks: Looks | None = None  # of sparse pictures: the tiles are groups of tiles, and this says which of which
    shared: Shared | None = None  # sequences begin alike, and T are the different tokens alone; see `rl.sharing`

    @property
    def tokens(self) -> int:
        return sum(self.lengths)


def pack(
    tiles: Sequence[Tensor],
    sequences: Sequence[Sequence[TokenSequence]],
    slots: Sequence[np.ndarray | None],
    *,
    config: ModelConfig,
    device: torch.device,
    sizes: Sequence[Sizes] | None = None,
    looks: Sequence[np.ndarray | None] = (),
) -> Batch:
    """Samples, as their tiles (and their sizes, where they differ; or what is looked at of them), the sequences chosen
    of each, and their labels, to one batch."""
    first_tile = np.cumsum([0, *(len(t) for t in tiles)])
    chosen = [(n, sequence) for n, group in enumerate(sequences) for sequence in group]
    flat = [sequence for _, sequence in chosen]
    empty = np.empty(0, np.int64)
    ids = np.concatenate([empty, *(sequence.ids for sequence in flat)])
    learn = np.concatenate([empty.astype(bool), *(sequence.learn for sequence in flat)])
    starts = np.cumsum([0, *(len(sequence) for sequence in flat)])[:-1]
    learn[starts] = False  # nothing comes before a first token to predict it from
    targets = np.flatnonzero(learn)
    pictures, seen = joined(tiles, sizes) if tiles else (torch.empty(0), None)
    grids = token_grids(pictures, seen, config)
    first_row = np.cumsum([0, *grids.prod(1)])
    rows = [first_row[first_tile[n] + sequence.shown[:, 0]] + sequence.shown[:, 1] for n, sequence in chosen]
    labelled = [(n, labels) for n, labels in enumerate(slots) if labels is not None]
    slot_tiles = [first_tile[n] + tile for n, labels in labelled for tile in range(len(labels))]

    def send(array: np.ndarray | list[int], dtype: type = np.int64) -> Tensor:
        tensor = torch.from_numpy(np.asarray(array, dtype))
        return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor

    labels = np.concatenate([labels for _, labels in labelled]) if labelled else None
    places = np.flatnonzero(ids == config.tokens.image)
    return Batch(
        lengths=tuple(len(sequence) for sequence in flat),
        ids_T=send(ids),
        tiles_n3HW=pictures,
        places_i=send(places),
        rows_i=send(np.concatenate([empty, *rows])),
        numbers_i=send(np.concatenate([empty, *map(_numbers, flat)])),
        before_l=send(targets - 1),
        targets_l=send(ids[targets]),
        slots_nRC=send(labels, np.uint8) if labels is not None else None,
        slot_tiles=send(slot_tiles),
        pointing=Pointing(*map(send, _questions(flat, [s.points for s in flat], starts, places))),
        aiming=Pointing(*map(send, _questions(flat, [s.aims for s in flat], starts, places))),
        samples=len(tiles),
        shift_3T=send(_shifts(chosen, first_tile, grids, config)) if config.axes and flat else None,
        sizes=seen,
        looks=_looks(looks, config, device) if config.image.sparse and len(pictures) else None,
    )


def _looks(looks: Sequence[np.ndarray | None], config: ModelConfig, device: torch.device) -> Looks:
    """Those of all samples, one after the other."""
    mine = [part for part in looks if part is not None and len(part)]
    counts = [count for part in mine for count in np.unique(part[:, 0], return_counts=True)[1].tolist()]
    return looks_of(config, counts, np.concatenate([part[:, 1] for part in mine]), device)


def token_grids(tiles: Tensor, sizes: Sizes, config: ModelConfig) -> np.ndarray:
    """Rows and columns of tokens of every tile, [n, 2]."""
    if sizes is None:
        sizes = np.broadcast_to(np.array(tiles.shape[-2:] if len(tiles) else (0, 0)), (len(tiles), 2))
    return sizes // (config.image.patch_size * config.image.downsample)


def pictures_shown(
    sequence: TokenSequence, grids: np.ndarray, config: ModelConfig, upto: int | None = None
) -> list[Shown]:
    """The pictures among a sequence's tokens (the first `upto`), for a model whose positions have three axes. `grids`
    are those of its sample's tiles."""
    places = np.flatnonzero(sequence.ids[:upto] == config.tokens.image)
    found = stretches(places, *sequence.shown[: len(places)].T)
    return [Shown(start, count, row, *map(int, grids[tile])) for start, count, tile, row in found]


def _shifts(
    chosen: Sequence[tuple[int, TokenSequence]], first_tile: np.ndarray, grids: np.ndarray, config: ModelConfig
) -> np.ndarray:
    """How far the positions of all tokens are from their indices, [3, T]."""
    shown = [pictures_shown(sequence, grids[first_tile[n] :], config) for n, sequence in chosen]
    return packed_shifts([len(sequence) for _, sequence in chosen], shown)[0]


def _numbers(sequence: TokenSequence) -> np.ndarray:
    return np.full(len(sequence.shown), UNKNOWN) if sequence.numbers is None else sequence.numbers


def _questions(
    sequences: Sequence[TokenSequence], asked: Sequence[np.ndarray], starts: np.ndarray, places_i: np.ndarray
) -> tuple[np.ndarray, ...]:
    """The questions that each sequence asks, with places in the row instead of in the sequence."""
    counts = [len(rows) for rows in asked]
    shown_before = np.cumsum([0, *(len(sequence.shown) for sequence in sequences)])[:-1]
    asking_p, first_p, count_p, label_p = np.concatenate([NOWHERE, *asked]).T
    first_p = first_p + np.repeat(shown_before, counts)
    before_p = np.cumsum(count_p) - count_p
    question_j = np.repeat(np.arange(len(count_p)), count_p)
    token_j = np.arange(count_p.sum()) - before_p[question_j] + first_p[question_j]
    return asking_p + np.repeat(starts, counts), places_i[token_j], question_j, before_p + label_p


class Batches:
    """The batches of one lane, one a step; see `lanes`. `position`, the samples used up so far, is all there is to
    save."""

    def __init__(
        self,
        stream: Stream,
        recipe: BatchPart,
        *,
        config: ModelConfig,
        device: torch.device,
        seed: int,
        lane: int = 0,
        lanes: int = 1,
        known: int | None = None,
    ) -> None:
        """`known`: how many samples there are for one pass, if not endlessly many. Without `batch.samples` no more of
        them are taken: the same ones again would fill the budget, cost their time, and change no mean."""
        self._open = stream
        self._recipe = recipe
        self._most = recipe.samples or known  # samples in a batch
        self._config = config
        self._device = device
        self._seed = (seed, lane)
        self._replay = -(-recipe.replay // lanes)  # the lanes hold the buffer together
        self.position = 0
        self.skipped = 0
        self._refused = 0  # in a row
        self._samples: Iterator[Sample] | None = None
        self._waiting: Sample | None = None  # read from the stream, but too large for the last batch
        self._buffer: list[Sample] = []  # oldest first

    def seek(self, position: int) -> None:
        """Continue as if `position` samples had been used up."""
        self.position = position
        self._samples, self._waiting = None, None
        self._buffer.clear()

    def step(self, step: int) -> Batch:
        """The forward pass of one step."""
        rng = np.random.default_rng([*self._seed, 3, step])
        return self._replayed(rng) if self._recipe.reuse > 1 else self._fresh(rng)

    # ------------------------------------------------------------------------------------------------------ in order

    def _fresh(self, rng: np.random.Generator) -> Batch:
        budget, limit = self._recipe.tokens, self._most
        taken: list[Sample] = []
        chosen: list[list[TokenSequence]] = []
        tokens = 0
        while limit is None or len(taken) < limit:
            sample = self._waiting or self._next()
            self._waiting = None
            sequences = self._choose(sample, rng)
            size = self._size(sample, sequences)
            if size > budget:
                self._refuse(size)
                continue
            if tokens + size > budget:
                self._waiting = sample
                break
            taken.append(sample)
            chosen.append(sequences)
            tokens += size
            self.position += 1
            self._refused = 0
        return self._pack(taken, chosen)

    def _refuse(self, size: int) -> None:
        if self._recipe.too_long == "fail":
            raise InputError(
                f"a sample has {size:,} tokens and batch.tokens is {self._recipe.tokens:,}; raise it, shorten the "
                'samples, or say batch.too_long = "skip"'
            )
        self.skipped += 1
        self.position += 1
        self._refused += 1
        if self._refused >= _PATIENCE:
            raise InputError(
                f"{_PATIENCE:,} samples in a row have more than batch.tokens ({self._recipe.tokens:,}); raise it, or "
                "lower batch.sequences"
            )

    def _next(self) -> Sample:
        if self._samples is None:
            self._samples = self._open(self.position)
        return next(self._samples)

    # --------------------------------------------------------------------------------------------------- with replay

    def _replayed(self, rng: np.random.Generator) -> Batch:
        size = self._recipe.samples
        assert size is not None  # the recipe checks
        if self._samples is None:  # the start, or a resumed run: make again what the buffer held
            kept = min(self.position, self._replay)
            self._samples = self._open(self.position - kept)
            self._buffer.extend(next(self._samples) for _ in range(kept))
        fresh = size if self.position == 0 else max(1, round(size / self._recipe.reuse))
        self._buffer.extend(next(self._samples) for _ in range(fresh))
        del self._buffer[: -self._replay]
        self.position += fresh
        places = rng.choice(len(self._buffer), size, replace=len(self._buffer) < size)
        taken = [self._buffer[place] for place in places]
        chosen = [self._choose(sample, rng) for sample in taken]
        tokens = sum(map(self._size, taken, chosen))
        if tokens > self._recipe.tokens:
            raise InputError(
                f"{size} samples have {tokens:,} tokens and batch.tokens is {self._recipe.tokens:,}; raise it, or "
                "lower batch.samples"
            )
        return self._pack(taken, chosen)

    # --------------------------------------------------------------------------------------------------------- both

    def _choose(self, sample: Sample, rng: np.random.Generator) -> list[TokenSequence]:
        most = self._recipe.sequences
        if len(sample.sequences) <= most:
            return list(sample.sequences)
        return [sample.sequences[n] for n in rng.choice(len(sample.sequences), most, replace=False)]

    def _size(self, sample: Sample, sequences: Sequence[TokenSequence]) -> int:
        """Tokens; of a picture that nobody asks about, as many as it would make."""
        return sum(map(len, sequences)) or len(sample.tiles) * self._config.image.tokens(*sample.tiles.shape[-2:])

    def _pack(self, samples: list[Sample], chosen: list[list[TokenSequence]]) -> Batch:
        return pack(
            [sample.tiles for sample in samples],
            chosen,
            [sample.slots for sample in samples],
            config=self._config,
            device=self._device,
            sizes=[sample.sizes for sample in samples],
            looks=[sample.looks for sample in samples],
        )
