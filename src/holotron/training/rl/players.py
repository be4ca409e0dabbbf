"""Who plays for the trainer: an engine in its own process (`PlayersHere`), or several, each in a process of its own on
this machine or another (`spread.PlayersElsewhere`, which are `PlayersHere` over there)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Protocol

from torch import Tensor

from holotron.engine import Result
from holotron.engine.api import StepReport
from holotron.engine.engine import Engine
from holotron.model.model import Holotron
from holotron.model.processor import Processor, Prompt
from holotron.suites.base import Suite
from holotron.training.rl.counts import Counts
from holotron.training.rl.desk import GroupSource
from holotron.training.rl.player import Player
from holotron.training.rl.recipe import RlRecipe
from holotron.training.rl.rollouts import OnEpisode, Rollouts, Score
from holotron.training.rl.serving import engine_config
from holotron.training.rl.weights import Probe, settled
from holotron.types import Task

Answer = Callable[[], Result | None]  # waits; None if other weights had a part in it, or whoever was asked is gone


class Players(Protocol):
    """For the trainer's thread. Inside `with`, groups come to the desk all the time."""

    def __enter__(self) -> Players: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...

    def publish(self, tensors: Mapping[str, Tensor], update: int) -> None:
        """The weights after this update. When it returns every engine has them."""

    def ask(self, prompt: Prompt) -> Answer:
        """Let an engine continue this prompt, by the weights of right now."""

    def evaluate(self, tasks: Sequence[Task]) -> dict[str, list[Score]]:
        """Play these greedily, before anything else, and wait. By task; what the environment spoiled is left out."""

    def busy(self) -> float:
        """Seconds that an engine has spent in iterations so far; the mean, where there are several."""


class PlayersHere:
    def __init__(
        self,
        recipe: RlRecipe,
        suite: Suite,
        model: Holotron,
        processor: Processor,
        desk: GroupSource,
        counts: Counts,
        on_episode: OnEpisode | None = None,
    ) -> None:
        """`model`: for the engine alone."""
        self._recipe = recipe
        self._busy = 0.0
        self.engine = Engine(model, processor, engine_config(recipe), on_step=self._heard)
        self.player = Player(recipe, self.engine, suite)
        part = recipe.rollouts
        self.rollouts = Rollouts(
            self.player,
            desk,
            counts,
            sessions=part.sessions,
            group=part.group,
            side_by_side=part.side_by_side or part.group,
            straggler=part.straggler,
            longest=recipe.update.tokens,
            on_episode=on_episode,
        )

    def __enter__(self) -> PlayersHere:
        self.rollouts.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self.rollouts.__exit__(kind, error, at)
        finally:
            self.engine.close()

    def publish(self, tensors: Mapping[str, Tensor], update: int) -> None:
        device = self.engine.model.device
        settled(device)
        version = self.engine.update_weights(tensors, self._recipe.rollouts.on_update)
        settled(device)  # they must have been read before the next step writes
        # Version v of the engine is the weights after update number first + v, as they come one by one.
        self.player.first_version = update - version

    def ask(self, prompt: Prompt) -> Answer:
        return Probe.start(self.engine, prompt, self._recipe.agent.temperature).finish

    def evaluate(self, tasks: Sequence[Task]) -> dict[str, list[Score]]:
        return self.rollouts.evaluate(tasks)

    def busy(self) -> float:
        return self._busy

    def _heard(self, report: StepReport) -> None:
        self._busy += report.seconds
