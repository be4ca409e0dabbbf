"""Who plays what: the suite's environments and limits, and the engine as a policy for members of groups and for
evaluation. The only part of a rollout that knows both."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from torch import Tensor

from holotron.agent.loop import Limits
from holotron.agent.policies.base import Policy
from holotron.agent.policies.engine import EnginePolicy
from holotron.agent.policies.registry import local_profile
from holotron.agent.profiles import Profile
from holotron.engine.api import SamplingParams
from holotron.engine.engine import Engine
from holotron.envs.base import EnvironmentPool
from holotron.errors import ConfigError
from holotron.model.processor import Deltas
from holotron.suites.base import Suite, find_suite, parse_seeds, refuse_held_out
from holotron.training.rl.policy import RolloutPolicy, Trunk
from holotron.training.rl.recipe import AgentPart, RlRecipe
from holotron.training.rl.record import Play, Rollout, play_of
from holotron.types import Outcome, Task, Trajectory


def open_suite(
    recipe: RlRecipe, *, suite: str | None = None, names: str | tuple[str, ...] | None = None, seeds: str = "0:1"
) -> Suite:
    """The suite a recipe names, as its policy wants to be shown it. One seed of each task is enough: seeds are drawn as
    groups are."""
    part = recipe.tasks
    found = find_suite(
        suite or part.suite,
        tasks=part.names if names is None else names,
        seeds=parse_seeds(seeds),
        view=part.view.view(),
        declared=profile_of(recipe.model.source, recipe.agent).views,
    )
    return found.limited(part.steps, part.seconds)


def open_suites(recipe: RlRecipe) -> tuple[Suite, Suite | None]:
    """What a run plays to learn, and to be judged if it is to be. Both must be able to say what succeeded."""
    held_out, part = None, recipe.evaluate
    suite = _scored(open_suite(recipe))
    refuse_held_out("tasks.suite", suite)
    if part.every_steps is not None or part.every_seconds is not None:
        held_out = _scored(open_suite(recipe, suite=part.suite, names=part.names, seeds=part.seeds))
    return suite, held_out


def _scored(suite: Suite) -> Suite:
    if not suite.scored:
        raise ConfigError(
            f"nobody can say whether an episode of the suite {suite.name!r} succeeded, so reinforcement learning has "
            "nothing to learn from: use tasks with a checker"
        )
    return suite


def profile_of(source: str, wishes: AgentPart) -> Profile:
    """What a checkpoint speaks, with the recipe's wishes on top."""
    known = local_profile(source)
    return known.with_wishes(dialect=wishes.dialect, frame=wishes.frame, history=wishes.history)


class Player:
    def __init__(self, recipe: RlRecipe, engine: Engine, suite: Suite) -> None:
        self._recipe = recipe
        self._engine = engine
        self._suite = suite
        self.first_version = 0  # the number of updates behind the weights that the engine calls version 0
        self._tasks = {task.name: task for task in suite.tasks}
        agent = recipe.agent
        self._profile = profile_of(recipe.model.source, agent)
        self._options: dict[str, Any] = {
            "name": recipe.name,
            "constrained": agent.constrained,
            "thinking": agent.thinking,
            "deltas": None if self._profile.deltas is None else Deltas(self._profile.deltas),
        }
        self._sampling = SamplingParams(
            max_tokens=agent.max_tokens, temperature=agent.temperature, seed=0, policy_logprobs=True
        )

    @property
    def names(self) -> list[str]:
        return list(self._tasks)

    @property
    def limits(self) -> Limits:
        return self._suite.limits

    def open_pool(self, sessions: int) -> EnvironmentPool[Any]:
        return self._suite.open(sessions)

    def task(self, name: str, seed: int) -> Task:
        return replace(self._tasks[name], seed=seed)

    def trunk(self) -> Trunk:
        return Trunk(self._engine)

    def member(self, trunk: Trunk, group: int, member: int) -> RolloutPolicy:
        return RolloutPolicy(
            self._engine,
            self._profile.make_dialect(self._suite.actions),
            self._profile.make_history(),
            sampling=self._sampling,
            trunk=trunk,
            seed=(self._recipe.seed, 11, group, member),
            **self._options,
        )

    def judge(self) -> Policy:
        """The policy as it is measured: greedy."""
        return EnginePolicy(
            self._engine,
            self._profile.make_dialect(self._suite.actions),
            self._profile.make_history(),
            sampling=replace(self._sampling, temperature=0.0),
            **self._options,
        )

    def rollout(self, policy: RolloutPolicy, trajectory: Trajectory) -> Rollout:
        """A finished episode, as it is learnt from."""
        if not math.isfinite(trajectory.reward):
            raise ConfigError(f"{trajectory.id} ended with the reward {trajectory.reward}; a reward is a finite number")
        plays: list[Play] = []
        tiles: dict[bytes, Tensor] = {}
        for turns in policy.logs:
            if turns:  # the last session may have been opened without a reply
                play, shown = play_of(turns, self.first_version, self._engine.compile)
                plays.append(play)
                tiles |= shown
        return Rollout(
            trajectory.task,
            trajectory.outcome is Outcome.SUCCESS,
            trajectory.outcome,
            tuple(plays),
            tiles,
            steps=len(trajectory.steps),
            seconds=trajectory.seconds,
            reward=trajectory.reward,
        )
