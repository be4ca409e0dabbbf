"""A policy that acts at random, the floor of every benchmark. Same seed, same task: same actions."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from holotron.actions import check_action_names
from holotron.agent.policies.registry import PolicyRequest, policies
from holotron.envs.base import Environment
from holotron.errors import ConfigError
from holotron.types import (
    Action,
    Answer,
    Click,
    Completion,
    DoubleClick,
    Drag,
    Hover,
    Observation,
    PressKeys,
    Reply,
    RightClick,
    Scroll,
    Task,
    Wait,
    Write,
)

DEFAULT_ACTIONS = ("click", "double_click", "right_click", "hover", "write", "press_keys", "scroll", "drag", "wait")
_KEYS = ("Enter", "Tab", "Escape", "Backspace", "ArrowDown", "ArrowUp")


class RandomPolicy:
    def __init__(self, seed: int = 0, actions: Sequence[str] = DEFAULT_ACTIONS) -> None:
        self._seed = seed
        self._actions = check_action_names(actions)

    @property
    def name(self) -> str:
        return "random"

    def describe(self) -> dict[str, Any]:
        return {"policy": "random", "seed": self._seed, "actions": list(self._actions)}

    async def start(self, task: Task, environment: Environment | None = None) -> _Session:
        return _Session(random.Random(f"{self._seed}/{task.id}"), self._actions, task.goal)

    async def close(self) -> None:
        pass


@policies.register("random")
def make_random(request: PolicyRequest) -> RandomPolicy:
    if request.argument and not request.argument.isdigit():
        raise ConfigError(f"policy {request.spec!r}: write random:SEED with a whole number")
    actions = [name for name in DEFAULT_ACTIONS if name in request.actions]
    return RandomPolicy(int(request.argument or 0), actions)


class _Session:
    def __init__(self, dice: random.Random, actions: Sequence[str], goal: str) -> None:
        self._dice = dice
        self._actions = actions
        self._words = goal.split() or ["hello"]

    async def act(self, observation: Observation, *, feedback: str = "", must_answer: bool = False) -> Reply:
        name = "answer" if must_answer else self._dice.choice(self._actions)
        return Reply(Completion(text=""), action=self._action(name, observation.viewport))

    async def close(self) -> None:
        pass

    def _action(self, name: str, viewport: tuple[int, int]) -> Action:
        dice = self._dice

        def point() -> tuple[float, float]:
            return float(dice.randrange(viewport[0])), float(dice.randrange(viewport[1]))

        match name:
            case "double_click":
                return DoubleClick(*point())
            case "right_click":
                return RightClick(*point())
            case "hover":
                return Hover(*point())
            case "write":
                return Write(dice.choice(self._words), *point())
            case "press_keys":
                return PressKeys((dice.choice(_KEYS),))
            case "scroll":
                return Scroll(dice.choice(("up", "down")))
            case "drag":
                return Drag(*point(), *point())
            case "wait":
                return Wait(0.1)
            case "answer":
                return Answer(dice.choice(self._words))
        return Click(*point())
