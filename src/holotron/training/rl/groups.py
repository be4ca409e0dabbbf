"""What is learnt from a group: each episode's value less the group's mean. The value is 1 for a success and 0 for
anything else, or the episode's reward (`tasks.learn_from`).

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

from holotron.training.rl.recipe import LearnFrom
from holotron.training.rl.record import Play, Rollout
from holotron.training.rl.tasks import Drawn


class Verdict(StrEnum):
    KEPT = "kept"
    REPLAYED = "replayed"  # kept, with an old success in it
    SOLVED = "solved"  # all succeeded: dropped
    FAILED = "failed"  # all failed: dropped
    EQUAL = "equal"  # some succeeded and some did not, for the same reward: dropped
    SPOILED = "spoiled"  # fewer than two episodes came through: dropped


@dataclass(frozen=True, slots=True)
class Group:
    """Episodes of one task and seed, to learn from."""

    drawn: Drawn
    rollouts: tuple[Rollout, ...]
    learn_from: LearnFrom = "success"

    @property
    def advantages(self) -> list[float]:
        values = [rollout.value(self.learn_from) for rollout in self.rollouts]
        mean = sum(values) / len(values)
        return [value - mean for value in values]

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


def helpless(rollouts: Sequence[Rollout], learn_from: LearnFrom = "success") -> bool:
    """All failed and none did better than another: only an earlier success could teach something."""
    return len(rollouts) >= 2 and not any(rollout.success for rollout in rollouts) and _equal(rollouts, learn_from)


def judge(
    drawn: Drawn, rollouts: Sequence[Rollout], success: Rollout | None, learn_from: LearnFrom = "success"
) -> tuple[Verdict, Group | None]:
    """A finished group, and an earlier success of its task if there is one and the group is `helpless`."""
    if len(rollouts) < 2:
        return Verdict.SPOILED, None
    if not _equal(rollouts, learn_from):
        return Verdict.KEPT, Group(drawn, tuple(rollouts), learn_from)
    wins = sum(rollout.success for rollout in rollouts)
    if wins:
        return Verdict.SOLVED if wins == len(rollouts) else Verdict.EQUAL, None
    if success is None or _equal((success, *rollouts[1:]), learn_from):
        return Verdict.FAILED, None
    return Verdict.REPLAYED, Group(drawn, (success, *rollouts[1:]), learn_from)


def _equal(rollouts: Sequence[Rollout], learn_from: LearnFrom) -> bool:
    return len({rollout.value(learn_from) for rollout in rollouts}) == 1
