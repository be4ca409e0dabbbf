"""The mean of policies is the mean of their weights, a checkpoint like any other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from holotron.errors import InputError
from holotron.model.bundled import BUNDLED, bundled_folder
from holotron.model.loading import byte_processor, load_model
from holotron.model.weights import random_model
from holotron.training.average import average
from tests.training.rl.support import save, small_config


def checkpoint(folder: Path, seed: int, **changes: object) -> Path:
    config = replace(small_config(), **changes)
    save(random_model(config, seed=seed), byte_processor(config), folder)
    return folder


@pytest.mark.parametrize("tied", [False, True])
def test_the_mean_of_a_checkpoint_and_two_runs(tmp_path: Path, tied: bool):
    decoder = replace(small_config().decoder, tied_embeddings=tied)
    plain = checkpoint(tmp_path / "plain", 0, decoder=decoder)
    for n in (1, 2):
        checkpoint(tmp_path / f"run-{n}" / "model", n, decoder=decoder)
    average([plain, tmp_path / "run-1", tmp_path / "run-2"], tmp_path / "mean")
    parts = [
        load_model(folder, device="cpu").model.state_dict()
        for folder in (plain, tmp_path / "run-1/model", tmp_path / "run-2/model")
    ]
    model, processor = load_model(tmp_path / "mean", device="cpu")
    for name, tensor in model.state_dict().items():
        assert torch.allclose(tensor, sum(part[name] for part in parts) / 3, atol=1e-6), name
    assert processor.render([{"role": "user", "content": "hello"}]).ids
    assert "mean of the weights of 3 policies" in (tmp_path / "mean" / "README.md").read_text()
    assert (tmp_path / "mean" / "agent.json").read_text() == (plain / "agent.json").read_text()


def test_the_policy_that_ships_is_one_like_any_other(tmp_path: Path):
    average([Path(BUNDLED), bundled_folder()], tmp_path / "mean")
    assert (tmp_path / "mean" / "agent.json").read_text() == (bundled_folder() / "agent.json").read_text()
    assert "license: apache-2.0" in (tmp_path / "mean" / "README.md").read_text()


def test_other_shapes_and_a_single_one_are_refused(tmp_path: Path):
    one = checkpoint(tmp_path / "one", 0)
    other = checkpoint(tmp_path / "other", 0, decoder=replace(small_config().decoder, pattern="M-*-M-"))
    with pytest.raises(InputError, match="another shape"):
        average([one, other], tmp_path / "mean")
    with pytest.raises(InputError, match="without weights"):
        average([one, Path("tiny")], tmp_path / "mean")
    with pytest.raises(InputError, match="two policies or more"):
        average([one], tmp_path / "mean")
    assert not (tmp_path / "mean").exists()
