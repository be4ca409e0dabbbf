"""Compiled parts compute what they replace, and where nothing can be compiled nothing changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from holotron.model.looks import Looks, looks_of
from holotron.model.weights import random_model
from holotron.training import compiling
from holotron.training.augment import augment
from holotron.training.learner import Learner
from holotron.training.reading import ReadingHead, reading_loss
from holotron.training.recipe import AugmentPart
from tests.training.support import small_config


def learner(sparse: bool = False) -> Learner:
    torch.manual_seed(0)
    config = small_config()
    model = random_model(replace(config, image=replace(config.image, sparse=sparse)), seed=1)
    return Learner(model, {"reading", "reading_rows"}).requires_grad_(True).train()


def losses(
    of: Learner, tiles: torch.Tensor, labels: torch.Tensor, looks: Looks | None
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """The tower's and the reading heads' part of an update, and all gradients."""
    light = torch.Generator().manual_seed(5)
    pixels = of.pixels(augment(tiles, AugmentPart(brightness=0.1, noise=0.05), light, of.relight, looks))
    features, rows = of.see(pixels, looks)
    seen = of._readers(features, rows, pixels, torch.arange(len(tiles)))
    total = torch.stack([head.loss(x, labels, *cells) for _, head, x, *cells in seen]).sum() + features.square().mean()
    parts = [p for part in (of.model.vision_model, of.model.mlp1, of.heads) for p in part.parameters()]
    return total, list(torch.autograd.grad(total, parts, allow_unused=True))


@pytest.mark.parametrize("sparse", [False, True])
def test_compiled_parts_have_the_same_losses_and_gradients(sparse: bool):
    """Traced, decomposed and parted as for the real compiler, whose C++ would take a minute; sft_gpu.py takes that."""
    torch._dynamo.reset()
    plain, fused = learner(sparse), learner(sparse)
    assert compiling.compile_parts(fused, backend="aot_eager_decomp_partition") is None
    with torch.compiler.set_stance("fail_on_recompile"):  # both numbers of pictures, both blocks, both heads
        for count in (2, 5):
            torch.manual_seed(count)
            side = 32 if sparse else 64
            tiles = torch.randint(0, 256, (count, 3, side, side), dtype=torch.uint8)
            labels = torch.randint(0, 96, (count, side // 16, side // 4), dtype=torch.uint8)
            looks = looks_of(plain.model.config, [1, count - 1], np.arange(count) % 4, tiles.device) if sparse else None
            (loss, gradients), (wanted, expected) = (losses(of, tiles, labels, looks) for of in (fused, plain))
            torch.testing.assert_close(loss, wanted, rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(gradients, expected, rtol=1e-3, atol=2e-4)
        one = torch.zeros(1, 3, 64, 64)
        torch.testing.assert_close(fused.see(one), plain.see(one), rtol=0, atol=0)
        with torch.no_grad():
            torch.testing.assert_close(fused.see(one.repeat(3, 1, 1, 1)), plain.see(one.repeat(3, 1, 1, 1)))
    assert fused.state_dict().keys() == plain.state_dict().keys()


def test_without_a_compiler_everything_stays_as_it_was(monkeypatch):
    def broken(function, **_):
        def call(*_):
            raise RuntimeError("\nno compiler here\nand a long story")

        return call

    monkeypatch.setattr(torch, "compile", broken)
    made = learner()
    assert compiling.compile_parts(made) == "no compiler here"
    assert "forward" not in vars(made.model.vision_model.blocks[0])


@pytest.mark.parametrize("side", [1, 2])
def test_the_loss_of_a_head_is_that_of_its_scores(side):
    torch.manual_seed(side)
    head = ReadingHead(8, side)
    features = torch.randn(3, (4 // side) * (6 // side), 8)
    labels = torch.randint(0, 96, (3, 4, 24))
    scores = head(features, 4 // side, 6 // side)
    assert scores.shape[:3] == labels.shape
    torch.testing.assert_close(head.loss(features, labels, 4 // side, 6 // side), reading_loss(scores, labels))
