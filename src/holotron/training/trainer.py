"""Supervised fine-tuning: take a batch, learn from it. The loop around that is `loop.TrainingLoop`.

    with ranks() as where:
        Trainer(recipe, Path("runs/mini"), where).run()

Run again on the same folder, it continues from the last checkpoint, and its curve is the one it would have had.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.markup import escape
from torch import Tensor

from holotron.agent.profiles import FILE, Profile, read_profile
from holotron.model.loading import resolve
from holotron.model.processor import Processor
from holotron.training.augment import augment
from holotron.training.balance import balance
from holotron.training.batches import Batch, Batches
from holotron.training.distributed import Ranks, average_unsharded
from holotron.training.evaluation import Suite, make_suite
from holotron.training.lanes import Lanes, lane_count
from holotron.training.learner import LOSSES, Calls, Learner
from holotron.training.loading import load_learner
from holotron.training.loop import TrainingLoop
from holotron.training.mixture import CHUNK, sample_stream
from holotron.training.recipe import LossPart, Recipe
from holotron.training.sources import open_source

_LOG_SECONDS = 20.0
_FETCH_STEPS = 10  # figures wait on the device this long, so that steps do not wait for them


class Trainer(TrainingLoop[Recipe]):
    def __init__(self, recipe: Recipe, out: Path, where: Ranks, console: Console | None = None) -> None:
        super().__init__(recipe, out, where, console)
        self.weights = torch.tensor([getattr(recipe.loss, name) for name in LOSSES], device=where.device)
        if recipe.model.compile:
            self._compile()
        self.lanes = self._open_lanes()
        self.lanes.seek(self.progress.positions)
        self.suites: list[Suite] = [
            make_suite(e, self.processor, self.learner, recipe.batch.workers, recipe.deltas)
            for e in recipe.evaluate.suites
        ]
        self._pending: list[tuple[int, Tensor, float]] = []  # figures still on the device
        self._spoke = self.seconds()

    def load(self) -> tuple[Learner, Processor]:
        return load_learner(self.recipe, self.where.device, heads_for(self.recipe.loss))

    def _compile(self) -> None:
        from holotron.training.compiling import compile_parts  # takes torch's compiler along, which is seconds

        began = time.monotonic()
        why_not = "there are several ranks" if self.where.several else compile_parts(self.learner)
        took = f"in {time.monotonic() - began:.0f} s"
        self.curves.say(f"compiled {took}" if why_not is None else f"[yellow]not compiled: {escape(why_not)}[/yellow]")

    # -------------------------------------------------------------------------------------------------------- updates

    def update(self, lr: float) -> None:
        self._record(self.step(self.weights, lr), lr)

    def step(self, weights: Tensor, lr: float) -> Tensor:
        """One update. Returns, on the device: the mean of every loss, and the gradient's norm."""
        progress, where = self.progress, self.where
        passes = self.lanes.step(progress.step)
        batches = [batch for _, batch in passes]
        counts = where.sum(torch.stack([self.learner.counts(batch) for batch in batches]).sum(0)).clamp(min=1)
        totals = torch.zeros_like(counts)
        for (lane, batch), calls in zip(passes, self._calls(batches), strict=True):
            torch.manual_seed(_seed(self.recipe.seed, lane, progress.step, 4))  # dropout
            light = torch.Generator().manual_seed(_seed(self.recipe.seed, lane, progress.step, 5))
            pixels = None
            if len(batch.tiles_n3HW):
                pixels = self.learner.pixels(
                    augment(batch.tiles_n3HW, self.recipe.augment, light, self.learner.relight, batch.looks)
                )
            if self.recipe.model.balance and progress.step == 0 and batch is batches[0]:
                balance(self.learner, self.optimiser, pixels, where, batch.looks)
            means = self.learner(batch, pixels, calls) / counts
            # Shards average gradients over the ranks; the counts are of all ranks, so it is the sum that is wanted.
            ((weights * means).sum() * where.count).backward()
            totals += means.detach()
        average_unsharded(self.learner, where)
        norm = self.optimiser.step(lr)
        self._count(batches)
        return torch.cat([where.sum(totals), norm[None]])

    def _calls(self, batches: list[Batch]) -> list[Calls | None]:
        """Of the parts of a model in shards, in every pass: as many as the rank with the most to do has to make."""
        if not self.where.several:
            return [None] * len(batches)
        return [Calls.of(self.where.most(self.learner.calls(batch).numbers())) for batch in batches]

    def _open_lanes(self) -> Lanes:
        recipe, where = self.recipe, self.where
        config = self.learner.model.config
        sources = [open_source(data, self.processor, config, recipe.deltas) for data in recipe.data]
        weights = [data.weight for data in recipe.data]
        sizes = [source.size for source in sources]
        lanes = lane_count(recipe.batch.accumulate, where)
        known = None if None in sizes else -(-sum(size or 0 for size in sizes) // lanes) or None
        workers = recipe.batch.workers and max(1, recipe.batch.workers * where.count // lanes)  # of a rank's lanes

        def open_lane(lane: int) -> Batches:
            return Batches(
                lambda start: sample_stream(
                    sources,
                    weights,
                    seed=recipe.seed,
                    start=lane + start * lanes,
                    step=lanes,
                    workers=workers,
                    chunk=CHUNK if workers else 1,
                    device=where.device,
                ),
                recipe.batch,
                config=config,
                device=where.device,
                seed=recipe.seed,
                lane=lane,
                lanes=lanes,
                known=known,
            )

        return Lanes(open_lane, lanes, where)

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

    # -------------------------------------------------------------------------------------------- what is seen of them

    def _record(self, figures: Tensor, lr: float) -> None:
        self._pending.append((self.progress.step, figures, lr))
        if len(self._pending) >= _FETCH_STEPS:
            self._fetch()
        if self.seconds() - self._spoke >= _LOG_SECONDS:
            self._fetch(say=True)
            self._spoke = self.seconds()

    def _fetch(self, say: bool = False) -> None:
        values: dict[str, float] = {}
        for step, figures, lr in self._pending:
            *means, norm = figures.tolist()
            values = {"lr": lr, "gradient": norm}
            values |= {f"loss/{n}": v for n, v in zip(LOSSES, means, strict=True) if getattr(self.recipe.loss, n)}
            self.curves.add(step, values)
        self._pending.clear()
        p, seconds = self.progress, max(self.seconds(), 1e-9)
        if say and values:
            losses = "  ".join(f"{name[5:]} {value:.4f}" for name, value in values.items() if name.startswith("loss/"))
            rates = f"{p.tokens / seconds:,.0f} tok/s  {p.pictures / seconds:,.0f} pictures/s"
            self.curves.say(f"step {p.step:,}  {self.done():.0%}  {losses}  lr {values['lr']:.2e}  {rates}")
        self.curves.flush()

    def judge(self) -> dict[str, float]:
        figures: dict[str, float] = {}
        for suite in self.suites:
            figures |= suite(self.learner)
        self._fetch()
        return figures

    def show(self, figures: Mapping[str, float]) -> None:
        shown = {name: value for name, value in figures.items() if name.count("/") == 1}  # the rest are details
        self.curves.say("  ".join(f"[bold]{name} {value:.4f}[/bold]" for name, value in shown.items()))

    # -------------------------------------------------------------------------------------------------------- its end

    def particulars(self) -> list[str]:
        if not self.where.several:
            return []
        asked, made = self.recipe.batch.accumulate, self.lanes.count
        more = f" instead of {asked}" if made > asked else ""
        return [f"{self.where.count} ranks, {made} forward passes a step{more}"]

    def remember(self) -> None:
        self._fetch()
        self.progress.positions = self.lanes.positions()

    def story(self) -> list[str]:
        recipe, progress = self.recipe, self.progress
        done = (
            f"{'LoRA' if recipe.lora else 'Full'} fine-tuning, seed {recipe.seed}: {progress.step:,} steps, "
            f"{progress.samples:,} samples, {progress.pictures:,} pictures, {progress.tokens:,} tokens of which "
            f"{progress.learnt:,} were learnt, {progress.seconds / 60:.1f} minutes."
        )
        data = "\n".join(f"- {source.kind}, weight {source.weight:g}" for source in recipe.data)
        return [done, f"Data:\n\n{data}"]

    def profile(self) -> Profile | None:
        if (agent := self.recipe.agent) is not None:
            return Profile(
                agent.dialect,
                history=agent.history,
                views={suite: part.view() for suite, part in agent.views.items()},
                deltas=agent.tolerance,
            )
        found = resolve(self.recipe.model.source)
        if isinstance(found, Path) and (found / FILE).is_file():
            return replace(read_profile(found / FILE), deltas=None)  # it has just been trained without
        return None

    def closing(self) -> str:
        p = self.progress
        return f"done: {p.step:,} steps, {p.tokens:,} tokens, {p.pictures:,} pictures"


def heads_for(loss: LossPart) -> set[str]:
    """The losses that need a head. Reading has two, which are measured together."""
    wanted = {name for name in LOSSES[1:] if getattr(loss, name)}
    return wanted | {"reading", "reading_rows"} if wanted & {"reading", "reading_rows"} else wanted


def _seed(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)
