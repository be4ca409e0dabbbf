"""Training on a real Ray cluster: ranks that Ray Train starts, and players wherever there is a core."""

from __future__ import annotations

from pathlib import Path

import pytest

from holotron.errors import CapacityError
from holotron.training.curves import read_metrics
from holotron.training.distributed import Ranks
from holotron.training.rl.trainer import RlTrainer
from holotron.training.trainer import Trainer
from tests.training.rl.support import rl_recipe, untrained
from tests.training.rl.test_trainer import CHANCE
from tests.training.support import conversation_recipe, write_conversations


@pytest.mark.slow
def test_ranks_that_ray_started_learn_what_one_learns(tmp_path: Path, ray_cluster: str) -> None:
    from holotron.fleet.ray_train import train_on_ray

    data = write_conversations(tmp_path / "data")
    recipe = conversation_recipe(
        data, batch={"tokens": 210, "accumulate": 2}, schedule={"steps": 4, "warmup": 2, "decay_share": 0}
    )
    with pytest.raises(CapacityError, match="64 ranks need 64 CPUs, and the cluster has 4"):
        train_on_ray("sft", recipe, tmp_path / "many", address=ray_cluster, ranks=64, device="cpu")
    train_on_ray("sft", recipe, tmp_path / "two", address=ray_cluster, ranks=2, device="cpu")
    Trainer(recipe, tmp_path / "one", Ranks()).run()
    one, two = ([row["loss/reply"] for row in read_metrics(tmp_path / run) if "lr" in row] for run in ("one", "two"))
    assert len(one) == 4 and two == pytest.approx(one, abs=1e-5)
    assert (tmp_path / "two" / "model" / "config.json").exists()


@pytest.mark.slow
def test_players_on_ray_keep_parity(tmp_path: Path, ray_cluster: str) -> None:
    from holotron.fleet.ray_place import RayPlace

    start = untrained(tmp_path / "start")
    recipe = rl_recipe(
        start,
        **CHANCE | {"rollouts": CHANCE["rollouts"] | {"processes": 2}},
        schedule={"steps": 4},
        evaluate={"every_steps": 4, "seeds": "200000:200002"},
    )
    figures = RlTrainer(recipe, tmp_path / "run", Ranks(), place=RayPlace(ray_cluster)).run()
    assert "evaluation/success" in figures
    rows = [row for row in read_metrics(tmp_path / "run") if "update/ratio" in row]
    agreements = [row["update/agreement"] for row in rows if "update/agreement" in row]
    assert len(rows) == 4 and len(agreements) == 3 and max(agreements) <= 1.001
