"""A suite of ours as a verifiers environment: what exported packages are made of. Needs verifiers (0.4 or later).

    class SitesConfig(SuiteConfig):
        suite: str = "sites"

    class SitesTaskset(vf.Taskset[SuiteTask, SitesConfig]):
        def load(self): return load_tasks(self.config)

    __all__ = ["SitesTaskset", "SuiteEnv", "DirectHarness"]

An episode is played by our own loop, so limits, feedback and verdicts are those of `holotron eval`: each of its
requests is one turn of verifiers' interaction (text and a screenshot as a data URL), and the dialect reads the model's
reply. The reward is the environment's; an episode that the environment spoiled is an error and no reward.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import verifiers.v1 as vf
from verifiers.v1.runtimes import SubprocessConfig

from holotron.agent.dialects import make_dialect
from holotron.agent.dialects.base import Dialect, Output
from holotron.agent.history import Append
from holotron.agent.loop import Episode
from holotron.agent.messages import Message, to_openai
from holotron.agent.policies.base import GaveUp, PolicySession
from holotron.agent.policies.conversation import Conversation, new_messages
from holotron.envs.base import Environment, EnvironmentPool
from holotron.suites.base import Suite, find_suite, parse_seeds
from holotron.types import Completion, Outcome, Task


class SuiteConfig(vf.TasksetConfig):
    suite: str = ""
    """A suite of holotron, as `holotron eval` takes it."""
    tasks: str = "all"
    """Names with commas, or all."""
    seeds: str = "0:1"
    """A:B (B not included), or one number."""
    dialect: str = "holotron"
    """In which words the model is asked and answers: holotron, tools, compact ..."""


class SuiteData(vf.TaskData):
    suite: str
    tasks: str
    task: str
    seed: int
    dialect: str


class SuiteTask(vf.Task[SuiteData]):
    pass


def load_tasks(config: SuiteConfig) -> Iterator[SuiteTask]:
    suite = find_suite(config.suite, tasks=config.tasks, seeds=parse_seeds(config.seeds))
    for task in suite.tasks:
        data = SuiteData(
            id=task.id, name=task.id, prompt=None, suite=config.suite, tasks=config.tasks, task=task.name,
            seed=task.seed, dialect=config.dialect,
        )  # fmt: skip
        yield SuiteTask(data, config.task)


class SuiteEnvConfig(vf.EnvConfig):
    player: vf.AgentConfig = vf.AgentConfig(runtime=SubprocessConfig())
    """Who plays. Its harness only carries the conversation, so it runs here, not in a sandbox."""
    sessions: int = 4
    """Environments open at once; further episodes wait."""


class SuiteEnv(vf.Env[SuiteEnvConfig]):
    def __init__(self, config: SuiteEnvConfig) -> None:
        super().__init__(config)
        self._pools: dict[tuple[str, str], tuple[Suite, EnvironmentPool[Any]]] = {}

    async def stop(self) -> None:
        for _, pool in self._pools.values():
            await pool.close()
        self._pools.clear()

    async def run(self, task: SuiteTask, agents: Any) -> None:
        data = task.data
        suite, pool = self._open(data)
        (chosen,) = find_suite(data.suite, tasks=[data.task], seeds=range(data.seed, data.seed + 1)).tasks
        environment = await pool.acquire()
        broken = True
        try:
            async with agents.player.interaction(task) as interaction:
                dialect = make_dialect(data.dialect, actions=suite.actions)
                trajectory = await Episode(
                    environment, InteractionPolicy(interaction, dialect), chosen, limits=suite.limits
                ).run()
                trace = interaction.trace
                trace.info["outcome"] = str(trajectory.outcome)
                trace.info["goal"] = trajectory.task.goal
                if trajectory.steps and trajectory.steps[-1].info:
                    trace.info["last_step"] = dict(trajectory.steps[-1].info)
            broken = trajectory.outcome is Outcome.ENVIRONMENT_ERROR
        finally:
            await pool.release(environment, broken=broken)
        if trajectory.outcome in (Outcome.ENVIRONMENT_ERROR, Outcome.POLICY_ERROR):
            raise RuntimeError(f"{trajectory.outcome}: {trajectory.error}")
        trace.record_reward("reward", float(trajectory.reward))
        trace.record_metric("steps", float(len(trajectory.steps)))
        if trajectory.outcome is not Outcome.UNSCORED:
            trace.record_metric("success", float(trajectory.outcome is Outcome.SUCCESS))

    def _open(self, data: SuiteData) -> tuple[Suite, EnvironmentPool[Any]]:
        key = (data.suite, data.tasks)
        if key not in self._pools:
            suite = find_suite(data.suite, tasks=data.tasks)
            self._pools[key] = (suite, suite.open(self.config.sessions))
        return self._pools[key]


class InteractionPolicy:
    """The model at the other end of an interaction, as one of our policies."""

    name = "verifiers"

    def __init__(self, interaction: Any, dialect: Dialect) -> None:
        self._interaction = interaction
        self._dialect = dialect

    def describe(self) -> dict[str, Any]:
        return {"policy": self.name, "dialect": self._dialect.describe()}

    async def start(self, task: Task, environment: Environment | None = None) -> PolicySession:
        return Conversation(task, self._dialect, Append(), InteractionChat(self._interaction))

    async def close(self) -> None:
        pass


class InteractionChat:
    """Each request of an append-only history extends the one before by the reply and what is new: the next turn."""

    def __init__(self, interaction: Any) -> None:
        self._interaction = interaction
        self._known: Sequence[Message] = ()

    async def complete(self, messages: Sequence[Message], output: Output) -> Completion:
        new = new_messages(self._known, messages) if self._known else messages
        assert new is not None, "an append-only history was rewritten"
        self._known = messages
        segment = await self._interaction.turn([to_openai(message) for message in new])
        if segment.terminated:
            raise GaveUp("the run has stopped the model")
        return Completion(segment.last_reply)

    async def close(self) -> None:
        pass
