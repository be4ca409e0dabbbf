"""The loop: take groups, update, publish, look. Rollouts go on in a thread of their own all the while.

    RlTrainer(recipe, Path("runs/mini-rl"), device="cpu").run()

Run again on the same folder, it continues from the last checkpoint: weights, optimiser, counters, difficulty estimates
and the order of tasks are as they were; episodes that were under way are played again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path

import torch
from rich.console import Console
from torch import Tensor

from holotron.engine.api import EngineConfig, StepReport
from holotron.engine.engine import Engine
from holotron.engine.sampler import never_sampled
from holotron.errors import ConfigError
from holotron.model.loading import load_model
from holotron.model.processor import Processor
from holotron.suites.base import parse_seeds
from holotron.training import lora
from holotron.training.batches import Batch
from holotron.training.checkpoint import Checkpoints, Progress
from holotron.training.curves import Curves
from holotron.training.distributed import Ranks
from holotron.training.learner import Learner
from holotron.training.loading import working_dtype
from holotron.training.optimiser import Optimiser, learning_rate
from holotron.training.rl.counts import Counts
from holotron.training.rl.groups import Group, Verdict
from holotron.training.rl.objective import FIGURES, Drawing, Figures, chosen, objective
from holotron.training.rl.passes import make_pass, split
from holotron.training.rl.player import Player, open_suite
from holotron.training.rl.queue import GroupQueue
from holotron.training.rl.recipe import RlRecipe
from holotron.training.rl.record import Turn
from holotron.training.rl.recorder import Recorder
from holotron.training.rl.rollouts import Rollouts
from holotron.training.rl.save import export_policy, same_recipe
from holotron.training.rl.show import Display, draw_curve
from holotron.training.rl.successes import Successes
from holotron.training.rl.tasks import TaskSampler
from holotron.training.rl.weights import Probe, disagreement, publish, see
from holotron.types import Task


class RlTrainer:
    def __init__(
        self,
        recipe: RlRecipe,
        out: Path,
        device: str | None = None,
        console: Console | None = None,
        on_step: Callable[[int, list[Group]], None] | None = None,
    ) -> None:
        """`on_step` is called before every update, with its number and its groups."""
        same_recipe(recipe, out)
        self.recipe = recipe
        self.out = out
        self._on_step = on_step
        suite = open_suite(recipe)
        where = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.learner, self.processor = _load(recipe, where)
        self.start = deepcopy(self.learner) if recipe.objective.kl and recipe.lora is None else None
        self.adapter = lora.add(self.learner, recipe.lora) if recipe.lora else None
        self.drawing = Drawing(recipe.agent.temperature, never_sampled(self.learner.model))
        self.optimiser = Optimiser(self.learner.named_parameters(), recipe.optimiser)
        self.checkpoints = Checkpoints(out / "checkpoints", recipe.save.keep, Ranks(device=where))
        self.progress = Progress()
        self.counts = Counts()
        self.sampler = TaskSampler(
            sorted({task.name for task in suite.tasks}),
            parse_seeds(recipe.tasks.seeds),
            band=recipe.tasks.band,
            outside=recipe.tasks.outside,
            memory=recipe.tasks.memory,
            seed=recipe.seed,
        )
        if (latest := self.checkpoints.latest()) is not None:
            self.progress = self.checkpoints.load(latest, self.optimiser)
            self.counts = Counts.load(self.progress.more["counts"])
            self.sampler.load(self.progress.more["sampler"])
        self._busy = 0.0  # seconds the engine spent in iterations
        self.engine = Engine(_load(recipe, where)[0].model, self.processor, _engine_config(recipe), on_step=self._heard)
        version = publish(self.learner, recipe.lora, self.engine, "refresh")
        # From here on version v of the engine is the weights after update number first + v.
        first = self.progress.step - version
        self.queue = GroupQueue(recipe.rollouts.queue, recipe.rollouts.staleness)
        self.player = Player(recipe, self.engine, suite, first_version=first)
        self.recorder = Recorder(out / "episodes", recipe, suite) if recipe.rollouts.record_every else None
        self.rollouts = Rollouts(
            self.player,
            self.sampler,
            self.queue,
            Successes(out / "successes", recipe.rollouts.successes),
            self.counts,
            sessions=recipe.rollouts.sessions,
            group=recipe.rollouts.group,
            side_by_side=recipe.rollouts.side_by_side or recipe.rollouts.group,
            straggler=recipe.rollouts.straggler,
            longest=recipe.update.tokens,
            on_episode=self.recorder,
        )
        self.curves = Curves(out, resume_at=self.progress.step, console=console)
        self.display = Display(self.curves)
        self._started = time.monotonic() - self.progress.seconds
        self._opened = time.monotonic()
        self._probe: Probe | None = None
        self._before = deepcopy(self.counts)  # as of the last update

    # ------------------------------------------------------------------------------------------------------- the loop

    def run(self) -> dict[str, float]:
        """Train to the end of the schedule. Returns the figures of the last evaluation."""
        recipe, progress = self.recipe, self.progress
        self.curves.say(self._opening())
        figures: dict[str, float] = {}
        last_save = self._seconds()
        try:
            with self.rollouts, self.display:
                if progress.step == 0:
                    figures = self.evaluate()
                while (done := self._done()) < 1.0:
                    groups = self.queue.take(recipe.update.groups, progress.step)
                    lr = learning_rate(recipe.optimiser.lr, recipe.schedule, progress.step, done)
                    self._record(self.step(groups, lr), lr)
                    if recipe.evaluate.every_steps and progress.step % recipe.evaluate.every_steps == 0:
                        figures = self.evaluate()
                    if self._save_due(last_save):
                        self.save()
                        last_save = self._seconds()
                if not recipe.evaluate.every_steps or progress.step % recipe.evaluate.every_steps:
                    figures = self.evaluate()
                self.save()
        finally:
            self.engine.close()
            if self.recorder is not None:
                self.recorder.close()
        export_policy(self, figures)
        self.curves.say(self._closing())
        self.curves.close()
        draw_curve(self.out, self.curves.say)
        return figures

    def step(self, groups: Sequence[Group], lr: float) -> dict[str, float]:
        """One update from these groups, published to the engine. Returns what was seen on the way."""
        if self._on_step is not None:
            self._on_step(self.progress.step, list(groups))
        began = time.monotonic()
        model = self.learner.model
        agreement = self._agreement()
        passes = split(groups, self.recipe.update.tokens)
        count = sum(len(play.logprobs_l) for items in passes for _, play, _ in items)
        sums = torch.zeros(len(FIGURES), device=model.device)
        ages: Counter[int] = Counter()
        for items in passes:
            made = make_pass(items, model.config, model.device)
            logits = self.learner.predict(made.batch, see(self.learner, made.batch.tiles_n3HW))
            forbidden = made.forbidden(logits.shape[-1])
            now, entropy = chosen(logits, made.batch.targets_l, self.drawing, forbidden)
            start = self._starting_logprobs(made.batch, forbidden) if self.recipe.objective.kl else None
            loss, part = objective(now, made.logprobs_l, made.advantages_l, self.recipe.objective, start)
            (loss / count).backward()
            part[FIGURES.index("entropy")] = entropy.sum()
            sums += part
            ages.update((self.progress.step - made.versions_l).tolist())
            self.progress.tokens += made.batch.tokens
            self.progress.pictures += len(made.batch.tiles_n3HW)
        norm = float(self.optimiser.step(lr))
        self.progress.step += 1
        self.progress.learnt += count
        self.progress.samples += sum(len(group.rollouts) for group in groups)
        self.counts.staleness.update(ages)
        publish(self.learner, self.recipe.lora, self.engine, self.recipe.rollouts.on_update)
        self._ask_engine(groups)
        figures = {name: value for name, value in asdict(Figures.of(sums, count)).items() if name != "kl"}
        if self.recipe.objective.kl:
            figures["kl"] = float(sums[FIGURES.index("kl")]) / count
        mean_age = sum(age * n for age, n in ages.items()) / count
        return {
            **figures,
            **({} if agreement is None else {"agreement": agreement}),
            "gradient": norm,
            "tokens": float(count),
            "staleness": mean_age,
            "oldest": float(max(ages)),
            "seconds": time.monotonic() - began,
        }

    def evaluate(self) -> dict[str, float]:
        """Greedy success on held-out seeds, by the weights of right now: no update happens meanwhile."""
        part = self.recipe.evaluate
        if part.every_steps is None:
            return {}
        suite = open_suite(self.recipe, suite=part.suite, names=part.names, seeds=part.seeds)
        tasks: list[Task] = list(suite.tasks)
        scores = self.rollouts.evaluate(tasks)
        means = {name: sum(wins) / len(wins) for name, wins in sorted(scores.items())}
        figures = {f"success/{name}": mean for name, mean in means.items()}
        figures["evaluation/success"] = sum(means.values()) / max(len(means), 1)
        self.curves.add(self.progress.step, figures)
        self.curves.flush()
        self.display.evaluated(self.progress.step, figures["evaluation/success"], len(tasks))
        return figures

    def save(self) -> None:
        self.progress.seconds = self._seconds()
        self.progress.more = {"counts": self.counts.state(), "sampler": self.rollouts.state()}
        self.checkpoints.save(self.progress, self.optimiser)
        self.curves.flush()
        draw_curve(self.out)

    # ------------------------------------------------------------------------------------------------------ its parts

    def _starting_logprobs(self, batch: Batch, forbidden: Tensor | None) -> Tensor:
        """Of the policy this run began with: a frozen copy, or the same weights without their adapters."""
        with torch.no_grad():
            if self.start is not None:
                logits = self.start.predict(batch, see(self.start, batch.tiles_n3HW))
            else:
                with lora.without(self.learner):
                    logits = self.learner.predict(batch, see(self.learner, batch.tiles_n3HW))
            return chosen(logits, batch.targets_l, self.drawing, forbidden)[0]

    def _ask_engine(self, groups: Sequence[Group]) -> None:
        rollout, play, _ = groups[0].plays()[-1]
        image = self.learner.model.config.tokens.image
        self._probe = Probe.start(self.engine, play, rollout, image, self.recipe.agent.temperature)
        self._probe_task = rollout

    def _agreement(self) -> float | None:
        """How far the engine's probabilities are from ours, under the same weights; None before the first update."""
        probe, self._probe = self._probe, None
        if probe is None or (result := probe.finish()) is None or not result.tokens:
            return None
        return disagreement(self.learner, [Turn(probe.prompt, result)], self._probe_task, self.drawing)

    def _record(self, figures: dict[str, float], lr: float) -> None:
        """Everything about this update, and about the episodes that ended since the last one."""
        counts, before, alive = self.counts, self._before, max(time.monotonic() - self._opened, 1e-9)
        episodes = counts.episodes - before.episodes
        groups = {verdict: counts.groups[verdict] - before.groups[verdict] for verdict in Verdict}
        known = [rate for e in self.sampler.estimates.values() if (rate := e.rate) is not None]
        seconds = counts.policy_seconds + counts.environment_seconds
        values = {f"update/{name}": value for name, value in figures.items()} | {
            "lr": lr,
            **({"rollout/success": (counts.successes - before.successes) / episodes} if episodes else {}),
            "rollout/estimate": sum(known) / max(len(known), 1),
            "rollout/inside": float(sum(map(self.sampler.inside, self.sampler.estimates))),
            "rollout/episodes": float(counts.episodes),
            "rollout/steps": float(counts.steps),
            "rollout/sampled_tokens": float(counts.sampled_tokens),
            **{f"groups/{verdict}": float(number) for verdict, number in groups.items()},
            "groups/stale": float(self.queue.stale),
            "groups/overflowed": float(self.queue.overflowed),
            "groups/waiting": float(len(self.queue)),
            "rollout/cut": float(counts.cut),
            "rollout/spoiled": float(counts.spoiled),
            "rollout/too_long": float(counts.too_long),
            "idle/trainer": self.queue.waited / alive,
            "idle/engine": max(0.0, 1 - self._busy / alive),
            "rollout/environment_share": counts.environment_seconds / seconds if seconds else 0.0,
        }
        self._before = deepcopy(counts)
        self.curves.add(self.progress.step, values)
        self.curves.flush()
        self.display.updated(self.progress.step, values)

    def _heard(self, report: StepReport) -> None:
        self._busy += report.seconds

    def _done(self) -> float:
        schedule, parts = self.recipe.schedule, [0.0]
        if schedule.steps is not None:
            parts.append(self.progress.step / schedule.steps)
        if schedule.minutes is not None:
            parts.append(self._seconds() / (60 * schedule.minutes))
        return min(1.0, max(parts))

    def _save_due(self, last: float) -> bool:
        save = self.recipe.save
        by_steps = save.every_steps is not None and self.progress.step % save.every_steps == 0
        return by_steps or (save.every_minutes is not None and self._seconds() - last >= 60 * save.every_minutes)

    def _seconds(self) -> float:
        return time.monotonic() - self._started

    def _opening(self) -> str:
        learning = sum(p.numel() for p in self.learner.parameters() if p.requires_grad)
        start = f"resumed at update {self.progress.step:,}" if self.progress.step else "from the start"
        model = self.learner.model
        tasks = f"{len(self.sampler.estimates)} tasks, groups of {self.recipe.rollouts.group}"
        who = f"{self.recipe.name}: {learning:,} parameters learn in {model.dtype} on {model.device}"
        return f"{who}, {tasks}, {start}"

    def _closing(self) -> str:
        p, c = self.progress, self.counts
        ages = "  ".join(f"{age}: {n:,}" for age, n in sorted(c.staleness.items()))
        return (
            f"done: {p.step:,} updates from {p.samples:,} of {c.episodes:,} episodes ({c.successes:,} successes), "
            f"{p.learnt:,} tokens learnt of {c.sampled_tokens:,} sampled; {c.kept:,} groups kept, "
            f"{c.dropped:,} dropped; tokens by staleness: {ages}"
        )


def _load(recipe: RlRecipe, device: torch.device) -> tuple[Learner, Processor]:
    wanted = recipe.model
    dtype = working_dtype(wanted, device)
    model, processor = load_model(wanted.source, device=device, dtype=dtype, seed=recipe.seed)
    if model.vision_model is None:
        raise ConfigError(f"{wanted.source} has no vision tower; a computer-use policy sees screens")
    learner = Learner(model)
    for part in wanted.learn:
        getattr(model, part).requires_grad_(recipe.lora is None)
    model.language_model.checkpoint_layers = wanted.checkpoint_layers
    return learner.train(), processor


def _engine_config(recipe: RlRecipe) -> EngineConfig:
    part = recipe.engine
    return EngineConfig(
        kv_tokens=part.kv_tokens,
        state_rows=part.state_rows,
        token_budget=max(part.token_budget, recipe.rollouts.sessions + 1),
        gather=part.gather,
        max_running=recipe.rollouts.sessions + 1,  # and the probe
        host_bytes=part.host_bytes,
        expected_tokens=recipe.agent.max_tokens,
        prefix_cache_bytes=0,
    )
