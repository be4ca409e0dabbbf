"""The dense reading loss: heads that must name the characters a feature has seen (see `characters`).

A sequence loss gives a vision tower a few bits per picture; this one gives it a hundred labels, and turns a tower that
guesses words from their shapes into one that reads. The heads exist only in training. There are two: one on the tower's
patches, one on the rows that the language model gets, so that nothing is lost in the projector either.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holotron.training.characters import CLASSES, NONE, SLOTS

NONE_WEIGHT = 0.1  # most slots are empty; they must not drown the letters


class ReadingHead(nn.Module):
    """Features of cells, each a square of `side` x `side` patches, to class scores of their slots."""

    def __init__(self, width: int, side: int = 1) -> None:
        super().__init__()
        self.side = side
        self.norm = nn.LayerNorm(width)
        self.classify = nn.Linear(width, side * side * SLOTS * CLASSES)

    def forward(self, features_nLV: Tensor, rows: int, columns: int) -> Tensor:
        """[n, rows * columns, V] to scores [n, rows * side, columns * side * SLOTS, CLASSES]."""
        s = self.side
        scores = self.classify(self.norm(features_nLV)).unflatten(-1, (s, s * SLOTS, CLASSES))
        scores = scores.unflatten(1, (rows, columns)).permute(0, 1, 3, 2, 4, 5)
        return scores.flatten(1, 2).flatten(2, 3)

    def loss(self, features_nLV: Tensor, labels_nRC: Tensor, rows: int, columns: int) -> Tensor:
        """`reading_loss` of the scores. The labels, a byte each, are laid out as the scores come, not the scores as the
        labels are."""
        s = self.side
        labels = labels_nRC.unflatten(1, (rows, s)).unflatten(-1, (columns, s * SLOTS)).transpose(2, 3)
        return reading_loss(self.classify(self.norm(features_nLV)).unflatten(-1, (-1, CLASSES)), labels)


def _class_weight(device: torch.device) -> Tensor:
    weight = torch.ones(CLASSES, device=device)
    weight[NONE] = NONE_WEIGHT
    return weight


def reading_loss(scores: Tensor, labels: Tensor) -> Tensor:
    """Weighted cross-entropy of scores [..., CLASSES], summed; `reading_weight` is what to divide it by."""
    labels = labels.long().flatten()
    return F.cross_entropy(scores.float().flatten(0, -2), labels, _class_weight(labels.device), reduction="sum")


def reading_weight(labels_nRC: Tensor) -> Tensor:
    return _class_weight(labels_nRC.device)[labels_nRC.long()].sum()


@dataclass(frozen=True)
class Reading:
    """How well characters were read. Counts, so that batches add up."""

    characters: int = 0
    exact: int = 0  # the right class in the very slot
    near: int = 0  # in the slot or the one beside it: the centre of a letter is a matter of taste
    empty: int = 0
    invented: int = 0  # empty slots, not beside a character, that were said to hold one

    def __add__(self, other: Reading) -> Reading:
        return Reading(*(a + b for a, b in zip(self.counts, other.counts, strict=True)))

    @property
    def counts(self) -> tuple[int, ...]:
        return self.characters, self.exact, self.near, self.empty, self.invented

    def rates(self) -> dict[str, float]:
        seen, empty = max(self.characters, 1), max(self.empty, 1)
        return {"read": self.near / seen, "read_exact": self.exact / seen, "invented": self.invented / empty}


def score_reading(scores_nRCK: Tensor, labels_nRC: Tensor) -> Reading:
    said, labels = scores_nRCK.argmax(-1), labels_nRC.long()
    real = labels != NONE

    def beside(t: Tensor) -> Tensor:
        """The values left of, at and right of each slot."""
        return F.pad(t, (1, 1)).unfold(-1, 3, 1)

    exact = (said == labels) & real
    near = (beside(said) == labels[..., None]).any(-1) & real
    empty = ~beside(real.long()).bool().any(-1)
    invented = empty & (said != NONE)
    counts = torch.stack([t.sum() for t in (real, exact, near, empty, invented)])
    return Reading(*counts.tolist())
