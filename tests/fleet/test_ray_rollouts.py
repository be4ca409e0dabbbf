"""Rollouts on a real Ray cluster of several processes: workers and the driver are killed, and nothing is lost."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.rollouts.chaos import Chaos


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("targets", [["worker"], ["driver"], ["worker", "driver"]], ids="+".join)
def test_killed_workers_and_drivers_lose_and_double_nothing(tmp_path, ray_cluster: str, ray_folder: Path, targets):
    machines = ["--ray", ray_cluster, "--workers", "2"]
    chaos = Chaos(tmp_path / "run", ray_folder, machines, {}, seeds=12, dice=random.Random(len(targets)))
    chaos.run(targets, moment=(0.0, 0.6))
    chaos.check()
    assert chaos.kills.total() == len(targets)
