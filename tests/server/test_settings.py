"""Settings: later layers win, everything is typed, and what does not exist is not accepted."""

from __future__ import annotations

import os
import subprocess
import tomllib
from pathlib import Path

import pytest
import torch

from holotron.errors import ConfigError
from holotron.model.loading import model_config
from holotron.server.keys import api_keys
from holotron.server.layers import Value, from_environment, from_file, from_flags, known_keys, resolve
from holotron.server.run import engine_config, planned_engine, source_of
from holotron.server.settings import Settings
from tests import warm


def flags(*words: str) -> dict[str, Value]:
    return from_flags(words)[0]


def test_precedence(tmp_path: Path) -> None:
    file = tmp_path / "serve.toml"
    file.write_text('[server]\nport = 1\nhost = "0.0.0.0"\nlog_level = "debug"\n[engine]\nkv_tokens = 4096\n')
    environment = {"HOLOTRON_SERVER__PORT": "2", "HOLOTRON_SERVER__LOG_LEVEL": "error", "HOLOTRON_API_KEY": "x"}
    resolved = resolve(from_file(file), from_environment(environment), flags("--server.port", "3"))
    server = resolved.settings.server
    assert (server.port, server.log_level, server.host) == (3, "error", "0.0.0.0")
    assert resolved.settings.engine_values()["kv_tokens"] == 4096
    assert resolved.origins == {
        "server.port": "--server.port",
        "server.log_level": "HOLOTRON_SERVER__LOG_LEVEL",
        "server.host": str(file),
        "engine.kv_tokens": str(file),
    }


def test_the_default_is_private() -> None:
    assert Settings().server.host == "127.0.0.1"
    assert not Settings().images.allow_remote


def test_spellings() -> None:
    layer, others = from_flags(
        ["--images.allow-remote", "tiny", "--engine.prefetch=false", "--sessions.ttl-seconds", "none"]
    )
    settings = resolve(layer).settings
    assert others == ["tiny"]
    assert settings.images.allow_remote
    assert settings.engine_values() == {"prefetch": False, "session_ttl": None}
    listed = resolve(from_environment({"HOLOTRON_SERVER__API_KEYS": "a, b"})).settings.server
    assert api_keys(listed) == ("a", "b")


def test_keys_from_a_file_and_never_shown(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("one\ntwo\n")
    settings = resolve(flags("--server.api_key_file", str(file), "--server.api_keys", "three")).settings
    assert set(api_keys(settings.server)) == {"one", "two", "three"}
    assert "three" not in repr(settings)
    assert "three" not in settings.model_dump_json()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--server.prot", "1"], "did you mean server.port"),
        (["--nonsense.at_all", "1"], "lists all there are"),
        (["--server.port", "x"], "--server.port: server.port: Input should be a valid integer"),
        (["--server.port", "70000"], "less than or equal"),
        (["--model.dtype", "float12"], "model.dtype"),
        (["--server.api_key_file", "/no/such/file"], "no file"),
        (["--server.port"], "needs a value"),
        (["--portt", "1"], "not a flag"),
    ],
)
def test_mistakes_name_their_origin(words: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve(flags(*words))


def test_mistakes_in_files_and_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "serve.toml"
    file.write_text("[server]\nporrt = 1\n")
    with pytest.raises(ConfigError, match=r"serve.toml: there is no setting server.porrt"):
        resolve(from_file(file))
    with pytest.raises(ConfigError, match=r"HOLOTRON_ENGINE__KV_TOKEN: .*engine.kv_tokens"):
        resolve(from_environment({"HOLOTRON_ENGINE__KV_TOKEN": "1"}))
    file.write_text("port = 1\n")
    with pytest.raises(ConfigError, match="outside a section"):
        from_file(file)
    file.write_text("[server\n")
    with pytest.raises(ConfigError, match="not valid TOML"):
        from_file(file)
    with pytest.raises(ConfigError, match="cannot read"):
        from_file(tmp_path / "nothing.toml")


def test_pools_follow_the_wanted_sessions() -> None:
    settings = resolve(flags("--memory.sessions", "10", "--memory.context", "1000", "--model.source", "tiny")).settings
    engine = planned_engine(settings)
    assert (engine.state_rows, engine.kv_tokens) == (11, (10 * 16 + 1) * 64)
    said = resolve(flags("--memory.sessions", "10", "--engine.state_rows", "5")).settings
    assert engine_config(said, model_config("tiny"), torch.float32).state_rows == 5  # what is said stands


def test_names_of_models(tmp_path: Path) -> None:
    assert source_of(resolve(flags("--model.source", "Hcompany/Holotron-12B")).settings)[1] == "Hcompany/Holotron-12B"
    (tmp_path / "mine").mkdir()
    assert source_of(resolve(flags("--model.source", str(tmp_path / "mine"))).settings)[1] == "mine"
    assert source_of(resolve(flags("--model.source", "tiny", "--model.name", "x")).settings)[1] == "x"


def test_dry_run_prints_everything_as_toml() -> None:
    command = [warm.holotron(), "serve", "--server.port", "9", "tiny", "--dry-run"]
    environment = {**os.environ, "HOLOTRON_REPLY__TEMPERATURE": "0.5"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=True)
    tree = tomllib.loads(done.stdout)
    assert tree["server"]["port"] == 9
    assert tree["model"]["source"] == "tiny"
    assert tree["engine"]["page_size"] == 64
    assert "temperature = 0.5  # HOLOTRON_REPLY__TEMPERATURE" in done.stdout
    for key in known_keys():
        assert f"{key.partition('.')[2]} = " in done.stdout
