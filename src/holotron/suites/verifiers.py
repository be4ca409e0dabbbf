"""Any verifiers environment as a suite: `holotron eval verifiers:NAME --policy ... --seeds 0:20`

    find_suite("verifiers:holotron-sites", seeds=range(10))              # a seed is the number of a task
    find_suite("verifiers:gsm8k-v1,threshold=0.5,num_tasks=20")          # settings of its taskset, after commas

NAME is what `vf-eval` takes: an installed package. verifiers and the package may live in an environment of their own,
named by HOLOTRON_VERIFIERS_PYTHON (a Python interpreter); without it they must be installed here. Either way they run
in a process of their own, where our policy stands for the model: each call of the model is one step.

What is seen is the last picture of the request; where there is none, the text is drawn. Its words are the goal, and
later ones come as notes. `write` and `answer` reply with their text; a JSON object {"name": ..., "arguments": ...} that
names a tool on offer calls it. An environment that asks for actions in our own words (every exported suite of ours
does) gets them, coordinates included. The reward is theirs as it is, of any size; success is their metric `success` if
there is one, else whether the reward reaches `threshold` (1 unless said otherwise).

`holotron exchange verifiers` goes the other way.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from holotron.agent.coordinates import Screen
from holotron.agent.dialects import make_dialect
from holotron.errors import ConfigError, EnvironmentFault, InputError
from holotron.suites.base import Suite, SuiteRequest, suites
from holotron.suites.verifiers_bridge.process import HostProcess, interpreter
from holotron.suites.verifiers_bridge.showing import content_text, last_picture, shown
from holotron.types import Action, Answer, Observation, StepResult, Task, Write

SUCCESS = ("success", "is_success", "solved")


@suites.register("verifiers")
def verifiers_suite(request: SuiteRequest) -> Suite:
    """Any verifiers environment, in a process of its own: holotron eval verifiers:NAME

    Needs: an environment with verifiers 0.4 and the package NAME; HOLOTRON_VERIFIERS_PYTHON names its Python.
    Takes: as long as the environment and your policy take.
    """
    name, settings = _parsed(request.argument)
    request.view.refuse(("width", "height", "scale", "crop", "format"), "verifiers environments draw themselves")
    threshold = float(settings.pop("threshold", 1.0))
    python = interpreter()
    return Suite(
        name="verifiers",
        tasks=request.tasks_of("verifiers", request.choose([name])),
        open=lambda sessions: VerifiersPool(HostProcess(python, name, settings), threshold, sessions),
        facts={"environment": name, "settings": settings, "threshold": threshold},
    )


def _parsed(argument: str) -> tuple[str, dict[str, Any]]:
    name, *pairs = argument.split(",")
    if not name:
        raise ConfigError("name a verifiers environment: verifiers:NAME")
    settings: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise ConfigError(f"verifiers:{argument}: {pair!r} is no setting; write name=value after the commas")
        try:
            settings[key] = json.loads(value)
        except ValueError:
            settings[key] = value
    if not isinstance(settings.get("threshold", 1.0), int | float):
        raise ConfigError(f"verifiers:{argument}: threshold must be a number")
    return name, settings


class VerifiersPool:
    """All episodes in one process of theirs."""

    def __init__(self, host: HostProcess, threshold: float, sessions: int) -> None:
        self._host = host
        self._threshold = threshold
        self._places = asyncio.Semaphore(sessions)

    async def acquire(self) -> VerifiersEnvironment:
        await self._places.acquire()
        return VerifiersEnvironment(self._host, self._threshold)

    async def release(self, environment: VerifiersEnvironment, *, broken: bool = False) -> None:
        await environment.close()
        self._places.release()

    async def close(self) -> None:
        await self._host.close()


class VerifiersEnvironment:
    def __init__(self, host: HostProcess, threshold: float) -> None:
        self._host = host
        self._threshold = threshold
        self._task: Task | None = None
        self._episode: int | None = None
        self._seen: Observation | None = None
        self._tools: set[str] = set()
        self._ours = False  # it asks for actions in the words of our own dialect
        self._known = 0  # messages that have been seen, our last reply among them

    @property
    def task(self) -> Task:
        assert self._task is not None, "reset it first"
        return self._task

    async def reset(self, task: Task) -> Observation:
        await self.close()
        self._known, self._ours = 0, False
        self._episode = await self._host.play(task.seed)
        told = await self._host.next(self._episode)
        if "end" in told:
            self._episode = None
            if told["end"].get("missing"):
                raise ConfigError(f"{task.name} has no task {task.seed}; choose fewer with --seeds")
            raise EnvironmentFault(
                f"{task.name} ended before the model was asked: {told['end']['error'] or 'no reason'}"
            )
        messages = told["ask"]["messages"]
        self._ours = '"tool_name"' in content_text(messages[:2]) and last_picture(messages) is not None
        self._task = replace(task, goal=task.goal or content_text(m for m in messages if m["role"] == "user"))
        self._seen = self._look(told["ask"])
        return self._seen

    async def observe(self) -> Observation:
        assert self._seen is not None, "reset it first"
        return self._seen

    async def step(self, action: Action) -> StepResult:
        assert self._seen is not None and self._episode is not None, "reset it first"
        try:
            reply = self._reply(action)
        except InputError as refusal:
            return StepResult(replace(self._seen, note=str(refusal)))
        await self._host.reply(self._episode, reply)
        told = await self._host.next(self._episode)
        if "end" in told:
            return self._ended(told["end"])
        self._seen = self._look(told["ask"])
        if isinstance(action, Answer) and not self._ours:  # the agent is done and its environment is not
            return StepResult(self._seen, 0.0, True, False, {"reason": "the environment expected more than an answer"})
        return StepResult(self._seen)

    async def close(self) -> None:
        episode, self._episode = self._episode, None
        if episode is not None:
            await self._host.cancel(episode)

    def _look(self, ask: Mapping[str, Any]) -> Observation:
        new = ask["messages"][self._known :] if self._known else []  # at first, everything is the goal
        self._known = len(ask["messages"]) + 1
        offered = [tool.get("function", tool) for tool in ask["tools"]]
        self._tools = {tool["name"] for tool in offered}
        return shown(ask["messages"], new, offered)

    def _reply(self, action: Action) -> dict[str, Any]:
        assert self._seen is not None
        if self._ours:
            screen = Screen(self._seen.image_size, self._seen.viewport)
            return {"content": make_dialect("holotron").render(action, screen)}
        if not isinstance(action, Write | Answer):
            raise InputError("Here a reply is text: use write, with your whole reply as its content.")
        try:
            said = json.loads(action.content)
        except ValueError:
            said = None
        if isinstance(said, dict) and said.get("name") in self._tools:
            call = {"name": said["name"], "arguments": json.dumps(said.get("arguments") or {})}
            return {
                "content": None,
                "tool_calls": [{"id": f"call-{self._known}", "type": "function", "function": call}],
            }
        return {"content": action.content}

    def _ended(self, end: Mapping[str, Any]) -> StepResult:
        assert self._seen is not None
        self._episode = None
        reward = end["reward"]
        if reward is None or not math.isfinite(reward):
            raise EnvironmentFault(f"{self.task.name}: {end['error'] or f'its reward is {reward}'}")
        said = next((end["metrics"][name] for name in SUCCESS if name in end["metrics"]), None)
        success = reward >= self._threshold if said is None else said >= 0.5
        return StepResult(self._seen, float(reward), True, bool(success), {"metrics": dict(end["metrics"])})
