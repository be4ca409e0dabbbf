"""Two ranks on the CPU (gloo, FSDP2): the same curve as one, the same model, the same resume."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from holotron.model.loading import load_model
from holotron.training.curves import read_metrics
from holotron.training.distributed import Ranks
from holotron.training.trainer import Trainer
from tests.training.support import conversation_recipe, to_toml, write_conversations


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


def train_on_two(recipe, folder: Path, out: Path) -> None:
    path = folder / "two.toml"
    path.write_text(to_toml(recipe))
    port = str(free_port())
    command = [sys.executable, "-m", "holotron", "train", "sft", str(path), "--out", str(out), "--device", "cpu"]
    processes = [
        subprocess.Popen(
            command,
            env=os.environ
            | {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
            | {"MASTER_ADDR": "localhost", "MASTER_PORT": port},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    outputs = [process.communicate(timeout=240)[0] for process in processes]
    assert all(process.returncode == 0 for process in processes), "\n".join(outputs)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["full", "lora"])
def test_two_ranks_are_one_larger_batch(tmp_path, kind):
    data = write_conversations(tmp_path / "data")
    suite = {"kind": "loss", "samples": 6, "data": {"kind": "conversations", "files": [str(data)]}}

    def recipe(samples: int, steps: int):
        extra = {"lora": {"rank": 4}} if kind == "lora" else {}
        return conversation_recipe(
            data,
            batch={"tokens": 4000, "samples": samples},
            schedule={"steps": steps, "warmup": 2, "decay_share": 0},
            save={"every_steps": 2},
            evaluate={"every_steps": 4, "suites": [suite]},
            **extra,
        )

    Trainer(recipe(6, 6), tmp_path / "one", Ranks()).run()
    train_on_two(recipe(3, 4), tmp_path, tmp_path / "two")
    train_on_two(recipe(3, 6), tmp_path, tmp_path / "two")  # resumes at step 4
    one, two = read_metrics(tmp_path / "one"), read_metrics(tmp_path / "two")
    assert [row["step"] for row in two if "lr" in row] == [1, 2, 3, 4, 5, 6]
    for name in ("loss/reply", "gradient"):
        mine, theirs = ([row[name] for row in rows if name in row] for rows in (one, two))
        assert theirs == pytest.approx(mine, rel=2e-4)
    alone, sharded = (load_model(tmp_path / name / "model", device="cpu")[0] for name in ("one", "two"))
    for a, b in zip(alone.parameters(), sharded.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
    state = json.loads((tmp_path / "two" / "checkpoints" / "step-00000006" / "state.json").read_text())
    assert state["positions"] == [18, 18]
    assert state["samples"] == 36
