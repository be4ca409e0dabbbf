"""Choosing tokens, for all sequences of an iteration at once.

Randomness is one number per token, a hash of the request's seed and the token's index: what else runs in the batch, or
in which order, cannot change a sample. The number is looked up in the cumulative distribution of the row.

Logprobs are those of the model: log softmax of the logits as they came, before penalties, temperature, filters and
masks. With `policy_logprobs` they are those of what is drawn from, after penalties, masks and temperature. A trainer
can compute either from the same tokens.

Nothing here waits for the device: `draw` gives the tokens as a tensor, for the network to read next, and `Draw.read`
waits for them when the host wants to know.

Legend: B sequences, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from holotron.engine.api import SamplingParams
from holotron.engine.penalties import Penalties, penalised
from holotron.kernels.choice import likeliest
from holotron.kernels.layout import upload
from holotron.model.model import Holotron

_MASK64 = (1 << 64) - 1


def mix64(x: int) -> int:
    """splitmix64's finaliser: 64 well-mixed bits."""
    x = (x + 0x9E3779B97F4A7C15) & _MASK64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK64
    return x ^ (x >> 31)


def uniform(seed: int, index: int) -> float:
    """A number in [0, 1) that depends on nothing else."""
    return (mix64(mix64(seed & _MASK64) ^ index) >> 32) / 2**32


class Choice(NamedTuple):
    """How one row is to be sampled."""

    params: SamplingParams
    seed: int
    index: int  # type: ignore[assignment]  # of the token within its generation
    penalties: Penalties | None = None


@dataclass(frozen=True, slots=True)
class Sampled:
    tokens: list[int]
    logprobs: list[float]
    top: list[tuple[tuple[int, float], ...]]  # empty where not asked for


