"""The 12B's recipes, in miniature: what the benchmark runs on a GPU runs here on the tiny preset."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "benchmarks" / "recipe_12b.py"


@pytest.mark.slow
def test_every_stage_takes_steps(tmp_path: Path):
    spec = importlib.util.spec_from_file_location("recipe_12b", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    out = tmp_path / "rows.jsonl"
    small = ["engine.kv_tokens=65536", "update.groups=2", "rollouts.sessions=8", "rollouts.group=4"]
    where = ["--device", "cpu", "--view", "64x64@1", "--screen", "64x64@1", "--tokens", "2048", "--out", str(out)]
    module.main(["--model", "tiny", *where, *small])
    first, second, rl = (json.loads(line) for line in out.read_text().splitlines())
    for row in (first, second):
        assert row["last_loss"] < row["first_loss"] + 0.2 and 500 < row["tokens_per_pass"] <= 2048
    assert rl["agreement"] <= 1.001 and rl["error"] <= 1.001
    assert rl["episodes"] >= 16 and rl["successes"] > 0
    assert first["learning"] == second["learning"] == rl["learning"]
