"""What a run has done, exactly: episodes, tokens, groups, seconds. Survives a resume."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from holotron.training.rl.groups import Verdict
from holotron.training.rl.record import SampledTurn
from holotron.types import Outcome, Trajectory


@dataclass
class Counts:
    episodes: int = 0  # that came to an end of their own
    successes: int = 0
    rewards: float = 0.0  # of these episodes, together
    steps: int = 0  # replies
    prompt_tokens: int = 0  # put into sessions: text and pictures, each once
    sampled_tokens: int = 0
    cached_tokens: int = 0  # read by the engine from what it remembered instead of being computed
    cut: int = 0  # episodes
    too_long: int = 0  # episodes that no forward pass can hold: played, but not learnt from
    spoiled: int = 0  # episodes, by the environment, three times over
    retries: int = 0
    forks: int = 0  # episodes that began as a fork of their group's first session
    policy_seconds: float = 0.0  # of all episodes together, waiting for replies
    environment_seconds: float = 0.0  # ... and for the environment
    groups: Counter[str] = field(default_factory=Counter)  # by `Verdict`
    staleness: Counter[int] = field(default_factory=Counter)  # learnt tokens by how many updates old their weights were

    def add(self, more: Counts) -> None:
        """What others have counted."""
        for name, value in vars(more).items():
            if isinstance(value, Counter):
                getattr(self, name).update(value)
            else:
                setattr(self, name, getattr(self, name) + value)

    def taken(self) -> Counts:
        """All of it, which begins anew."""
        mine, fresh = Counts(**vars(self)), Counts()
        for name, value in vars(fresh).items():
            setattr(self, name, value)
        return mine

    def episode(self, trajectory: Trajectory, logs: Sequence[Sequence[SampledTurn]]) -> None:
        self.episodes += 1
        self.successes += trajectory.outcome is Outcome.SUCCESS
        self.rewards += trajectory.reward
        self.steps += len(trajectory.steps)
        self.policy_seconds += sum(step.policy_seconds for step in trajectory.steps)
        self.environment_seconds += sum(step.environment_seconds for step in trajectory.steps)
        for turn in (turn for turns in logs for turn in turns):
            self.prompt_tokens += len(turn.prompt.ids)
            self.sampled_tokens += len(turn.result.tokens)
            self.cached_tokens += turn.result.cached_tokens

    @property
    def kept(self) -> int:
        return self.groups[Verdict.KEPT] + self.groups[Verdict.REPLAYED]

    @property
    def dropped(self) -> int:
        """Groups that taught nothing, or never came together."""
        return self.groups.total() - self.kept

    def state(self) -> dict[str, Any]:
        values = {name: value for name, value in vars(self).items() if isinstance(value, int | float)}
        return values | {"groups": dict(self.groups), "staleness": {str(k): v for k, v in self.staleness.items()}}

    @classmethod
    def load(cls, state: dict[str, Any]) -> Counts:
        rest = {name: value for name, value in state.items() if name not in ("groups", "staleness")}
        return cls(
            **rest,
            groups=Counter(state["groups"]),
            staleness=Counter({int(k): v for k, v in state["staleness"].items()}),
        )
