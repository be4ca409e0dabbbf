"""The recipes of published models, in miniature: what the benchmark runs on a GPU runs here on tiny presets."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "benchmarks" / "recipes_gpu.py"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipes", "model", "tokens"),
    [("holotron-12b", "tiny", 2048), ("holotron4-30b-a3b", "tiny", 2048), ("holo3.1-4b", "tiny-qwen3.5", 768)],
)
def test_every_stage_takes_steps(recipes: str, model: str, tokens: int, tmp_path: Path):
    spec = importlib.util.spec_from_file_location("recipes_gpu", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    out = tmp_path / "rows.jsonl"
    small = ["engine.kv_tokens=65536", "update.groups=2", "rollouts.sessions=8", "rollouts.group=4"]
    where = ["--device", "cpu", "--view", "64x64@1", "--screen", "64x64@1", "--tokens", str(tokens), "--out", str(out)]
    module.main(["--recipes", recipes, "--model", model, *where, *small])
    first, second, rl = (json.loads(line) for line in out.read_text().splitlines())
    for row in (first, second):
        assert row["last_loss"] < row["first_loss"] + 0.2 and tokens / 4 < row["tokens_per_pass"] <= tokens
    assert rl["agreement"] <= 1.001 and rl["error"] <= 1.001
    assert rl["episodes"] >= 16 and rl["successes"] > 0
    assert first["learning"] == second["learning"] == rl["learning"]
