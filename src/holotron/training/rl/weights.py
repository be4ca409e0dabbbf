"""The trainer's weights, in the running engine; and how well the two agree.

Trainer and engine hold a copy each: the engine goes on sampling while the trainer computes gradients. After an update
the parameters that learn are copied over between two iterations of the engine. Adapters are merged on the way, so the
engine never knows of them.

Agreement is measured, not assumed. After every update the engine continues a prompt of the last batch for a few tokens;
before its next step the trainer, whose weights are still the same, computes the logprobs of those tokens. The mean of
exp(|difference|) is 1 if both compute the same probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from holotron.engine import Engine, Generation, OnUpdate, Result, SamplingParams, Session
from holotron.model.positions import stretches
from holotron.model.processor import Prompt, PromptImage, Run
from holotron.training import lora
from holotron.training.learner import Learner
from holotron.training.recipe import LoraPart
from holotron.training.rl.objective import Drawing, chosen
from holotron.training.rl.passes import Weighted, make_pass
from holotron.training.rl.record import Compile, Play, Rollout, SampledTurn, play_of

PROBE_TOKENS = 48


def learnt_tensors(learner: Learner, adapters: LoraPart | None) -> dict[str, Tensor]:
    """What changes in training, under the names the engine knows."""
    if adapters is None:
        return {name: p.detach() for name, p in learner.model.named_parameters() if p.requires_grad}
    adapted = {
        name: p.detach()
        for name, p in learner.model.named_parameters()
        if lora.is_adapter(name) or name.endswith(".base_layer.weight")
    }
    return lora.merged(adapted, adapters)


def publish(learner: Learner, adapters: LoraPart | None, engine: Engine, on_update: OnUpdate) -> int:
    """Give the engine the trainer's weights; its new version."""
    tensors = learnt_tensors(learner, adapters)
    _wait(learner)  # the engine may copy on another stream
    version = engine.update_weights(tensors, on_update)
    _wait(learner)  # and must have read them before the next step writes
    return version


def _wait(learner: Learner) -> None:
    if learner.model.device.type == "cuda":
        torch.cuda.synchronize(learner.model.device)


# --------------------------------------------------------------------------------------------------------- agreement


@dataclass(frozen=True)
class Probe:
    """A continuation under way in the engine, by the weights of right now."""

    session: Session
    prompt: Prompt
    version: int
    generation: Generation

    @staticmethod
    def start(engine: Engine, play: Play, rollout: Rollout, image_token: int, temperature: float = 1.0) -> Probe:
        """Continue this session's log from where its last reply began."""
        prompt = _log_before_last_reply(play, rollout, image_token)
        session = engine.open()
        session.append(prompt)
        sampling = SamplingParams(
            max_tokens=PROBE_TOKENS, temperature=temperature, seed=len(prompt.ids), policy_logprobs=True
        )
        return Probe(session, prompt, engine.version, session.generate(sampling))

    def finish(self) -> Result | None:
        """What came of it; None if other weights had a part in it."""
        try:
            result = self.generation.result()
        finally:
            self.session.close()
        return result if set(result.versions) == {self.version} else None


def _log_before_last_reply(play: Play, rollout: Rollout, image_token: int) -> Prompt:
    last = int(np.flatnonzero(play.learn_T)[-1])
    while last and play.learn_T[last - 1]:
        last -= 1
    ids = play.ids_T[:last]
    places = np.flatnonzero(ids == image_token)
    tiles, rows = play.shown[: len(places)].T
    images = []
    for start, count, tile, row in stretches(places, tiles, rows):
        key, run = play.tiles[tile], Run(0, row, count)
        images.append(PromptImage(start, count, rollout.tiles[key][None], (key,), runs=(run,), places=(0,)))
    return Prompt(ids.tolist(), tuple(images))


def disagreement(
    learner: Learner, turns: Sequence[SampledTurn], rollout: Rollout, drawing: Drawing, compile: Compile | None = None
) -> float:
    """Mean of exp(|engine's logprob - trainer's logprob|) over the tokens of a session that the present weights
    sampled. Computed as in an update, gradients and all: kernels that have one may differ from those that serve."""
    play, tiles = play_of(turns, compile=compile)
    seen = Rollout(rollout.task, False, rollout.outcome, (play,), tiles)
    item: Weighted = (seen, play, 0.0)
    made = make_pass([item], learner.model.config, learner.model.device)
    learner.eval()
    try:
        logits = learner.predict(made.batch, learner.look(made.batch))
        now, _ = chosen(logits, made.batch.targets_l, drawing, made.forbidden(logits.shape[-1]))
    finally:
        learner.train()
    return float((now.detach() - made.logprobs_l).abs().exp().mean())
