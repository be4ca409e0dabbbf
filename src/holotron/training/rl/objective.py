"""The loss: REINFORCE with a group baseline, corrected for the weights that sampled the tokens.

For a token with advantage A, logprob now (trainer) and logprob then (engine), and ratio r = exp(now - then):

    loss = - A * min(r, truncate) * keep * now                        r and keep carry no gradient

`min(r, truncate)` is the importance weight of one token, cut so that a few tokens that have become much likelier cannot
dominate an update. `keep` is 0 where the token has already moved far enough in the direction it would be pushed (r
above 1 + clip_high for A > 0, below 1 - clip_low for A < 0): that is PPO's clip, written as the gradient it has. Every
batch is used for one update, so "now" is the policy being improved and no third policy is needed between the two.

Both logprobs are of the distribution that tokens are drawn from: after temperature and grammar, if there are any. So r
is 1 where nothing has moved, however replies are sampled.

Sums are divided by the number of learnt tokens in the whole update. A mean per episode first, as GRPO has it, would
weigh a token less the longer its episode, so that long failures are hardly discouraged; one mean over all does not.

The optional pull to the starting policy is half the squared log ratio to it, whose gradient is that of the reverse KL.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from holotron.training.rl.recipe import ObjectivePart

# Sums over learnt tokens, in this order; see `Figures.of`.
FIGURES = ("loss", "ratio", "truncated", "clipped", "entropy", "error", "kl")
_IMPOSSIBLE = -1e30  # finite: infinity times a probability of zero would not be a number


def objective(
    now_l: Tensor, then_l: Tensor, advantages_l: Tensor, recipe: ObjectivePart, start_l: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The summed loss, and the sums behind the figures (without entropy, which needs the logits)."""
    change = (now_l - then_l).detach()
    ratio = change.exp()
    done = ((advantages_l > 0) & (ratio > 1 + recipe.clip_high)) | ((advantages_l < 0) & (ratio < 1 - recipe.clip_low))
    weight = ratio.clamp(max=recipe.truncate)
    loss = -(advantages_l * weight * ~done * now_l).sum()
    kl = torch.zeros_like(loss)
    if start_l is not None:
        drift = now_l - start_l
        loss = loss + recipe.kl * 0.5 * (weight * drift.square()).sum()
        kl = (weight * drift.detach()).sum()
    sums = [
        loss.detach(),
        ratio.sum(),
        (ratio > recipe.truncate).float().sum(),
        done.float().sum(),
        torch.zeros_like(kl),
        change.abs().exp().sum(),
        kl,
    ]
    return loss, torch.stack([value.float() for value in sums])


@dataclass(frozen=True)
class Drawing:
    """How tokens are drawn, as the engine does it: softmax of logits / temperature, some tokens left out."""

    temperature: float = 1.0
    never: Tensor | None = None  # ids that are never sampled

    def logits(self, logits_lV: Tensor, forbidden_lV: Tensor | None) -> Tensor:
        logits = logits_lV.float()
        if self.never is not None:
            logits = logits.index_fill(-1, self.never, _IMPOSSIBLE)
        if forbidden_lV is not None:
            logits = logits.masked_fill(forbidden_lV, _IMPOSSIBLE)
        return logits / self.temperature


def chosen(
    logits_lV: Tensor, targets_l: Tensor, drawing: Drawing, forbidden_lV: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Logprobs of the given tokens, and the entropy of what they were drawn from (without gradient). `forbidden_lV`:
    what a grammar left out."""
    logits = drawing.logits(logits_lV, forbidden_lV)
    norm = logits.logsumexp(-1)
    logprobs = logits.gather(-1, targets_l[:, None])[:, 0] - norm
    with torch.no_grad():
        entropy = norm - (logits.softmax(-1) * logits).sum(-1)
    return logprobs, entropy


@dataclass(frozen=True)
class Figures:
    """Means over the learnt tokens of an update."""

    loss: float
    ratio: float  # importance ratio before truncation; 1 when nothing has moved
    truncated: float  # share of tokens
    clipped: float  # share of tokens
    entropy: float  # nats
    error: float  # exp(|now - then|): staleness and numerical differences together
    kl: float  # to the starting policy

    @classmethod
    def of(cls, sums: Tensor, count: int) -> Figures:
        return cls(*(sums / max(count, 1)).tolist())
