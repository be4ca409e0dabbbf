"""The solver as a policy: demonstrations, labels for a learner's states, a ceiling to compare with.

To label states that somebody else reached, start a session and call `act` on every observation of the episode, whoever
chooses the actions: the session looks at the page and keeps its small memory up to date, but does nothing itself.
"""

from __future__ import annotations

from typing import Any, cast

from holotron.agent.policies.base import GaveUp
from holotron.envs.base import Environment
from holotron.errors import ConfigError, InputError, PolicyError
from holotron.suites.miniwob_solver.page import Evaluates, read_page
from holotron.suites.miniwob_solver.registry import Memory, solve, solver_for
from holotron.types import Answer, Completion, Observation, Reply, Task


class SolverPolicy:
    name = "miniwob-solver"

    def describe(self) -> dict[str, Any]:
        return {"policy": self.name}

    async def start(self, task: Task, environment: Environment | None = None) -> SolverSession:
        if environment is None:
            raise ConfigError("the scripted solver reads the page: it cannot answer about a picture alone")
        return SolverSession(environment)

    async def close(self) -> None:
        pass


class SolverSession:
    """One episode."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._memory: Memory = {}

    async def act(self, observation: Observation, *, feedback: str = "", must_answer: bool = False) -> Reply:
        if must_answer:
            return Reply(Completion(text=""), action=Answer(""))
        task = self._environment.task
        try:
            question = solver_for(task.name).question
            page = await read_page(cast(Evaluates, self._environment), observation, question)
            action = solve(task.name, task.goal, page, self._memory)
        except (InputError, PolicyError) as error:  # no solver, or at a loss: nothing is broken
            raise GaveUp(str(error)) from error
        return Reply(Completion(text=""), action=action)

    async def close(self) -> None:
        pass
