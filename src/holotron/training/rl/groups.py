"""What is learnt from a group: each episode's reward less the group's mean.

The mean is the whole baseline. Dividing by the group's standard deviation as well would weigh tasks by how rarely they
are solved, which is a choice of tasks in disguise; tasks are chosen in `tasks`, openly.

A group in which all episodes did equally well teaches nothing and is dropped. If all failed and an earlier success of
the task is at hand, it takes the place of one failure: the group then says "rather this than that", and the importance
ratio says how far the policy has moved since.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from holotron.training.rl.record import Play, Rollout
from holotron.training.rl.tasks import Drawn


class Verdict(StrEnum):
    KEPT = "kept"
    REPLAYED = "replayed"  # kept, with an old success in it
    SOLVED = "solved"  # all succeeded: dropped
    FAILED = "failed"  # all failed: dropped
    SPOILED = "spoiled"  # fewer than two episodes came through: dropped


@dataclass(frozen=True, slots=True)
class Group:
    """Episodes of one task and seed, to learn from."""

    drawn: Drawn
    rollouts: tuple[Rollout, ...]

    @property
    def advantages(self) -> list[float]:
        rewards = [float(rollout.success) for rollout in self.rollouts]
        mean = sum(rewards) / len(rewards)
        return [reward - mean for reward in rewards]

    @property
    def oldest(self) -> int:
        """The oldest weights behind it; an old success is old on purpose and does not count."""
        return min((rollout.oldest for rollout in self.rollouts if not rollout.replayed), default=0)

    def plays(self) -> list[tuple[Rollout, Play, float]]:
        """Every sequence with its episode and its advantage."""
        return [
            (rollout, play, advantage)
            for rollout, advantage in zip(self.rollouts, self.advantages, strict=True)
            for play in rollout.plays
            if len(play.logprobs_l)
        ]


def judge(drawn: Drawn, rollouts: Sequence[Rollout], success: Rollout | None) -> tuple[Verdict, Group | None]:
    """A finished group, and an earlier success of its task if there is one."""
    if len(rollouts) < 2:
        return Verdict.SPOILED, None
    wins = sum(rollout.success for rollout in rollouts)
    if wins == len(rollouts):
        return Verdict.SOLVED, None
    if wins:
        return Verdict.KEPT, Group(drawn, tuple(rollouts))
    if success is None:
        return Verdict.FAILED, None
    return Verdict.REPLAYED, Group(drawn, (success, *rollouts[1:]))
