"""The plan against what the engine really takes: pools and weights to the byte."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from holotron.cli.plan import app
from holotron.engine.api import EngineConfig
from holotron.engine.engine import Engine
from holotron.engine.plan import GPUS, GiB, Planner, gpu_bytes
from holotron.errors import CapacityError, ConfigError
from holotron.model.families import dump_config
from holotron.model.loading import load_model, model_config
from holotron.model.presets import preset
from holotron.model.weights import load_checkpoint, random_model, save_checkpoint


@pytest.mark.parametrize("name", ["tiny", "tiny-transformer"])
@pytest.mark.parametrize("state_dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kv_dtype", [None, "float16"])
def test_pools_and_weights_are_exact(name: str, state_dtype: str, kv_dtype: str | None) -> None:
    base = EngineConfig(page_size=16, state_dtype=state_dtype, kv_dtype=kv_dtype)
    for dtype in (torch.float32, torch.bfloat16):
        model = load_model(name, dtype=dtype).model
        planner = Planner(model.config, dtype, base)
        plan = planner.plan(sessions=5, context=100)
        with Engine(model, None, planner.sized(5, 100)) as engine:
            cache = engine.on_loop(lambda core: core.pools.cache).result()
            assert plan.state == cache.ssm_RLHPN.nbytes + cache.conv_RLKC.nbytes
            assert plan.kv == cache.kv_ZL2zkD.nbytes
        assert plan.weights == sum(t.nbytes for t in {*model.parameters(), *model.buffers()})


def test_that_many_sessions_really_fit() -> None:
    """All of them on the device at once, none on the host."""
    model = load_model("tiny").model
    planner = Planner(model.config, model.dtype, EngineConfig(page_size=16))
    with Engine(model, None, planner.sized(sessions=6, context=64)) as engine:
        sessions = [engine.open() for _ in range(6)]
        for n, session in enumerate(sessions):
            session.append([n + 1] * 60)
            session.prefill()
        stats = engine.stats()
        assert stats.blocks_to_host == 0
        assert (stats.rows_used, stats.pages_used) == (6, 6 * 4)


def test_the_published_figures() -> None:
    """One session of the 12B: 140.0 MiB of fp32 state, 1.97 MiB of convolution memory, 24 KiB per token."""
    planner = Planner(preset("holotron-12b"))
    assert planner.row_bytes == 148_865_024
    assert planner.page_bytes == 64 * 24_576
    assert replace(planner, engine=EngineConfig(state_dtype="bfloat16")).row_bytes == 75_464_704
    assert replace(planner, engine=EngineConfig(kv_dtype="float8_e4m3fn")).page_bytes == 64 * 12_288
    assert Planner(preset("holo2-8b")).page_bytes == 64 * 147_456


PLANNERS = {
    state: Planner(preset("holotron-12b"), engine=EngineConfig(state_dtype=state)) for state in ("float32", "bfloat16")
}


@settings(max_examples=60)
@given(memory=st.integers(30, 200), context=st.integers(64, 131_072), state=st.sampled_from(sorted(PLANNERS)))
def test_the_answer_is_the_largest(memory: int, context: int, state: str) -> None:
    planner = PLANNERS[state]
    count = planner.sessions(memory * GiB, context)
    assert planner.plan(count + 1, context).total > memory * GiB
    if count:
        assert planner.plan(count, context).total <= memory * GiB
        assert planner.fill(memory * GiB, context).state_rows == count + 1
    else:
        with pytest.raises(CapacityError, match="needs"):
            planner.fill(memory * GiB, context)


def test_contexts_beyond_the_model_hold_nothing() -> None:
    assert Planner(preset("holotron-12b")).sessions(GPUS["H200"], 131_073) == 0


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("H200", "H200"),
        ("h100", "H100"),
        ("NVIDIA A100 80GB", "A100-80"),
        ("a100-40", "A100-40"),
        ("RTX 4090", "RTX-4090"),
    ],
)
def test_names_of_gpus(written: str, name: str) -> None:
    assert gpu_bytes(written) == GPUS[name]


def test_unknown_gpus_are_told() -> None:
    with pytest.raises(ConfigError, match="H200"):
        gpu_bytes("Voodoo 2")


def test_a_config_file_is_enough(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(dump_config(preset("tiny"))))
    assert Planner(model_config(tmp_path)).row_bytes == Planner(preset("tiny")).row_bytes


def test_weights_on_disk_decide_about_their_own_size(tmp_path: Path) -> None:
    """A vocabulary padded beyond what the configuration says counts."""
    config = preset("tiny")
    padded = replace(config, decoder=replace(config.decoder, vocab=384))
    save_checkpoint(random_model(padded, dtype=torch.bfloat16), tmp_path)
    described = json.loads((tmp_path / "config.json").read_text())
    (described.get("llm_config") or described)["vocab_size"] = config.decoder.vocab
    (tmp_path / "config.json").write_text(json.dumps(described))
    assert Planner(model_config(tmp_path)).weight_bytes == Planner(padded).weight_bytes


def test_the_command(tmp_path: Path) -> None:
    run = CliRunner().invoke(
        app, ["holotron-12b", "holo2-8b", "--context", "16k", "--json", "--plot", str(tmp_path / "fit.png")]
    )
    assert run.exit_code == 0, run.output
    hybrid, transformer = json.loads(run.stdout)["plans"]
    assert hybrid["sessions_that_fit"] > 2 * transformer["sessions_that_fit"]
    parts = ("weights", "state", "kv", "vision_cache", "graphs", "workspace", "runtime")
    assert hybrid["total"] == sum(hybrid[part] for part in parts)
    assert (tmp_path / "fit.png").read_bytes().startswith(b"\x89PNG")
    text = CliRunner().invoke(app, ["tiny", "--gpu", "L40S"])
    assert "28,032 B of state" in text.output
    wrong = CliRunner().invoke(app, ["tiny", "--gpu", "nothing"])
    assert isinstance(wrong.exception, ConfigError)


def test_the_best_setting_for_a_card() -> None:
    """The most exact one that holds what is wanted; what was not run is called planned."""

    def best(*words: str) -> dict[str, object]:
        run = CliRunner().invoke(app, ["holotron-12b", "--context", "32k", "--json", *words])
        assert run.exit_code == 0, run.output
        return json.loads(run.stdout)["best"][0]

    small = best("--gpu", "rtx 4090")
    assert small["command"] == "holotron serve holotron-12b --weights fp8 --context 32768"
    assert small["sessions"] >= 2
    assert small["total"] <= 0.92 * GPUS["RTX-4090"]
    assert small["status"] == "planned, not run on this card"
    assert best("--gpu", "H200")["weights"] == "bf16"
    assert best("--gpu", "A10G")["command"] is None  # too small for bf16, and it has no 8-bit floats
    tight = best("--memory", "19.5")
    assert "kv_dtype" in str(tight["command"])
    eight = json.loads(CliRunner().invoke(app, ["holotron-12b", "--weights", "fp8", "--json"]).stdout)
    assert eight["plans"][0]["weights"] < 15.5 * GiB


def test_weights_streamed_into_8_bits_are_as_large_as_planned(tmp_path: Path) -> None:
    save_checkpoint(random_model(preset("tiny"), dtype=torch.bfloat16), tmp_path)
    narrow = torch.float8_e4m3fn
    planner = Planner(preset("tiny"), torch.bfloat16, EngineConfig(weight_dtype="float8_e4m3fn"))
    streamed = load_checkpoint(tmp_path, weight_dtype=narrow)
    drawn = load_model("preset:tiny", device="cpu", dtype=torch.bfloat16, weight_dtype=narrow).model
    for model in (streamed, drawn):
        assert planner.weight_bytes == sum(t.nbytes for t in {*model.parameters(), *model.buffers()})
