"""`holotron serve --weights`: in which numbers the large matrices are kept, from the option to the loaded model."""

from __future__ import annotations

from pathlib import Path

import torch
from click.testing import Result
from typer.testing import CliRunner

from holotron.cli.serve import app
from holotron.engine import SamplingParams
from holotron.errors import ConfigError
from holotron.server import layers
from holotron.server.run import load
from holotron.server.service import Service
from tests.model.folders import tiny_folder


def serve(*words: str) -> Result:
    return CliRunner().invoke(app, [*words, "--dry-run"])


def test_the_option_is_a_setting_of_the_engine(tmp_path: Path) -> None:
    assert 'weight_dtype = "float8_e4m3fn"  # command line' in serve("tiny", "--weights", "fp8").output
    assert "# weight_dtype = none" in serve("tiny", "--weights", "bf16").output
    assert serve("tiny", "--weights", "int3").exit_code == 2
    file = tmp_path / "serve.toml"
    file.write_text('[engine]\nweight_dtype = "float8_e4m3fn"\n')
    contradiction = serve("tiny", "--weights", "bf16", "--config", str(file))
    assert isinstance(contradiction.exception, ConfigError)
    assert "contradicts engine.weight_dtype" in str(contradiction.exception)


def test_a_server_loads_straight_into_8_bits(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path)
    said = {"model.source": str(folder), "model.device": "cpu", "engine.weight_dtype": "float8_e4m3fn"}
    settings = layers.resolve({key: layers.Value(value, "test") for key, value in said.items()}).settings
    loaded = load(settings, Service(settings))
    with loaded.engine as engine:
        up = engine.model.get_parameter("language_model.backbone.layers.1.mixer.up_proj.weight")
        assert up.dtype is torch.float8_e4m3fn
        [reply] = engine.complete("Hello", SamplingParams(max_tokens=4, ignore_eos=True))
        assert len(reply.result().tokens) == 4
