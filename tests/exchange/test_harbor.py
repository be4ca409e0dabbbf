"""Harbor task directories: what is written, and that it can be played as Harbor plays it, but for the container."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

import holotron
from holotron.data.pages.make import Size
from holotron.errors import ConfigError
from holotron.exchange.episode_server import ServedEpisode, make_server
from holotron.exchange.harbor_tasks import write_tasks
from holotron.exchange.names import class_prefix, folder_name, package_name, slug
from holotron.suites.base import Suite, SuiteRequest, environments_of
from holotron.suites.painted import PaintedEnvironment
from holotron.types import Task

SOURCE = Path(holotron.__file__).parent.parent


@pytest.mark.parametrize(
    "name", ["Füße & Co", "../../etc/passwd", "", "a/b", "a b", "x" * 300, "UPPER", 'quote"s', "emoji 🦊", "-", "a--b"]
)
def test_odd_names_become_safe_folders_that_stay_apart(name: str) -> None:
    made = folder_name(name, 3)
    assert made == folder_name(name, 3) and len(made) < 80
    assert set(made) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") and made[0].isalnum()
    assert slug(name) != slug(name + "!")


def test_names_of_packages() -> None:
    assert folder_name("shop-wish", 3) == "shop-wish-3"
    assert package_name("Holotron-Sites") == "holotron_sites" and class_prefix("holotron_sites") == "HolotronSites"
    for bad in ("", "1st", "a b", "class", "ä", "a/b"):
        with pytest.raises(ConfigError):
            package_name(bad)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("harbor")
    made = write_tasks("painted", out, tasks="boxes-2,order-2", seeds="1:3", solve=False)
    assert len(made) == 4
    return out


def test_what_is_written(folder: Path) -> None:
    task = folder / "boxes-2-1"
    config = tomllib.loads((task / "task.toml").read_text())
    assert config["task"]["name"] == "holotron/boxes-2-1" and config["agent"]["user"] == "agent"
    assert config["metadata"]["suite"] == "painted" and config["metadata"]["seed"] == 1
    assert config["environment"]["healthcheck"]["command"] == "computer start"
    instruction = (task / "instruction.md").read_text()
    assert instruction.startswith("Click the ") and "`click` (x, y)" in instruction and "160 wide" in instruction
    assert json.loads((task / "environment" / "task.json").read_text()) == {
        "suite": "painted", "task": "boxes-2", "seed": 1,
    }  # fmt: skip
    assert os.access(task / "tests" / "test.sh", os.X_OK) and os.access(task / "environment" / "computer", os.X_OK)
    assert not (task / "solution").exists() and not list(folder.glob(".making-*"))


def test_nothing_is_written_over(folder: Path) -> None:
    with pytest.raises(ConfigError, match="boxes-2-2 is there already"):
        write_tasks("painted", folder, tasks="boxes-2", seeds="2:4", solve=False)
    assert not (folder / "boxes-2-3").exists()
    (made,) = write_tasks("painted", folder, tasks="boxes-2", seeds="7", solve=False)  # beside the others
    assert made.is_dir()


def test_bad_wishes_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no solver"):
        write_tasks("painted", tmp_path, tasks="boxes-2")
    with pytest.raises(ConfigError, match="before the slash"):
        write_tasks("painted", tmp_path, tasks="boxes-2", organisation="../x", solve=False)
    with pytest.raises(ConfigError, match="neither a requirement nor a wheel"):
        write_tasks("painted", tmp_path, tasks="boxes-2", package="x; rm -rf /", solve=False)
    with pytest.raises(ConfigError, match="there is no wheel"):
        write_tasks("painted", tmp_path, tasks="boxes-2", package="none.whl", solve=False)
    assert list(tmp_path.iterdir()) == []


def odd(request: SuiteRequest) -> Suite:
    names = ['../Füße "&" \n Co']
    return Suite(
        "odd",
        request.tasks_of("odd", names),
        environments_of(lambda: OddEnvironment(Size.parse("160x160@2"))),
        actions=("click",),
    )


class OddEnvironment(PaintedEnvironment):
    async def reset(self, task: Task):  # type: ignore[no-untyped-def]
        return await super().reset(Task("painted", "boxes-1", seed=task.seed))


def test_a_task_with_an_odd_name(tmp_path: Path) -> None:
    (made,) = write_tasks("tests.exchange.test_harbor:odd", tmp_path / "out", solve=False)
    assert made.parent == tmp_path / "out" and tomllib.loads((made / "task.toml").read_text())["metadata"]["seed"] == 0


# ------------------------------------------------------------------------------------------------------- to be played


@pytest.fixture
def address() -> Iterator[str]:
    episode = ServedEpisode("painted", "boxes-1", 1)
    server = make_server(episode, "secret")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    episode.close()


def ask(url: str, body: bytes | None = None, **headers: str) -> tuple[int, dict]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url, body, headers), timeout=20) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_the_verdict_is_not_for_the_agent(address: str) -> None:
    assert ask(f"{address}/verdict")[0] == 403 and ask(f"{address}/verdict", **{"X-Token": "x"})[0] == 403
    assert ask(f"{address}/verdict", **{"X-Token": "secret"}) == (200, {"reward": 0.0, "success": 0.0, "steps": 0.0})
    assert ask(f"{address}/nowhere")[0] == 404


@pytest.mark.parametrize("body", [b"", b"no json", b"[]", b'{"tool_name": "fly"}', b'{"tool_name": "click", "x": "a"}'])
def test_what_is_no_action_changes_nothing(address: str, body: bytes) -> None:
    status, said = ask(f"{address}/act", body)
    assert status == 400 and said["error"] and said["step"] == 0
    status, said = ask(f"{address}/act", b'{"tool_name": "click", "x": 1, "y": 1}')
    assert status == 200 and said["over"] and said["step"] == 1
    assert ask(f"{address}/act", b'{"tool_name": "click", "x": 1, "y": 1}')[1]["note"] == "The episode is over."


def played(task: Path, state: Path, actions: str | None = None) -> dict[str, float]:
    """Health check, then the solution or these actions, then the verifier: what Harbor does, in its order."""
    (state / "bin").mkdir(parents=True)
    (state / "bin" / "computer").symlink_to(task / "environment" / "computer")
    (state / "bin" / "python3").symlink_to(sys.executable)
    environment = os.environ | {
        "HOLOTRON_TASK": str(task / "environment" / "task.json"), "HOLOTRON_STATE": str(state / "state"),
        "HOLOTRON_PORT": str(20000 + os.getpid() % 20000), "HOLOTRON_LOGS": str(state / "logs"),
        "PYTHONPATH": str(SOURCE), "PATH": f"{state / 'bin'}:{os.environ['PATH']}",
    }  # fmt: skip

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, env=environment, cwd=state, capture_output=True, text=True, timeout=240)

    computer = [sys.executable, str(task / "environment" / "computer")]
    try:
        started = run(*computer, "start")
        log = (state / "state" / "log").read_text() if (state / "state" / "log").exists() else ""
        assert started.returncode == 0, started.stderr + log
        assert run(*computer, "start").returncode == 0  # twice is as good as once
        assert (state / "state" / "token").stat().st_mode & 0o077 == 0
        looked = run(*computer, "look")
        assert looked.returncode == 0 and Path(json.loads(looked.stdout)["screenshot"]).stat().st_size > 500
        for line in (actions or "").splitlines():
            run(*computer, "act", line)
        if actions is None:
            solved = run("bash", str(task / "solution" / "solve.sh"))
            assert solved.returncode == 0, solved.stderr
        tested = run("bash", str(task / "tests" / "test.sh"))
        assert tested.returncode == 0, tested.stderr
    finally:
        for process in Path("/proc").glob("[0-9]*"):
            line = (process / "cmdline").read_bytes() if (process / "cmdline").exists() else b""
            if b"episode_server" in line and str(state).encode() in line:
                os.kill(int(process.name), signal.SIGTERM)
    found = json.loads((state / "logs" / "reward.json").read_text())
    assert float((state / "logs" / "reward.txt").read_text()) == found["reward"]
    return found


def test_an_episode_in_the_order_that_harbor_plays(folder: Path, tmp_path: Path) -> None:
    verdict = played(folder / "boxes-2-1", tmp_path / "wrong", '{"tool_name": "click", "x": 1, "y": 1}')
    assert verdict == {"reward": 0.0, "success": 0.0, "steps": 1.0}


@pytest.mark.browser
def test_the_solution_of_a_web_task_is_worth_one(tmp_path: Path) -> None:
    (task,) = write_tasks("sites", tmp_path / "out", tasks="shop-wish", seeds="3")
    assert played(task, tmp_path / "oracle")["reward"] == 1.0


@pytest.mark.exchange
def test_harbor_itself_reads_them(harbor_bin: Path, folder: Path) -> None:
    code = (
        "import sys; from harbor.models.task.task import Task\n"
        "for path in sys.argv[1:]:\n"
        "    task = Task(path); print(task.name, Task.is_valid_dir(path), task.config.agent.user, "
        "task.config.environment.healthcheck.command, len(task.instruction) > 200)"
    )
    paths = sorted(str(path) for path in folder.iterdir())
    said = subprocess.run([str(harbor_bin / "python"), "-c", code, *paths], capture_output=True, text=True, timeout=300)
    assert said.returncode == 0, said.stderr
    for path, line in zip(paths, said.stdout.splitlines(), strict=True):
        assert line == f"holotron/{Path(path).name} True agent computer start True"


@pytest.mark.exchange
@pytest.mark.browser
@pytest.mark.parametrize(("agent", "reward"), [("oracle", 1.0), ("nop", 0.0)])
def test_harbor_itself_plays_them(harbor_bin: Path, tmp_path: Path, agent: str, reward: float) -> None:
    """Its runner, its agents and its verifier; a folder stands for the container (`folder_environment`)."""
    (task,) = write_tasks("sites", tmp_path / "tasks", tasks="shop-wish", seeds="3")
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python3"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    environment = os.environ | {
        "PLAYING_PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "HOLOTRON_PORT": str(20000 + os.getpid() % 20000),
        "PYTHONPATH": f"{SOURCE}:{Path(__file__).parents[2]}", "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }  # fmt: skip
    command = [
        str(harbor_bin / "harbor"),
        "run",
        "-p",
        str(task),
        "-a",
        agent,
        "-n",
        "1",
        "-y",
        "-o",
        str(tmp_path / "jobs"),
    ]
    command += ["-e", "tests.exchange.folder_environment:FolderEnvironment"]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500)
    found = list((tmp_path / "jobs").glob("*/*/verifier/reward.json"))
    assert said.returncode == 0 and len(found) == 1, said.stdout[-3000:] + said.stderr[-2000:]
    assert json.loads(found[0].read_text())["reward"] == reward
