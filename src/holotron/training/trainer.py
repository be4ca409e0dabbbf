"""The loop: take a batch, learn from it, look, save. One screen of it is `Trainer.run`.

    with ranks() as where:
        Trainer(recipe, Path("runs/mini"), where).run()

Run again on the same folder, it continues from the last checkpoint, and its curve is the one it would have had.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from torch import Tensor

from holotron.errors import ConfigError
from holotron.training import lora
from holotron.training.augment import augment
from holotron.training.balance import balance
from holotron.training.batches import Batch, Batches
from holotron.training.checkpoint import Checkpoints, Progress
from holotron.training.curves import Curves
from holotron.training.distributed import Ranks, average_unsharded, shard
from holotron.training.evaluation import Suite, make_suite
from holotron.training.export import export
from holotron.training.learner import LOSSES
from holotron.training.loading import load_learner
from holotron.training.mixture import CHUNK, sample_stream
from holotron.training.optimiser import Optimiser, learning_rate
from holotron.training.recipe import Recipe
from holotron.training.sources import open_source

_LOG_SECONDS = 20.0
_FETCH_STEPS = 10  # figures wait on the device this long, so that steps do not wait for them


class Trainer:
    def __init__(self, recipe: Recipe, out: Path, where: Ranks, console: Console | None = None) -> None:
        self.recipe = recipe
        self.out = out
        self.where = where
        _same_recipe(recipe, out, where)
        where.barrier()
        self.learner, self.processor = load_learner(recipe, where.device)
        self.adapter = lora.add(self.learner, recipe.lora) if recipe.lora else None
        shard(self.learner, where)
        self.optimiser = Optimiser(self.learner.named_parameters(), recipe.optimiser)
        self.batches = self._open_batches()
        self.suites: list[Suite] = [
            make_suite(e, self.processor, self.learner, recipe.batch.workers, recipe.deltas)
            for e in recipe.evaluate.suites
        ]
        self.checkpoints = Checkpoints(out / "checkpoints", recipe.save.keep, where)
        self.progress = Progress(positions=[0] * where.count)
        if (latest := self.checkpoints.latest()) is not None:
            self.progress = self.checkpoints.load(latest, self.optimiser)
            self.batches.seek(self.progress.positions[where.rank])
        quiet = Console(quiet=True)
        self.curves = Curves(
            out if where.first else out / f"rank-{where.rank}",
            resume_at=self.progress.step,
            console=console if where.first else quiet,
        )
        self._figures: dict[str, float] = {}  # of the last evaluation
        self._evaluated_at = -1
        self._pending: list[tuple[int, Tensor, float]] = []  # figures still on the device
        self._spoke = self.progress.seconds
        self._started = time.monotonic() - self._spoke

    # ------------------------------------------------------------------------------------------------------- the loop

    def run(self) -> dict[str, float]:
        """Train to the end of the schedule. Returns the figures of the last evaluation."""
        recipe, progress = self.recipe, self.progress
        self.curves.say(self._opening())
        weights = torch.tensor([getattr(recipe.loss, name) for name in LOSSES], device=self.where.device)
        last_eval = last_save = self._seconds()
        while (done := self._done()) < 1.0:
            lr = learning_rate(recipe.optimiser.lr, recipe.schedule, progress.step, done)
            self._record(self.step(weights, lr), lr)
            every = recipe.evaluate
            if self._due(every.every_steps, every.every_seconds, last_eval):
                self.evaluate()
                last_eval = self._seconds()
            if self._due(recipe.save.every_steps, _seconds(recipe.save.every_minutes), last_save):
                self.save()
                last_save = self._seconds()
        figures = self._figures if self._evaluated_at == progress.step else self.evaluate()
        self.save()
        export(self, figures)
        self.curves.say(f"done: {progress.step:,} steps, {progress.tokens:,} tokens, {progress.pictures:,} pictures")
        self.curves.close()
        return figures

    def step(self, weights: Tensor, lr: float) -> Tensor:
        """One update. Returns, on the device: the mean of every loss, and the gradient's norm."""
        progress, where = self.progress, self.where
        torch.manual_seed(_seed(self.recipe.seed, where.rank, progress.step, 4))  # dropout
        light = torch.Generator().manual_seed(_seed(self.recipe.seed, where.rank, progress.step, 5))
        batches = self.batches.step(progress.step)
        counts = where.sum(torch.stack([self.learner.counts(batch) for batch in batches]).sum(0)).clamp(min=1)
        totals = torch.zeros_like(counts)
        for batch in batches:
            pixels = None
            if len(batch.tiles_n3HW):
                pixels = self.learner.pixels(augment(batch.tiles_n3HW, self.recipe.augment, light))
                if self.recipe.model.balance and progress.step == 0 and batch is batches[0]:
                    balance(self.learner, self.optimiser, pixels, where)
            means = self.learner(batch, pixels) / counts
            # Shards average gradients over the ranks; the counts are of all ranks, so it is the sum that is wanted.
            ((weights * means).sum() * where.count).backward()
            totals += means.detach()
        average_unsharded(self.learner, where)
        norm = self.optimiser.step(lr)
        self._count(batches)
        return torch.cat([where.sum(totals), norm[None]])

    def evaluate(self) -> dict[str, float]:
        figures: dict[str, float] = {}
        for suite in self.suites:
            figures |= suite(self.learner)
        self._fetch()
        self._figures, self._evaluated_at = figures, self.progress.step
        if figures:
            self.curves.add(self.progress.step, figures)
            shown = {name: value for name, value in figures.items() if name.count("/") == 1}  # the rest are details
            self.curves.say("  ".join(f"[bold]{name} {value:.4f}[/bold]" for name, value in shown.items()))
        return figures

    def save(self) -> None:
        self._fetch()
        self.progress.seconds = self._seconds()
        self.progress.positions = self.where.gather(self.batches.position)
        self.checkpoints.save(self.progress, self.optimiser)

    # ------------------------------------------------------------------------------------------------------ its parts

    def _open_batches(self) -> Batches:
        recipe, where = self.recipe, self.where
        config = self.learner.model.config
        sources = [open_source(data, self.processor, config, recipe.deltas) for data in recipe.data]
        weights = [data.weight for data in recipe.data]
        return Batches(
            lambda start: sample_stream(
                sources,
                weights,
                seed=recipe.seed,
                start=where.rank + start * where.count,
                step=where.count,
                workers=recipe.batch.workers,
                chunk=CHUNK if recipe.batch.workers else 1,
                device=where.device,
            ),
            recipe.batch,
            config=config,
            device=where.device,
            seed=recipe.seed,
            rank=where.rank,
        )

    def _done(self) -> float:
        """The part of the run that is over; 1 means stop."""
        schedule = self.recipe.schedule
        parts = [0.0]
        if schedule.steps is not None:
            parts.append(self.progress.step / schedule.steps)
        if schedule.minutes is not None:
            thousandths = self.where.gather(int(1e6 * self._seconds() / (60 * schedule.minutes)))
            parts.append(thousandths[0] / 1e6)
        return min(1.0, max(parts))

    def _due(self, steps: int | None, seconds: float | None, last: float) -> bool:
        by_steps = steps is not None and self.progress.step % steps == 0
        if seconds is None:
            return by_steps
        return by_steps or self.where.agree(self._seconds() - last >= seconds)

    def _seconds(self) -> float:
        return time.monotonic() - self._started

    def _count(self, batches: list[Batch]) -> None:
        mine = [
            sum(batch.tokens for batch in batches),
            sum(len(batch.targets_l) for batch in batches),
            sum(len(batch.tiles_n3HW) for batch in batches),
            sum(batch.samples for batch in batches),
        ]
        if self.where.several:
            mine = self.where.sum(torch.tensor(mine, device=self.where.device)).tolist()
        p = self.progress
        p.step += 1
        p.tokens, p.learnt, p.pictures, p.samples = (
            a + b for a, b in zip((p.tokens, p.learnt, p.pictures, p.samples), mine, strict=True)
        )

    def _record(self, figures: Tensor, lr: float) -> None:
        self._pending.append((self.progress.step, figures, lr))
        if len(self._pending) >= _FETCH_STEPS:
            self._fetch()
        if self._seconds() - self._spoke >= _LOG_SECONDS:
            self._fetch(say=True)
            self._spoke = self._seconds()

    def _fetch(self, say: bool = False) -> None:
        values: dict[str, float] = {}
        for step, figures, lr in self._pending:
            *means, norm = figures.tolist()
            values = {"lr": lr, "gradient": norm}
            values |= {f"loss/{n}": v for n, v in zip(LOSSES, means, strict=True) if getattr(self.recipe.loss, n)}
            self.curves.add(step, values)
        self._pending.clear()
        p, seconds = self.progress, max(self._seconds(), 1e-9)
        if say and values:
            losses = "  ".join(f"{name[5:]} {value:.4f}" for name, value in values.items() if name.startswith("loss/"))
            rates = f"{p.tokens / seconds:,.0f} tok/s  {p.pictures / seconds:,.0f} pictures/s"
            self.curves.say(f"step {p.step:,}  {self._done():.0%}  {losses}  lr {values['lr']:.2e}  {rates}")
        self.curves.flush()

    def _opening(self) -> str:
        learning = sum(p.numel() for p in self.learner.parameters() if p.requires_grad)
        start = f"resumed at step {self.progress.step:,}" if self.progress.step else "from the start"
        model = self.learner.model
        return f"{self.recipe.name}: {learning:,} parameters learn in {model.dtype} on {self.where.device}, {start}"


def _seed(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)


def _seconds(minutes: float | None) -> float | None:
    return None if minutes is None else 60 * minutes


def _same_recipe(recipe: Recipe, out: Path, where: Ranks) -> None:
    """A folder belongs to one recipe. Its end may be moved; anything else would break the curve."""
    if not where.first:
        return
    path = out / "recipe.json"
    now = recipe.model_dump_json(indent=2)
    if path.exists():
        before = Recipe.model_validate_json(path.read_text())
        if before.model_copy(update={"schedule": recipe.schedule}) != recipe:
            raise ConfigError(f"{out} holds a run of another recipe ({path}); choose another folder")
    else:
        out.mkdir(parents=True, exist_ok=True)
        path.write_text(now + "\n")
