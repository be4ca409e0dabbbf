"""Reinforcement learning of a policy that is shown screens as changes: recorded, learnt and probed as served."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from holotron.agent.profiles import Profile, write_profile
from holotron.data.pages.make import Size
from holotron.engine.api import EngineConfig
from holotron.engine.engine import Engine
from holotron.engine.sampler import never_sampled
from holotron.model.loading import byte_processor, load_model
from holotron.model.weights import random_model, save_checkpoint
from holotron.suites.painted import PaintedEnvironment
from holotron.training.learner import Learner
from holotron.training.rl.objective import Drawing
from holotron.training.rl.player import Player, open_suite
from holotron.training.rl.policy import RolloutPolicy
from holotron.training.rl.record import Rollout, SampledTurn, play_of
from holotron.training.rl.successes import Successes
from holotron.training.rl.weights import Probe, disagreement, log_before_last_reply
from holotron.types import Click, Outcome, Task
from tests.training.rl.support import rl_recipe, view_of
from tests.training.support import small_config

CONFIG = small_config(tile=128)  # 16 rows
TASK = Task("painted", "order-4", seed=4)


@pytest.fixture(scope="module", params=[False, True], ids=["dense", "sparse"])
def start(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    config = replace(CONFIG, image=replace(CONFIG.image, sparse=request.param))
    folder = tmp_path_factory.mktemp("start")
    save_checkpoint(random_model(config, seed=0), folder)
    byte_processor(config).save(folder)
    write_profile(folder, Profile("compact", history="append", deltas=0))
    return folder


async def watch(policy: RolloutPolicy) -> list[int]:
    """The policy talks while somebody else clicks the boxes away; its session's own log."""
    environment = PaintedEnvironment(Size.parse("64x64@2"))
    observation = await environment.reset(TASK)
    session = await policy.start(environment.task, environment)
    for left, top, right, bottom in environment._screen.targets[:3]:
        await session.act(observation)
        observation = (await environment.step(Click((left + right) / 2, (top + bottom) / 2))).observation
    chat = session._chat
    log = await chat._session.tokens()  # type: ignore[attr-defined]
    await session.close()
    return log


def test_a_policy_with_deltas_is_recorded_learnt_and_probed_as_served(start: Path, tmp_path: Path):
    recipe = rl_recipe(start, tasks={"names": ["order-4"], "view": view_of("64x64@2")})
    model, processor = load_model(start, device="cpu")
    learner = Learner(model)
    with Engine(model, processor, EngineConfig()) as engine:
        player = Player(recipe, engine, open_suite(recipe))
        policy = player.member(player.trunk(), 0, 0)
        log = asyncio.run(watch(policy))
        (turns,) = policy.logs
        play, tiles = play_of(turns)
        assert play.ids_T.tolist() == log
        assert 10 < len(play.shown) < 2 * 16  # two of three screens as changes
        rollout = Rollout(TASK, True, Outcome.SUCCESS, (play,), tiles)
        drawing = Drawing(never=never_sampled(model))
        assert disagreement(learner, turns, rollout, drawing) <= 1.001
        prompt = log_before_last_reply(play, rollout, CONFIG.tokens.image)
        assert prompt.ids == log[: len(prompt.ids)]
        result = Probe.start(engine, prompt).finish()
        assert result is not None
        assert disagreement(learner, [SampledTurn(prompt, result)], rollout, drawing) <= 1.001

    kept = Successes(tmp_path, keep=1)
    kept.add(rollout, 0, 0)
    found = kept.take(TASK.name)
    assert found is not None and np.array_equal(found.plays[0].shown, play.shown)
