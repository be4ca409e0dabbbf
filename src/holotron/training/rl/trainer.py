"""Reinforcement learning: take groups, update, publish. Players go on all the while, in a thread or in processes of
their own (`players`); the loop around updates is `loop.TrainingLoop`.

    with ranks() as where:
        RlTrainer(recipe, Path("runs/mini-rl"), where).run()

Run again on the same folder, it continues from the last checkpoint: weights, optimiser, counters, difficulty estimates
and the order of tasks are as they were; episodes that were under way are played again.

Of several ranks the first one has the players, deals out the passes of an update, and gets the whole weights to
publish; the others compute.
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
from holotron.engine.sampler import never_sampled
from holotron.errors import ConfigError
from holotron.model.loading import model_config
from holotron.model.processor import Processor, Prompt
from holotron.rollouts.processes import LocalPlace, Place
from holotron.suites.base import Suite, parse_seeds
from holotron.training import lora
from holotron.training.batches import Batch
from holotron.training.distributed import Ranks, average_unsharded, shard
from holotron.training.learner import Calls, Learner
from holotron.training.loop import TrainingLoop
from holotron.training.rl.counts import Counts
from holotron.training.rl.desk import Desk, DeskHere
from holotron.training.rl.groups import Group, Verdict
from holotron.training.rl.objective import FIGURES, Drawing, Figures, chosen, objective
from holotron.training.rl.passes import Pass, deal, make_pass, split
from holotron.training.rl.player import open_suites, profile_of
from holotron.training.rl.players import Answer, Players, PlayersHere
from holotron.training.rl.queue import GroupQueue
from holotron.training.rl.recipe import RlRecipe
from holotron.training.rl.record import Rollout, SampledTurn
from holotron.training.rl.recorder import Recorder
from holotron.training.rl.serving import engine_devices, twin
from holotron.training.rl.show import RlDisplay, draw_curve
from holotron.training.rl.spread import PlayersElsewhere
from holotron.training.rl.successes import Successes
from holotron.training.rl.tasks import TaskSampler
from holotron.training.rl.weights import disagreement, learnt_tensors, log_before_last_reply


class RlTrainer(TrainingLoop[RlRecipe]):
    unit = "update"
    judged_first = True

    def __init__(
        self,
        recipe: RlRecipe,
        out: Path,
        where: Ranks,
        console: Console | None = None,
        on_step: Callable[[int, list[Group]], None] | None = None,
        place: Place | None = None,
    ) -> None:
        """`on_step` is called before every update, with its number and its groups. `place`: where the processes that
        play are started, if the recipe wants any; None: on this machine."""
        suite, self._held_out = open_suites(recipe)
        if model_config(recipe.model.source).vision is None:
            raise ConfigError(f"{recipe.model.source} has no vision tower; a computer-use policy sees screens")
        super().__init__(recipe, out, where, console)
        if self.start is not None:
            shard(self.start, where)
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
        self.queue = GroupQueue(recipe.rollouts.queue, recipe.rollouts.staleness)
        successes = Successes(out / "successes", recipe.rollouts.successes)
        self.desk = Desk(self.sampler, self.queue, successes, self.counts, recipe.tasks.learn_from)
        self.recorder = Recorder(out / "episodes", recipe, suite) if self._records else None
        self.players = self._open_players(suite, place) if where.first else None
        self._publish()
        self._rewards = recipe.tasks.learn_from == "reward"
        self.display = RlDisplay(self.curves, rewards=self._rewards)
        self._opened = time.monotonic()
        self._answer: Answer | None = None  # of an engine that was asked
        self._asked: tuple[Rollout, Prompt] | None = None
        self._before = deepcopy(self.counts)  # as of the last update

    @property
    def _records(self) -> bool:
        return self.recipe.rollouts.record_every > 0 and self.where.first

    def load(self) -> tuple[Learner, Processor]:
        """The learner, and from the same files the model that the engine serves and, for the pull to it, the one that
        the run starts from."""
        recipe = self.recipe
        learner, processor = super().load()
        here = self.where.first and not recipe.rollouts.processes
        self._served = twin(learner.model, recipe.lora) if here else None
        # With adapters the starting policy is the same weights without them.
        self.start = Learner(twin(learner.model)).train() if recipe.objective.kl and recipe.lora is None else None
        return learner, processor

    def _open_players(self, suite: Suite, place: Place | None) -> Players:
        recipe = self.recipe
        if self._served is not None:
            desk = DeskHere(self.desk)
            return PlayersHere(recipe, suite, self._served, self.processor, desk, self.counts, self.recorder)
        place = place or LocalPlace()
        devices = engine_devices(recipe.rollouts.processes, self.where, place)
        return PlayersElsewhere(recipe, self.desk, place, devices, self.recorder)

    def _publish(self) -> None:
        tensors = learnt_tensors(self.learner, self.recipe.lora, self.where)
        if self.players is not None:
            self.players.publish(tensors, self.progress.step)

    @contextmanager
    def running(self) -> Iterator[None]:
        if self.players is None:
            yield
            return
        try:
            with self.players, self.display:
                yield
        finally:
            if self.recorder is not None:
                self.recorder.close()

    def run(self) -> dict[str, float]:
        figures = super().run()
        if self.where.first:
            draw_curve(self.out, self.curves.say)
        return figures

    # -------------------------------------------------------------------------------------------------------- updates

    def update(self, lr: float) -> None:
        groups = self.queue.take(self.recipe.update.groups, self.progress.step) if self.where.first else []
        self._record(self.step(groups, lr), lr)

    def step(self, groups: Sequence[Group], lr: float) -> dict[str, float]:
        """One update from these groups, published to the engines. Returns what was seen on the way. Of several ranks
        the first one has the groups; all make the step."""
        if self._on_step is not None and self.where.first:
            self._on_step(self.progress.step, list(groups))
        began = time.monotonic()
        where, model = self.where, self.learner.model
        agreement = self._agreement()
        shares = deal(split(groups, self.recipe.update.tokens), where.count) if where.first else None
        count = where.told(sum(len(play.logprobs_l) for group in groups for _, play, _ in group.plays()))
        sums = torch.zeros(len(FIGURES), device=model.device)
        seen = [0, 0]
        for items in where.dealt(shares):
            made = make_pass(items, model.config, model.device)
            sums += self._learn(made, count)
            seen = [seen[0] + made.batch.tokens, seen[1] + len(made.batch.tiles_n3HW)]
        average_unsharded(self.learner, where)
        norm = float(self.optimiser.step(lr))
        ages = Counter(
            self.progress.step - int(version)
            for group in groups
            for _, play, _ in group.plays()
            for version in play.versions_l
        )
        self.progress.step += 1
        self.progress.learnt += count
        self.progress.samples += sum(len(group.rollouts) for group in groups)
        self.progress.tokens += sum(where.gather(seen[0]))
        self.progress.pictures += sum(where.gather(seen[1]))
        self.counts.staleness.update(ages)
        self._publish()
        self._ask_engine(groups)
        where.sum(sums)
        figures = {name: value for name, value in asdict(Figures.of(sums, count)).items() if name != "kl"}
        if self.recipe.objective.kl:
            figures["kl"] = float(sums[FIGURES.index("kl")]) / count
        return {
            **figures,
            **({} if agreement is None else {"agreement": agreement}),
            "gradient": norm,
            "tokens": float(count),
            "staleness": sum(age * n for age, n in ages.items()) / count,
            "oldest": float(max(ages, default=0)),
            "seconds": time.monotonic() - began,
        }

    def _learn(self, made: Pass, count: int) -> Tensor:
        """The gradient of one pass; the sums behind its figures."""
        batch, calls = made.batch, None
        if self.where.several:
            calls = Calls.of(self.where.most(self.learner.calls(batch).numbers()))
        logits, zero = self.learner.score(batch, calls)
        forbidden = made.forbidden(logits.shape[-1])
        now, entropy = chosen(logits, batch.targets_l, self.drawing, forbidden)
        start = self._starting_logprobs(batch, calls, forbidden) if self.recipe.objective.kl else None
        loss, part = objective(now, made.logprobs_l, made.advantages_l, self.recipe.objective, start)
        # Shards average gradients over the ranks; the count is of all ranks, so it is the sum that is wanted.
        ((loss / count + zero) * self.where.count).backward()
        part[FIGURES.index("entropy")] = entropy.sum()
        return part

    def _starting_logprobs(self, batch: Batch, calls: Calls | None, forbidden: Tensor | None) -> Tensor:
        """Of the policy this run began with: a frozen copy, or the same weights without their adapters."""
        with torch.no_grad():
            if self.start is not None:
                logits, _ = self.start.score(batch, calls)
            else:
                with lora.without(self.learner):
                    logits, _ = self.learner.score(batch, calls)
            return chosen(logits, batch.targets_l, self.drawing, forbidden)[0]

    def _ask_engine(self, groups: Sequence[Group]) -> None:
        if self.players is None:
            return
        rollout, play, _ = groups[0].plays()[-1]
        prompt = log_before_last_reply(play, rollout, self.learner.model.config.tokens.image)
        self._asked = rollout, prompt
        self._answer = self.players.ask(prompt)

    def _agreement(self) -> float | None:
        """How far an engine's probabilities are from ours, under the same weights; None before the first update."""
        turn: tuple[Rollout, SampledTurn] | None = None
        if self._answer is not None and self._asked is not None:
            (rollout, prompt), result = self._asked, self._answer()
            self._answer = self._asked = None
            if result is not None and result.tokens:
                turn = rollout, SampledTurn(prompt, result)
        turn = self.where.told(turn)
        return None if turn is None else disagreement(self.learner, [turn[1]], turn[0], self.drawing)

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
            "idle/engine": max(0.0, 1 - (self.players.busy() if self.players is not None else 0.0) / alive),
            "rollout/environment_share": counts.environment_seconds / seconds if seconds else 0.0,
        }
        self._before = deepcopy(counts)
        self.curves.add(self.progress.step, values)
        self.curves.flush()
        self.display.updated(self.progress.step, values)

    # ----------------------------------------------------------------------------------------------- how good it is

    def judge(self) -> dict[str, float]:
        """Greedy success on held-out seeds, by the weights of right now: no update happens meanwhile."""
        if self._held_out is None or self.players is None:
            return {}
        scores = sorted(self.players.evaluate(self._held_out.tasks).items())
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
        self.progress.more = {"counts": self.counts.state(), "sampler": self.desk.state()}

    def save(self) -> None:
        super().save()
        if self.where.first:
            draw_curve(self.out)

    def particulars(self) -> list[str]:
        processes, ranks = self.recipe.rollouts.processes, self.where.count
        return [
            f"{len(self.sampler.estimates)} tasks",
            f"groups of {self.recipe.rollouts.group}",
            *([f"{processes} processes play"] if processes else []),
            *([f"{ranks} ranks"] if ranks > 1 else []),
        ]

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
