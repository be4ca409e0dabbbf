"""Several ranks on the CPU (gloo, FSDP2): the same curve as one, the same model, the same resume."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from holotron.model.loading import load_model
from holotron.training.curves import read_metrics
from holotron.training.distributed import Ranks, ranks
from holotron.training.lanes import lane_count, redealt
from holotron.training.recipe import Recipe, make_recipe
from holotron.training.trainer import Trainer
from tests.training.ranks import free_port, on_ranks
from tests.training.support import conversation_recipe, to_toml, write_conversations


def train(recipe: Recipe, out: Path) -> None:
    with ranks("cpu") as where:
        Trainer(recipe, out, where).run()


def curve(folder: Path, name: str) -> list[float]:
    return [row[name] for row in read_metrics(folder) if name in row]


# --------------------------------------------------------------------------------------------------------------- lanes


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8), st.integers(1, 8))
def test_no_sample_is_shown_again_by_other_lanes(positions, count):
    used = {lane + step * len(positions) for lane, position in enumerate(positions) for step in range(position)}
    starts = redealt(positions, count)
    if len(positions) == count:
        assert starts == positions
        return
    upcoming = [lane + start * count for lane, start in enumerate(starts)]
    assert not used or max(used) < min(upcoming)
    assert min(upcoming) <= max(used, default=-1) + 1  # and nothing is left out behind the furthest


def test_every_rank_has_equally_many_passes():
    for accumulate, count, lanes in [(1, 1, 1), (4, 1, 4), (4, 2, 4), (4, 4, 4), (4, 8, 8), (3, 2, 4), (1, 8, 8)]:
        assert lane_count(accumulate, Ranks(0, count)) == lanes


# --------------------------------------------------------------------------------------------------------------- ranks


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_conversations(tmp_path_factory.mktemp("data"))


def twenty(data: Path, steps: int = 20, **changes: Any) -> Recipe:
    return conversation_recipe(
        data,
        batch={"tokens": 210, "accumulate": 4},  # by budget: passes differ in samples, tokens and pictures
        schedule={"steps": steps, "warmup": 4, "decay_share": 0},
        save={"every_steps": 10},
        augment={"noise": 0.05},
        **changes,
    )


@pytest.mark.slow
def test_two_and_four_ranks_are_one_and_a_run_goes_on_with_more(data, tmp_path):
    train(twenty(data), tmp_path / "1")
    on_ranks(2, train, twenty(data, 10), tmp_path / "2-4")
    on_ranks(4, train, twenty(data), tmp_path / "2-4")  # goes on at step 10
    on_ranks(4, train, twenty(data, 10), tmp_path / "4-1")
    train(twenty(data), tmp_path / "4-1")
    for name in ("2-4", "4-1"):
        assert [row["step"] for row in read_metrics(tmp_path / name) if "lr" in row] == list(range(1, 21))
        assert curve(tmp_path / name, "loss/reply") == pytest.approx(
            curve(tmp_path / "1", "loss/reply"), abs=1e-5, rel=0
        )
        assert curve(tmp_path / name, "gradient") == pytest.approx(curve(tmp_path / "1", "gradient"), rel=1e-5)
        states = [
            json.loads((tmp_path / run / "checkpoints" / "step-00000020" / "state.json").read_text())
            for run in ("1", name)
        ]
        for key in ("positions", "samples", "tokens", "learnt", "pictures"):
            assert states[0][key] == states[1][key], key
        alone, sharded = (load_model(tmp_path / run / "model", device="cpu")[0] for run in ("1", name))
        for a, b in zip(alone.parameters(), sharded.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-4)


@pytest.mark.slow
def test_ranks_with_different_things_to_do_stay_in_step(data, tmp_path):
    """One sample a pass: a rank may have pictures of one size, of two, or none, and nothing to say at all."""

    def recipe(model: dict[str, Any], *sources: dict[str, Any], **changes: Any) -> Recipe:
        return make_recipe(
            {
                "name": "mixed",
                "model": {"template": "turns", **model},
                "data": [{"kind": "text"}, *sources],
                "batch": {"samples": 1, "tokens": 4000, "accumulate": 2, "too_long": "skip"},
                "schedule": {"steps": 6, "warmup": 1, "decay_share": 0},
                **changes,
            }
        )

    pages = {"kind": "drawn", "sizes": ["64x64@1"], "weight": 2.0}
    sized = {"kind": "conversations", "files": [str(of_two_sizes(data))], "weight": 2.0}
    for model, wanted in {
        "tiny": recipe({"source": "tiny", "balance": True}, pages, loss={"reading": 0.5}),
        "qwen": recipe({"source": "tiny-qwen3-vl"}, sized),
    }.items():
        train(wanted, tmp_path / model)
        on_ranks(2, train, wanted, tmp_path / f"{model}-2")
        for name in ("loss/reply", "gradient"):
            theirs = curve(tmp_path / f"{model}-2", name)
            assert theirs == pytest.approx(curve(tmp_path / model, name), rel=1e-4, abs=1e-5), model


def of_two_sizes(data: Path) -> Path:
    """The same conversations; the second picture of those that have two is smaller."""
    lines = [json.loads(line) for line in data.read_text().splitlines()]
    for line in lines:
        if len(line["images"]) == 2:
            small = f"small-{line['images'][1]}"
            Image.open(data.parent / line["images"][1]).resize((32, 48)).save(data.parent / small)
            line["images"][1] = small
    path = data.with_name("two-sizes.jsonl")
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.slow
def test_torchrun(data, tmp_path):
    """The command people give, with adapters. One pass a step becomes one on each of two ranks: a batch twice as
    large."""
    suite = {"kind": "loss", "samples": 6, "data": {"kind": "conversations", "files": [str(data)]}}

    def recipe(samples: int) -> Recipe:
        return conversation_recipe(
            data,
            batch={"tokens": 4000, "samples": samples},
            schedule={"steps": 4, "warmup": 2, "decay_share": 0},
            evaluate={"every_steps": 4, "suites": [suite]},
            lora={"rank": 4},
        )

    Trainer(recipe(6), tmp_path / "one", Ranks()).run()
    path = tmp_path / "two.toml"
    path.write_text(to_toml(recipe(3)))
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port"]
    command += [str(free_port()), "-m", "holotron", "train", "sft", str(path), "--out", str(tmp_path / "two")]
    done = subprocess.run(
        [*command, "--device", "cpu"], capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 ranks, 2 forward passes a step instead of 1" in done.stdout.replace("\n", " ")
    for name in ("loss/reply", "gradient", "held_out/loss"):
        assert curve(tmp_path / "two", name) == pytest.approx(curve(tmp_path / "one", name), rel=2e-4)
