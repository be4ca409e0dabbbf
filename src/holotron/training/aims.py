"""The places that replies name: what the `pointing` and `aiming` losses ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from holotron.agent.dialects.base import Dialect
from holotron.model.config import ImageConfig
from holotron.model.processor import Processor, PromptImage
from holotron.training.places import token_at
from holotron.training.samples import TokenSequence, rows_shown


def with_places(
    sequence: TokenSequence,
    images: Sequence[PromptImage],
    sizes: Sequence[tuple[int, int]],
    dialect: Dialect,
    processor: Processor,
    image: ImageConfig,
) -> TokenSequence:
    """The sequence with its `points` and `aims`: of learnt replies, the places that the picture before them shows.
    `sizes` are the pictures', in pixels. Where a picture is told as changes, what has not changed is shown by one
    before it, and the reply looks for it among all since the last whole one. What has become blank since then is shown
    by none."""
    tokenizer = processor.tokenizer
    rows = [rows_shown([picture]) for picture in images]
    firsts = np.cumsum([0, *map(len, rows)])
    placeholders = sequence.ids == tokenizer.image_id
    shown_before, at_token = np.cumsum(placeholders), np.flatnonzero(placeholders)
    points, aims = [], []
    answered = -1  # the last picture that a reply looked at: what is before it knows of no later question
    for begin, end in learnt_replies(sequence):
        number = int(np.searchsorted(firsts, shown_before[begin])) - 1
        if number < 0:
            continue
        said = tokenizer.decode(sequence.ids[begin : end - 1].tolist())
        whole = max(n for n in range(number + 1) if images[n].base is None)
        for nth, (start, x, y) in enumerate(dialect.places(said)):
            for shows in range(number, whole - 1, -1):
                if (at := token_at(rows[shows], sizes[number], x, y, image)) is not None:
                    if image.sparse and not _same(rows[shows][at], images[shows], images[number], image):
                        break
                    before = firsts[shows] - firsts[whole]
                    among = (firsts[whole], firsts[number + 1] - firsts[whole], before + at)
                    aims.append((begin + len(tokenizer.encode(said[:start])) - 1, *among))
                    if nth == 0 and shows == number > answered:
                        points.append((at_token[firsts[number]] - 1, firsts[number], len(rows[number]), at))
                    break
        answered = number
    pointed, aimed = (np.array(found, np.int32).reshape(-1, 4) for found in (points, aims))
    return replace(sequence, points=pointed, aims=aimed)


def _same(place: np.ndarray, before: PromptImage, now: PromptImage, image: ImageConfig) -> bool:
    """Whether a group of a tile looks in both pictures alike."""
    tile, group = place.tolist()
    step = image.patch_size * image.downsample
    row, column = divmod(group, image.tile_size // step)
    squares = (picture.tiles[tile, :, row * step :, column * step :][:, :step, :step] for picture in (before, now))
    return torch.equal(*squares)


def learnt_replies(sequence: TokenSequence) -> list[tuple[int, int]]:
    """Where the runs of learnt tokens begin and end: each is a reply with the token that ends it."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], sequence.learn, [False]]).astype(np.int8)))
    return [(int(begin), int(end)) for begin, end in zip(edges[::2], edges[1::2], strict=True)]
