"""Gymnasium both ways: their environments play as suites, and our suites pass their checker."""

from __future__ import annotations

import asyncio
import json

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

import holotron.suites.gymnasium_export  # noqa: F401  (registers holotron/Suite-v0)
from holotron.agent.policies.random import RandomPolicy
from holotron.errors import ConfigError, MissingDependency
from holotron.evals.evaluate import evaluate
from holotron.suites.base import find_suite
from holotron.suites.gymnasium import GymnasiumEnvironment, translate
from holotron.suites.gymnasium_export import SuiteEnv
from holotron.suites.painted import PaintedEnvironment
from holotron.types import Answer, Click, Task, Wait, Write


class Lamp(gymnasium.Env):
    """A dark picture whose bright quarter is to be clicked."""

    observation_space = spaces.Dict(
        {
            "screenshot": spaces.Box(0, 255, (40, 80, 3), np.uint8),
            "goal": spaces.Text(100, charset="Click the light."),
        }
    )
    action_space = spaces.Box(0, 1, (2,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.quarter = int(self.np_random.integers(4))
        return self._see(), {}

    def step(self, action):
        hit = int(action[0] * 4) == self.quarter
        return self._see(), 3.0 if hit else -1.0, True, False, {"is_success": hit}

    def _see(self):
        picture = np.zeros((40, 80, 3), np.uint8)
        picture[:, self.quarter * 20 : (self.quarter + 1) * 20] = 255
        return {"screenshot": picture, "goal": "Click the light."}


gymnasium.register("holotron-test/Lamp-v0", entry_point=Lamp)


def test_their_environment_is_seen_acted_in_and_scored():
    async def main():
        environment = GymnasiumEnvironment("holotron-test/Lamp-v0")
        seen = await environment.reset(Task("gymnasium", "x", seed=3))
        again = await environment.reset(Task("gymnasium", "x", seed=3))
        assert seen.image == again.image
        assert seen.image_size == seen.viewport == (80, 40)
        assert environment.task.goal == "Click the light."
        refused = await environment.step(Wait(1))
        assert "only clicks" in refused.observation.note and not refused.done
        results = []
        for quarter in range(4):
            await environment.reset(Task("gymnasium", "x", seed=3))
            results.append(await environment.step(Click(quarter * 20 + 10, 20)))
        await environment.close()
        return results

    results = asyncio.run(main())
    assert sorted((result.success, result.reward) for result in results) == [(False, -1.0)] * 3 + [(True, 3.0)]
    assert all(result.done for result in results)


def test_it_is_a_suite_like_any_other(tmp_path):
    suite = find_suite("gymnasium:holotron-test/Lamp-v0", seeds=range(20))
    assert suite.actions == ("click",)
    result = asyncio.run(evaluate(RandomPolicy(1, suite.actions), suite, tmp_path))
    assert result.scores.overall.scored == 20 and 0 < result.scores.mean_success < 1
    with pytest.raises(ConfigError, match="cannot make 'Nonesuch-v9'"):
        find_suite("gymnasium:Nonesuch-v9")
    with pytest.raises(ConfigError, match="gymnasium:ENV_ID"):
        find_suite("gymnasium")


def test_what_an_environment_lacks_is_one_sentence_and_not_a_spoiled_episode(tmp_path):
    class Drawn(Lamp):
        metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

        def __init__(self, render_mode=None):
            self.render_mode = render_mode

        def _see(self):
            return {"goal": "Look."}

        def render(self):
            raise gymnasium.error.DependencyNotInstalled("pygame is not installed")

    gymnasium.register("holotron-test/Drawn-v0", entry_point=Drawn, disable_env_checker=True)
    suite = find_suite("gymnasium:holotron-test/Drawn-v0")
    with pytest.raises(MissingDependency, match="pygame is not installed"):
        asyncio.run(evaluate(RandomPolicy(1, suite.actions), suite, tmp_path))


def test_actions_are_told_in_the_words_of_the_space():
    assert translate(Write("2"), spaces.Discrete(4, start=10), (1, 1)) == 12
    with pytest.raises(ConfigError, match="from 0 to 3"):
        translate(Write("7"), spaces.Discrete(4), (1, 1))
    text = spaces.Text(1000)
    assert translate(Click(3, 4), text, (1, 1)) == "mouse_click(3, 4)"
    assert translate(Answer("it's"), text, (1, 1)) == 'send_msg_to_user("it\'s")'
    assert translate(Write("hi", 1, 2, press_enter=True), text, (1, 1)).splitlines() == [
        "mouse_click(1, 2)",
        "keyboard_press('ControlOrMeta+a')",
        "keyboard_type('hi')",
        "keyboard_press('Enter')",
    ]


def test_our_suite_passes_their_checker_and_can_be_solved():
    env = gymnasium.make("holotron/Suite-v0", spec="painted", tasks="boxes-2")
    check_env(env.unwrapped, skip_render_check=True)
    env.close()

    env = SuiteEnv("painted", tasks="boxes-2,order-2")
    first, _ = env.reset(seed=5, options={"task": "boxes-2"})
    second, _ = env.reset(seed=5, options={"task": "boxes-2"})
    assert np.array_equal(first["image"], second["image"]) and first["goal"] == second["goal"]
    assert first["goal"].startswith("Click the")
    assert env.observation_space.contains(first)
    _, reward, terminated, truncated, told = env.step("nonsense")
    assert (reward, terminated, truncated) == (0.0, False, False) and "no valid action" in told["note"]
    assert isinstance(env._environment, PaintedEnvironment)
    left, top, right, bottom = env._environment.target
    click = {"tool_name": "click", "x": (left + right) / 2, "y": (top + bottom) / 2}
    _, reward, terminated, _, told = env.step(json.dumps(click))
    assert (reward, terminated, told["success"]) == (1.0, True, True)
    with pytest.raises(ConfigError, match="no task 'boxes-9'"):
        env.reset(options={"task": "boxes-9"})
    env.reset(seed=1)
    for _ in range(10):
        _, _, terminated, truncated, told = env.step(json.dumps({"tool_name": "click", "x": -5, "y": -5}))
        if terminated:
            break
    assert told["success"] is False
    env.close()
    env.close()
