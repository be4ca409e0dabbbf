"""Qwen3-VL and Qwen3.5 with pictures, held against transformers: random configurations, several pictures, any pieces."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from holotron.model.weights.load import load_checkpoint
from tests.model.qwen import KINDS, our_logits, prompt, their_logits, theirs

TOLERANCE = 1e-4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
@torch.no_grad()
def test_their_files_load_and_compute_the_same(kind: str, seed: int, tmp_path: Path) -> None:
    oracle = theirs(kind, seed)
    oracle.save_pretrained(tmp_path)  # type: ignore[operator]
    model = load_checkpoint(tmp_path)
    asked = prompt(seed)
    expected = their_logits(oracle, asked)
    torch.testing.assert_close(our_logits(model, asked), expected, atol=TOLERANCE, rtol=0)

    draw, length = random.Random(seed), len(asked.ids)
    for _ in range(3):  # pieces of any size with a memory; ones are decodes
        pieces: list[int] = []
        while (left := length - sum(pieces)) > 0:
            pieces.append(min(draw.choice([1, 1, 2, 7, 20]), left))
        torch.testing.assert_close(our_logits(model, asked, pieces), expected, atol=TOLERANCE, rtol=0)
