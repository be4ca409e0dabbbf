"""What every training run does, whatever it learns from: load, resume, update, judge, save, export.

    class Trainer(TrainingLoop[Recipe]):
        def update(self, lr): ...            # one step of the optimiser
        def judge(self): ...                 # figures of the policy as it is now

    Trainer(recipe, Path("runs/mini"), where).run()

A folder holds one run of one recipe:

    recipe.json  checkpoints/  metrics.jsonl  tensorboard/  model/  (adapter/)

Run again on the same folder, it continues from the last checkpoint. Supervised fine-tuning is `trainer`, reinforcement
learning `rl.trainer`; what is written there is what is different about them.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import ValidationError
from rich.console import Console

from holotron.agent.profiles import Profile
from holotron.errors import ConfigError
from holotron.model.processor import Processor
from holotron.storage.files import replace_file
from holotron.training import lora
from holotron.training.checkpoint import Checkpoints, TrainingProgress
from holotron.training.curves import Curves
from holotron.training.distributed import Ranks, shard
from holotron.training.export import export
from holotron.training.learner import Learner
from holotron.training.loading import load_learner
from holotron.training.optimiser import Optimiser, learning_rate
from holotron.training.recipe import CommonRecipe

R = TypeVar("R", bound=CommonRecipe)


class TrainingLoop(ABC, Generic[R]):
    unit = "step"  # what people call one update of this kind of training
    judged_first = False  # before the first update too

    def __init__(self, recipe: R, out: Path, where: Ranks, console: Console | None = None) -> None:
        claim_folder(recipe, out, where)
        self.recipe = recipe
        self.out = out
        self.where = where
        self.learner, self.processor = self.load()
        self.adapter = lora.add(self.learner, recipe.lora) if recipe.lora else None
        shard(self.learner, where)
        self.optimiser = Optimiser(self.learner.named_parameters(), recipe.optimiser)
        self.checkpoints = Checkpoints(out / "checkpoints", recipe.save.keep, where)
        self.progress = TrainingProgress()
        self._saved_at = -1
        if (latest := self.checkpoints.latest()) is not None:
            self.progress = self.checkpoints.load(latest, self.optimiser)
            self._saved_at = self.progress.step
        self.curves = Curves(
            out if where.first else out / f"rank-{where.rank}",
            resume_at=self.progress.step,
            console=console if where.first else Console(quiet=True),
        )
        self._figures: dict[str, float] = {}  # of the last evaluation
        self._judged_at = -1
        self._started = time.monotonic() - self.progress.seconds

    # ---------------------------------------------------------------------------- what a kind of training has to say

    @abstractmethod
    def update(self, lr: float) -> None:
        """One step of the optimiser, counted in `progress` and told to the curves."""

    @abstractmethod
    def judge(self) -> dict[str, float]:
        """Figures of the policy as it is now; empty if the recipe asks for none."""

    @abstractmethod
    def show(self, figures: Mapping[str, float]) -> None:
        """Tell a person what an evaluation gave."""

    @abstractmethod
    def remember(self) -> None:
        """Put into `progress` what a resumed run needs to know."""

    @abstractmethod
    def story(self) -> list[str]:
        """How the run went, in paragraphs for the model's card."""

    @abstractmethod
    def profile(self) -> Profile | None:
        """What the exported model is to say of itself."""

    @abstractmethod
    def closing(self) -> str:
        """The run in one line, at its end."""

    def load(self) -> tuple[Learner, Processor]:
        return load_learner(self.recipe, self.where.device)

    def particulars(self) -> list[str]:
        """What else the first line says of this run."""
        return []

    @contextmanager
    def running(self) -> Iterator[None]:
        """Around all updates: what runs beside them."""
        yield

    # ------------------------------------------------------------------------------------------------------- the loop

    def run(self) -> dict[str, float]:
        """Train to the end of the schedule. Returns the figures of the last evaluation."""
        self.curves.say(self._opening())
        try:
            with self.running():
                self._updates()
            export(self, self.story(), self._figures, self.profile())
            self.curves.say(self.closing())
        finally:
            self.curves.close()
        return self._figures

    def _updates(self) -> None:
        recipe, progress = self.recipe, self.progress
        if self.judged_first and progress.step == 0:
            self.evaluate()
        last_evaluation = last_save = self.seconds()
        done = self.done()
        while done < 1.0:
            self.update(learning_rate(recipe.optimiser.lr, recipe.schedule, progress.step, done))
            done = self.done()  # not after saving, by when the clock may have run out: what is saved would not know it
            if self._due(recipe.evaluate.every_steps, recipe.evaluate.every_seconds, last_evaluation):
                self.evaluate()
                last_evaluation = self.seconds()
            minutes = recipe.save.every_minutes
            if self._due(recipe.save.every_steps, None if minutes is None else 60 * minutes, last_save):
                self.save()
                last_save = self.seconds()
        if self._judged_at != progress.step:
            self.evaluate()
        if self._saved_at != progress.step:  # never the same one twice: the old goes before the new comes
            self.save()
        progress.seconds = self.seconds()

    def evaluate(self) -> dict[str, float]:
        figures = self.judge()
        self._figures, self._judged_at = figures, self.progress.step
        if figures:
            self.curves.add(self.progress.step, figures)
            self.curves.flush()
            self.show(figures)
        return figures

    def save(self) -> None:
        self.progress.seconds = self.seconds()
        self.remember()
        self.checkpoints.save(self.progress, self.optimiser)
        self._saved_at = self.progress.step
        self.curves.flush()

    # ------------------------------------------------------------------------------------------------------ the clock

    def seconds(self) -> float:
        """Spent on this run so far, by all processes that worked on it."""
        return time.monotonic() - self._started

    def done(self) -> float:
        """The part of the run that is over; 1 means stop."""
        schedule = self.recipe.schedule
        parts = [0.0]
        if schedule.steps is not None:
            parts.append(self.progress.step / schedule.steps)
        if schedule.minutes is not None:  # by the first rank's clock, in millionths
            parts.append(self.where.gather(int(1e6 * self.seconds() / (60 * schedule.minutes)))[0] / 1e6)
        return min(1.0, max(parts))

    def _due(self, steps: int | None, seconds: float | None, last: float) -> bool:
        by_steps = steps is not None and self.progress.step % steps == 0
        if seconds is None:
            return by_steps
        return by_steps or self.where.agree(self.seconds() - last >= seconds)

    def _opening(self) -> str:
        learning = sum(p.numel() for p in self.learner.parameters() if p.requires_grad)
        step = self.progress.step
        start = f"resumed at {self.unit} {step:,}" if step else "from the start"
        who = f"{self.recipe.name}: {learning:,} parameters learn in {self.learner.model.dtype} on {self.where.device}"
        return ", ".join([who, *self.particulars(), start])


def claim_folder(recipe: CommonRecipe, out: Path, where: Ranks) -> None:
    """A folder belongs to one recipe; see `same_run`. Anything else would break the curve."""
    if where.first:
        path = out / "recipe.json"
        if path.exists():
            try:
                before = type(recipe).model_validate_json(path.read_text())
            except ValidationError:  # of another kind of training, or of a version that knew other settings
                before = None
            if before is None or not before.same_run(recipe):
                raise ConfigError(f"{out} holds a run of another recipe ({path}); choose another folder")
        else:
            out.mkdir(parents=True, exist_ok=True)
            replace_file(path, (recipe.model_dump_json(indent=2) + "\n").encode())
    where.barrier()
