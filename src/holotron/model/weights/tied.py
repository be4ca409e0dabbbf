"""A head that the configuration ties to the embeddings, in a file that holds both.

Some published checkpoints do (Holo3.1-0.8B). They are one matrix if they are equal, which is what the configuration
says; if not, the file is right, for it holds what was trained. So transformers decides, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from holotron.model.config import ModelConfig
from holotron.model.families import family_of
from holotron.model.weights.headers import Header
from holotron.model.weights.reader import Reader

HEAD, EMBEDDINGS = "language_model.lm_head.weight", "language_model.backbone.embeddings.weight"


def untied_if_different(config: ModelConfig, headers: dict[str, Header]) -> ModelConfig:
    """The configuration that the files hold; a head that is the embeddings once more is taken out of `headers`."""
    if not config.decoder.tied_embeddings:
        return config
    head, table = map(family_of(config).tensor_key, (HEAD, EMBEDDINGS))
    if head not in headers or table not in headers:
        return config
    if _same(headers, head, table):
        del headers[head]
        return config
    return replace(config, decoder=replace(config.decoder, tied_embeddings=False))


def _same(headers: Mapping[str, Header], one: str, other: str) -> bool:
    mine, theirs = headers[one], headers[other]
    if (mine.shape, mine.kind) != (theirs.shape, theirs.kind):
        return False
    rows = mine.shape[0]
    with Reader("cpu") as first, Reader("cpu") as second:
        pairs = zip(first.rows(mine, rows), second.rows(theirs, rows), strict=True)
        return all(torch.equal(a, b) for (_, _, a), (_, _, b) in pairs)