class Draw:
    """Tokens that the device has chosen, or is about to."""

    def __init__(self, chosen_2B: Tensor, top: tuple[Tensor, Tensor] | None = None, wanted: Sequence[int] = ()) -> None:
        """`chosen_2B`: tokens and their logprobs, as float64, which holds a token id exactly. `top`: logprobs and ids
        of the likeliest tokens of each row, of which the n-th row wants `wanted[n]`."""
        self.tokens_B = chosen_2B[0]
        self._wanted = wanted
        # In one copy.
        packed = chosen_2B if top is None else torch.cat([chosen_2B, *(part.T.double() for part in top)])
        self._host = packed
        self._event: torch.cuda.Event | None = None
        if packed.is_cuda:
            self._host = torch.empty(packed.shape, dtype=packed.dtype, pin_memory=True)
            self._host.copy_(packed, non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record()

    def read(self) -> Sampled:
        """Wait for them."""
        if self._event is not None:
            self._event.synchronize()
        table = self._host.numpy()
        tokens = table[0].astype(np.int64).tolist()
        none: tuple[tuple[int, float], ...] = ()
        top = [none] * len(tokens)
        count = (len(table) - 2) // 2
        if count:
            values, ids = table[2 : 2 + count].T.tolist(), table[2 + count :].T.astype(np.int64).tolist()
            pairs = [list(zip(*both, strict=True)) for both in zip(ids, values, strict=True)]
            top = [tuple(row[:wanted]) for row, wanted in zip(pairs, self._wanted, strict=True)]
        return Sampled(tokens, table[1].tolist(), top)


def sample(
    logits_BV: Tensor,
    choices: Sequence[Choice],
    *,
    never: Tensor | None = None,
    allowed: dict[int, Tensor] | None = None,
) -> Sampled:
    """One token per row, at once."""
    return draw(logits_BV, choices, never=never, allowed=allowed).read()


def draw(
    logits_BV: Tensor,
    choices: Sequence[Choice],
    *,
    never: Tensor | None = None,
    allowed: dict[int, Tensor] | None = None,
) -> Draw:
    """One token per row. `never` (bool [V]) are ids not to be sampled at all; `allowed` holds a bit mask (int32, 32
    tokens a word) for the rows under a grammar. Rows beyond `choices` take the likeliest token."""
    warm = [row for row, choice in enumerate(choices) if choice.params.temperature > 0]
    widest = max((choice.params.top_logprobs for choice in choices), default=0)
    penalties = {row: choice.penalties for row, choice in enumerate(choices) if choice.penalties is not None}
    if not warm and not allowed and not widest and not penalties:
        return Draw(likeliest(logits_BV, never))
    raw = logits_BV.to(torch.promote_types(logits_BV.dtype, torch.float32))
    norm_B = raw.logsumexp(-1)
    masked = _masked(penalised(raw, penalties) if penalties else raw, never, allowed or {})
    tokens_B = masked.argmax(-1)
    plain = [row for row in warm if not _filtered(choices[row].params)]
    filtered = [row for row in warm if _filtered(choices[row].params)]
    for rows, pick in ((plain, _draw), (filtered, _draw_filtered)):
        if rows:
            index = _column(rows, np.int64, raw.device)[:, 0]
            tokens_B[index] = pick(masked[index], [choices[row] for row in rows])

    logprobs_B = raw.gather(-1, tokens_B[:, None])[:, 0] - norm_B
    if drawn := [row for row in warm if choices[row].params.policy_logprobs]:
        index = _column(drawn, np.int64, raw.device)[:, 0]
        scaled = _tempered(masked[index], [choices[row] for row in drawn])
        logprobs_B[index] = scaled.gather(-1, tokens_B[index, None])[:, 0] - scaled.logsumexp(-1)
    top = None
    if widest:
        values, ids = (raw - norm_B[:, None]).topk(min(widest, raw.shape[-1]))
        top = (values, ids)
    chosen_2B = torch.stack([tokens_B.double(), logprobs_B.double()])
    return Draw(chosen_2B, top, [choice.params.top_logprobs for choice in choices])


def _filtered(params: SamplingParams) -> bool:
    return params.top_k > 0 or params.top_p < 1 or params.min_p > 0


def _masked(raw_BV: Tensor, never: Tensor | None, allowed: dict[int, Tensor]) -> Tensor:
    if never is None and not allowed:
        return raw_BV
    vocab = raw_BV.shape[-1]
    masked = raw_BV.masked_fill(never, -torch.inf) if never is not None else raw_BV.clone()
    if allowed:
        rows = _column(list(allowed), np.int64, raw_BV.device)[:, 0]
        (words,) = upload([np.stack([mask.numpy() for mask in allowed.values()])], raw_BV.device)
        masked[rows] = masked[rows].masked_fill(forbidden(words, vocab), -torch.inf)
    return masked


def forbidden(words_BW: Tensor, vocab: int) -> Tensor:
    """A grammar's bit masks, 32 tokens a word, as bool [B, V]: True where a token may not come."""
    bits = torch.arange(32, device=words_BW.device, dtype=torch.int32)
    return ((words_BW[:, :, None] >> bits) & 1).flatten(1)[:, :vocab] == 0


def _column(values: Sequence[float], dtype: type[np.generic], device: torch.device) -> Tensor:
    return upload([np.array(values, dtype)], device)[0][:, None]


def _tempered(logits_BV: Tensor, choices: Sequence[Choice]) -> Tensor:
    # Shifted first: a tiny temperature must not overflow.
    shifted = logits_BV - logits_BV.max(-1, keepdim=True).values
    temperature = _column([choice.params.temperature for choice in choices], np.float64, logits_BV.device)
    return shifted / temperature.to(logits_BV.dtype)


def _probabilities(logits_BV: Tensor, choices: Sequence[Choice]) -> Tensor:
    return _tempered(logits_BV, choices).softmax(-1)


def _look_up(probs_BV: Tensor, choices: Sequence[Choice]) -> Tensor:
    # In float64 the sums are exact enough that the number, below 1 by at least 2^-32, never falls off the end.
    cumulative = probs_BV.cumsum(-1, dtype=torch.float64)
    numbers = _column([uniform(choice.seed, choice.index) for choice in choices], np.float64, probs_BV.device)
    index = torch.searchsorted(cumulative, numbers * cumulative[:, -1:], right=True)[:, 0]
    return index.clamp_(max=probs_BV.shape[-1] - 1)  # off the end only if the row is not a number


def _draw(logits_BV: Tensor, choices: Sequence[Choice]) -> Tensor:
    return _look_up(_probabilities(logits_BV, choices), choices)


def _draw_filtered(logits_BV: Tensor, choices: Sequence[Choice]) -> Tensor:
    """Keep the likeliest tokens only: min-p, then top-k, then top-p of what is left."""
    probs, order = _probabilities(logits_BV, choices).sort(dim=-1, descending=True, stable=True)
    vocab = probs.shape[-1]
    rank = torch.arange(vocab, device=probs.device)
    top_k = _column([min(choice.params.top_k or vocab, vocab) for choice in choices], np.int64, probs.device)
    min_p = _column([choice.params.min_p for choice in choices], np.float64, probs.device).to(probs.dtype)
    probs = probs * ((probs >= min_p * probs[:, :1]) & (rank < top_k))
    before = probs.cumsum(-1) - probs
    top_p = _column([choice.params.top_p for choice in choices], np.float64, probs.device).to(probs.dtype)
    probs = probs * ((before < top_p * probs.sum(-1, keepdim=True)) | (rank == 0))
    return order.gather(-1, _look_up(probs, choices)[:, None])[:, 0]


def never_sampled(model: Holotron) -> Tensor | None:
    """What cannot be said: padding rows of the vocabulary, ids without a token, the placeholder of an image."""
    tokens, vocab = model.config.tokens, model.config.decoder.vocab
    ids = {index for index in tokens.unsampled if index < vocab}
    if tokens.first_unsampled is not None:
        ids.update(range(tokens.first_unsampled, vocab))
    if model.vision_model is not None and tokens.image < vocab:
        ids.add(tokens.image)
    return torch.tensor(sorted(ids), device=model.device) if ids else None


def never_mask(model: Holotron) -> Tensor | None:
    """The same as bool [V], which is what `draw` wants."""
    ids = never_sampled(model)
    if ids is None:
        return None
    return torch.zeros(model.config.decoder.vocab, dtype=torch.bool, device=model.device).index_fill_(0, ids, True)
