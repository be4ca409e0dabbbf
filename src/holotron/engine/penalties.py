"""Penalties and biases: what one request wants changed about the logits, given what it has said so far.

For a token with the logit x that was chosen c times in the reply, in this order:

    x / r  if x > 0  else  x * r      r = repetition_penalty, if the token stands in the prompt or in the reply
    x - c * frequency_penalty         as OpenAI defines them: of the reply alone
    x - presence_penalty              if c > 0
    x + logit_bias[token]

What a grammar forces was not chosen. Did it count, the quotes and braces of JSON would soon be so unlikely that no text
ends any more; browser-use, for one, always asks for a frequency penalty.

Few tokens are touched, so the host keeps a short table of them and the device gets that table: one copy, nobody waits,
and the result is the same whoever else is in the batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from holotron.engine.api import SamplingParams
from holotron.errors import InputError
from holotron.kernels.layout import upload


class Penalties:
    """The table of one request: tokens, what their logits are scaled by, what is added to them."""

    def __init__(self, params: SamplingParams, prompt: Sequence[int], vocab: int) -> None:
        self._params = params
        if wrong := [token for token in params.logit_bias if not 0 <= token < vocab]:
            raise InputError(f"logit_bias: {wrong[0]} is not a token id of this model: they go from 0 to {vocab - 1}")
        tokens = list(params.logit_bias)
        self._counts: dict[int, int] = {}  # of those chosen
        self._places = {token: n for n, token in enumerate(tokens)}
        if params.repetition_penalty != 1:
            ids = np.unique(np.array(prompt, np.int64))
            read = ids[(ids >= 0) & (ids < vocab)].tolist()  # pictures have other numbers
            fresh = [token for token in read if token not in self._places]
            self._places |= {token: len(tokens) + n for n, token in enumerate(fresh)}
            tokens += fresh
        else:
            read = []
        size = max(64, 2 * len(tokens))
        self._tokens = np.zeros(size, np.int64)
        self._scales = np.ones(size, np.float64)
        self._added = np.zeros(size, np.float64)
        self._tokens[: len(tokens)] = tokens
        self._added[: len(params.logit_bias)] = list(params.logit_bias.values())
        self._scales[[self._places[token] for token in read]] = params.repetition_penalty

    def note(self, token: int, *, forced: bool = False) -> None:
        """It was said."""
        params, place = self._params, self._places.get(token)
        if place is None:
            place = self._places[token] = len(self._places)
            if place == len(self._tokens):
                self._tokens = np.concatenate([self._tokens, np.zeros_like(self._tokens)])
                self._scales = np.concatenate([self._scales, np.ones_like(self._scales)])
                self._added = np.concatenate([self._added, np.zeros_like(self._added)])
            self._tokens[place] = token
        self._scales[place] = params.repetition_penalty
        if forced:
            return
        count = self._counts[token] = self._counts.get(token, 0) + 1
        self._added[place] = (
            params.logit_bias.get(token, 0.0) - count * params.frequency_penalty - params.presence_penalty
        )

    @property
    def table(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        count = len(self._places)
        return self._tokens[:count], self._scales[:count], self._added[:count]


def penalties_of(params: SamplingParams, prompt: Sequence[int], vocab: int) -> Penalties | None:
    """None for a request that wants none: it pays nothing."""
    wanted = params.logit_bias or params.frequency_penalty or params.presence_penalty or params.repetition_penalty != 1
    return Penalties(params, prompt, vocab) if wanted else None


def penalised(logits_BV: Tensor, rows: Mapping[int, Penalties]) -> Tensor:
    """Logits with these rows' penalties applied; the ones given stay as they are."""
    vocab = logits_BV.shape[-1]
    places, scales, added = [], [], []
    for row, penalties in rows.items():
        tokens, scale, add = penalties.table
        places.append(tokens + row * vocab)
        scales.append(scale)
        added.append(add)
    index, scale_N, add_N = upload([np.concatenate(part) for part in (places, scales, added)], logits_BV.device)
    flat = logits_BV.flatten().clone()
    chosen = flat[index]
    scale_N, add_N = scale_N.to(flat.dtype), add_N.to(flat.dtype)
    flat[index] = torch.where(chosen > 0, chosen / scale_N, chosen * scale_N) + add_N
    return flat.view_as(logits_BV)
