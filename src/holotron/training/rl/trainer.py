"""Reinforcement learning: take groups, update, publish. Rollouts go on in a thread of their own all the while; the loop
around updates is `loop.TrainingLoop`.

    RlTrainer(recipe, Path("runs/mini-rl"), device="cpu").run()

Run again on the same folder, it continues from the last checkpoint: weights, optimiser, counters, difficulty estimates
and the order of tasks are as they were; episodes that were under way are played again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path

import torch
from rich.console import Console
from torch import Tensor

from holotron.agent.profiles import Profile
from holotron.engine.api import StepReport
from holotron.engine.engine import Engine
from holotron.engine.sampler import never_sampled
from holotron.errors import ConfigError
from holotron.model.loading import model_config
from holotron.model.processor import Processor
from holotron.suites.base import parse_seeds
from holotron.training import lora
from holotron.training.batches import Batch
from holotron.training.distributed import alone
from holotron.training.learner import Learner
from holotron.training.loop import TrainingLoop
from holotron.training.rl.counts import Counts
from holotron.training.rl.groups import Group, Verdict
from holotron.training.rl.objective import FIGURES, Drawing, Figures, chosen, objective
from holotron.training.rl.passes import make_pass, split
from holotron.training.rl.player import Player, open_suites, profile_of
from holotron.training.rl.queue import GroupQueue
from holotron.training.rl.recipe import RlRecipe
from holotron.training.rl.record import SampledTurn
from holotron.training.rl.recorder import Recorder
from holotron.training.rl.rollouts import Rollouts
from holotron.training.rl.serving import engine_config, twin
from holotron.training.rl.show import RlDisplay, draw_curve
from holotron.training.rl.successes import Successes
from holotron.training.rl.tasks import TaskSampler
from holotron.training.rl.weights import Probe, disagreement, publish


class RlTrainer(TrainingLoop[RlRecipe]):
    unit = "update"
    judged_first = True

    def __init__(
        self,
        recipe: RlRecipe,
        out: Path,
        device: str | None = None,
        console: Console | None = None,
        on_step: Callable[[int, list[Group]], None] | None = None,
    ) -> None:
        """`on_step` is called before every update, with its number and its groups."""
        suite, self._held_out = open_suites(recipe)
        if model_config(recipe.model.source).vision is None:
            raise ConfigError(f"{recipe.model.source} has no vision tower; a computer-use policy sees screens")
        super().__init__(recipe, out, alone(device), console)
        self._on_step = on_step
        self.drawing = Drawing(recipe.agent.temperature, never_sampled(self.learner.model))
        self.counts = Counts()
        self.sampler = TaskSampler(
            sorted({task.name for task in suite.tasks}),
            parse_seeds(recipe.tasks.seeds),
            band=recipe.tasks.band,
            outside=recipe.tasks.outside,
            memory=recipe.tasks.memory,
            seed=recipe.seed,
        )
        if self.progress.more:
            self.counts = Counts.load(self.progress.more["counts"])
            self.sampler.load(self.progress.more["sampler"])
        self._busy = 0.0  # seconds the engine spent in iterations
        self.engine = Engine(self._served, self.processor, engine_config(recipe), on_step=self._heard)
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
            learn_from=recipe.tasks.learn_from,
            on_episode=self.recorder,
        )
        self._rewards = recipe.tasks.learn_from == "reward"
        self.display = RlDisplay(self.curves, rewards=self._rewards)
        self._opened = time.monotonic()
        self._probe: Probe | None = None
        self._before = deepcopy(self.counts)  # as of the last update

    def load(self) -> tuple[Learner, Processor]:
        """The learner, and from the same files the model that the engine serves and, for the pull to it, the one that
        the run starts from."""
        recipe = self.recipe
        learner, processor = super().load()
        self._served = twin(learner.model, recipe.lora)
        # With adapters the starting policy is the same weights without them.
        self.start = Learner(twin(learner.model)).train() if recipe.objective.kl and recipe.lora is None else None
        return learner, processor

    @contextmanager
    def running(self) -> Iterator[None]:
        try:
            with self.rollouts, self.display:
                yield
        finally:
            self.engine.close()
            if self.recorder is not None:
                self.recorder.close()

    def run(self) -> dict[str, float]:
        figures = super().run()
        draw_curve(self.out, self.curves.say)
        return figures

    # -------------------------------------------------------------------------------------------------------- updates

    def update(self, lr: float) -> None:
        groups = self.queue.take(self.recipe.update.groups, self.progress.step)
        self._record(self.step(groups, lr), lr)

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
            logits = self.learner.predict(made.batch, self.learner.look(made.batch))
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

    def _starting_logprobs(self, batch: Batch, forbidden: Tensor | None) -> Tensor:
        """Of the policy this run began with: a frozen copy, or the same weights without their adapters."""
        with torch.no_grad():
            if self.start is not None:
                logits = self.start.predict(batch, self.start.look(batch))
            else:
                with lora.without(self.learner):
                    logits = self.learner.predict(batch, self.learner.look(batch))
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
        return disagreement(self.learner, [SampledTurn(probe.prompt, result)], self._probe_task, self.drawing)

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
            **({"rollout/reward": (counts.rewards - before.rewards) / episodes} if episodes and self._rewards else {}),
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

    # ----------------------------------------------------------------------------------------------- how good it is

    def judge(self) -> dict[str, float]:
        """Greedy success on held-out seeds, by the weights of right now: no update happens meanwhile."""
        if self._held_out is None:
            return {}
        scores = sorted(self.rollouts.evaluate(self._held_out.tasks).items())
        means = {name: sum(score.success for score in mine) / len(mine) for name, mine in scores}
        figures = {f"success/{name}": mean for name, mean in means.items()}
        figures["evaluation/success"] = sum(means.values()) / max(len(means), 1)
        if self._rewards:
            rewards = [sum(score.reward for score in mine) / len(mine) for _, mine in scores]
            figures["evaluation/reward"] = sum(rewards) / max(len(rewards), 1)
        return figures

    def show(self, figures: Mapping[str, float]) -> None:
        assert self._held_out is not None
        self.display.evaluated(self.progress.step, figures["evaluation/success"], len(self._held_out.tasks))

    # -------------------------------------------------------------------------------------------------------- its end

    def remember(self) -> None:
        self.progress.more = {"counts": self.counts.state(), "sampler": self.rollouts.state()}

    def save(self) -> None:
        super().save()
        draw_curve(self.out)

    def particulars(self) -> list[str]:
        return [f"{len(self.sampler.estimates)} tasks", f"groups of {self.recipe.rollouts.group}"]

    def story(self) -> list[str]:
        p, c = self.progress, self.counts
        done = (
            f"Reinforcement learning on live rollouts, seed {self.recipe.seed}: {p.step:,} updates, {c.episodes:,} "
            f"episodes ({c.successes:,} successes), {c.steps:,} steps, {c.sampled_tokens:,} tokens sampled, "
            f"{p.learnt:,} learnt; {c.kept:,} groups kept, {c.dropped:,} dropped; {p.seconds / 60:.1f} minutes."
        )
        return [done]

    def profile(self) -> Profile:
        return profile_of(self.recipe.model.source, self.recipe.agent)

    def closing(self) -> str:
        p, c = self.progress, self.counts
        ages = "  ".join(f"{age}: {n:,}" for age, n in sorted(c.staleness.items()))
        return (
            f"done: {p.step:,} updates from {p.samples:,} of {c.episodes:,} episodes ({c.successes:,} successes), "
            f"{p.learnt:,} tokens learnt of {c.sampled_tokens:,} sampled; {c.kept:,} groups kept, "
            f"{c.dropped:,} dropped; tokens by staleness: {ages}"
        )
