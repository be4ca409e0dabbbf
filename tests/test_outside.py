"""A stranger's suite: one file outside the package, with an environment of its own, played by every command."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path

import pytest

from holotron.agent.policies.registry import PolicyRequest
from holotron.errors import ConfigError
from holotron.rollouts.store import RunReader
from holotron.rollouts.suite import opened
from holotron.suites.base import find_suite
from holotron.types import Outcome
from holotron.view import View
from tests import warm
from tests.cli.calling import call
from tests.training.rl.support import untrained

SUITE = '''\
"""Which half is white?"""

import io
import random
from dataclasses import replace

from PIL import Image

from holotron.suites.base import Suite, environments_of
from holotron.types import Click, Observation, StepResult


class Halves:
    async def reset(self, task):
        self.white = random.Random(task.seed).choice(["left", "right"])
        self.task = replace(task, goal="Click the white half.")
        return await self.observe()

    async def observe(self):
        image, file = Image.new("RGB", (64, 64)), io.BytesIO()
        image.paste("white", (0, 0, 32, 64) if self.white == "left" else (32, 0, 64, 64))
        image.save(file, "PNG")
        return Observation(file.getvalue(), "image/png", (64, 64), (64, 64))

    async def step(self, action):
        hit = isinstance(action, Click) and (action.x < 32) == (self.white == "left")
        return StepResult(await self.observe(), reward=2.5 if hit else -0.5, done=True, success=hit)

    async def close(self):
        pass


def halves(request):
    """A black and a white half; click the white one."""
    tasks = request.tasks_of("halves", request.choose(["white"]))
    return Suite("halves", tasks, environments_of(Halves), actions=("click",))
'''

RECIPE = """\
name = "halves"
[model]
source = "start"
[tasks]
suite = "halves.py:halves"
learn_from = "reward"
[agent]
max_tokens = 24
constrained = true
[rollouts]
sessions = 4
group = 4
queue = 4
[engine]
kv_tokens = 8192
state_rows = 32
[update]
groups = 2
tokens = 4096
[schedule]
steps = 2
[evaluate]
every_steps = 2
"""


def holotron(*arguments: object, cwd: Path) -> str:
    command = [warm.holotron(), *map(str, arguments)]
    environment = os.environ | {"COLUMNS": "200"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_one_file_is_enough_for_eval_rollout_and_rl(tmp_path: Path):
    assert len(SUITE.splitlines()) <= 40
    (tmp_path / "halves.py").write_text(SUITE)
    (tmp_path / "recipe.toml").write_text(RECIPE)
    untrained(tmp_path / "start")

    said = holotron(
        "eval", "halves.py:halves", "--policy", "random:1", "--seeds", "0:6", "--json", "x.json", cwd=tmp_path
    )
    assert "mean_success" in said and "report:" in said
    assert json.loads((tmp_path / "x.json").read_text())["episodes"] == 6

    holotron("rollout", "--suite", "halves:halves", "--policy", "start", "--seeds", "0:4", "--out", "run", cwd=tmp_path)
    episodes = list(RunReader(tmp_path / "run").trajectories())
    assert len(episodes) == 4
    for episode in episodes:
        assert episode.task.goal == "Click the white half."
        assert episode.reward == (2.5 if episode.outcome is Outcome.SUCCESS else -0.5)

    holotron("train", "rl", "recipe.toml", "--out", "rl", "--device", "cpu", cwd=tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "rl" / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if "update/ratio" in row] == [1, 2]
    assert (tmp_path / "rl" / "model" / "agent.json").is_file()


POLICY = """\
from holotron.agent.policies.random import RandomPolicy
from holotron.agent.policies.registry import declares
from holotron.agent.profiles import Profile
from holotron.view import View


@declares(Profile(views={"painted": View(width=96, height=128)}))
def make(request):
    return RandomPolicy(request.actions)
"""


def test_a_policy_from_outside_says_how_it_wants_to_be_shown_a_suite(tmp_path: Path):
    (tmp_path / "mine.py").write_text(POLICY)
    spec = f"{tmp_path / 'mine.py'}:make"

    async def shown(view: View) -> tuple[int | None, int | None]:
        async with opened(PolicyRequest(spec), "painted", tasks="boxes-2", view=view) as (_, suite):
            return suite.view.width, suite.view.height

    assert asyncio.run(shown(View())) == (96, 128)
    assert asyncio.run(shown(View(width=64))) == (64, 128)  # the user's wish goes before it


@pytest.mark.parametrize("wish", [View(scale=2), View(width=64, format="png")])
def test_a_suite_that_knows_nothing_of_views_says_so_to_whoever_wishes_for_one(wish: View, tmp_path: Path):
    (tmp_path / "halves.py").write_text(SUITE)
    spec = f"{tmp_path / 'halves.py'}:halves"
    assert find_suite(spec, declared={spec: wish}).tasks  # a model that was trained elsewhere plays all the same
    with pytest.raises(ConfigError, match=" and ".join(wish.to_json()) + " cannot be chosen there"):
        find_suite(spec, view=wish)


def test_an_evaluation_without_verdicts_says_how_many(tmp_path: Path):
    unscored = SUITE.replace("success=hit", "success=None").replace("actions=", "scored=False, actions=")
    (tmp_path / "halves.py").write_text(unscored)
    spec, out = f"{tmp_path / 'halves.py'}:halves", tmp_path / "run"
    called = call("eval", spec, "--policy", "random:1", "--seeds", "0:3", "--out", out, "--no-report")
    assert called.status == 0, called.err
    assert "3 episodes ended with nobody to say whether the task was done; they are in no rate" in called.out
