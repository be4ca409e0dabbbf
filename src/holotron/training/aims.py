"""The places that replies name, for the `aiming` loss: which token names each, and which image token shows it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from holotron.agent.dialects.base import Dialect
from holotron.model.config import ImageConfig
from holotron.model.processor import Processor, PromptImage
from holotron.training.places import token_at
from holotron.training.samples import TokenSequence, rows_shown


def find_aims(
    sequence: TokenSequence,
    images: Sequence[PromptImage],
    sizes: Sequence[tuple[int, int]],
    dialect: Dialect,
    processor: Processor,
    image: ImageConfig,
) -> np.ndarray:
    """Of every place in a learnt reply that the picture before it shows: `TokenSequence.aims`. `sizes` are the
    pictures', in pixels."""
    tokenizer = processor.tokenizer
    rows = [rows_shown([picture]) for picture in images]
    firsts = np.cumsum([0, *map(len, rows)])
    shown_before = np.cumsum(sequence.ids == tokenizer.image_id)
    found = []
    for begin, end in learnt_replies(sequence):
        number = int(np.searchsorted(firsts, shown_before[begin])) - 1  # the last picture before the reply
        if number < 0:
            continue
        said = tokenizer.decode(sequence.ids[begin : end - 1].tolist())
        for start, x, y in dialect.places(said):
            if (at := token_at(rows[number], sizes[number], x, y, image)) is not None:
                before = begin + len(tokenizer.encode(said[:start])) - 1
                found.append((before, firsts[number], len(rows[number]), at))
    return np.array(found, np.int32).reshape(-1, 4)


def learnt_replies(sequence: TokenSequence) -> list[tuple[int, int]]:
    """Where the runs of learnt tokens begin and end: each is a reply with the token that ends it."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], sequence.learn, [False]]).astype(np.int8)))
    return [(int(begin), int(end)) for begin, end in zip(edges[::2], edges[1::2], strict=True)]
