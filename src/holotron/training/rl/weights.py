"""The trainer's weights, for engines that run; and how well trainer and engines agree.

Trainer and engines hold a copy each: engines go on sampling while the trainer computes gradients. After an update the
parameters that learn are copied over between two iterations of an engine. Adapters are merged on the way, so no engine
knows of them.

Agreement is measured, not assumed. After every update an engine, each in turn, continues a prompt of the last batch for
a few tokens; before its next step the trainer, whose weights are still the same, computes the logprobs of those tokens.
The mean of exp(|difference|) is 1 if both compute the same probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from holotron.engine import Engine, Generation, Result, SamplingParams, Session
from holotron.model.processor import Prompt, PromptImage
from holotron.model.processor.sparse import runs_of_groups
from holotron.training import lora
from holotron.training.distributed import Ranks, reshard
from holotron.training.learner import Learner
from holotron.training.recipe import LoraPart
from holotron.training.rl.objective import Drawing, chosen
from holotron.training.rl.passes import Weighted, make_pass
from holotron.training.rl.record import Compile, Play, Rollout, SampledTurn, play_of
from holotron.training.sparse import stretches_of

PROBE_TOKENS = 48


def learnt_tensors(learner: Learner, adapters: LoraPart | None, where: Ranks) -> dict[str, Tensor]:
    """What changes in training, under the names the engine knows. Every rank has to ask; where the model lies in
    shards, the first one gets it, whole and on the host, and the others nothing."""
    reshard(learner)
    found = {}
    for name, parameter in learner.model.named_parameters():
        if parameter.requires_grad or (adapters is not None and name.endswith(".base_layer.weight")):
            tensor = parameter.detach()
            if isinstance(tensor, DTensor):
                tensor = tensor.full_tensor().cpu()
            if where.first:
                found[name] = tensor
    return found if adapters is None else lora.merged(found, adapters)


def settled(device: torch.device) -> None:
    """All that was asked of the device is done: engines copy on streams of their own."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


# --------------------------------------------------------------------------------------------------------- agreement


@dataclass(frozen=True)
class Probe:
    """A continuation under way in an engine, by the weights of right now."""

    session: Session
    version: int
    generation: Generation

    @staticmethod
    def start(engine: Engine, prompt: Prompt, temperature: float = 1.0) -> Probe:
        session = engine.open()
        session.append(prompt)
        sampling = SamplingParams(
            max_tokens=PROBE_TOKENS, temperature=temperature, seed=len(prompt.ids), policy_logprobs=True
        )
        return Probe(session, engine.version, session.generate(sampling))

    def finish(self) -> Result | None:
        """What came of it; None if other weights had a part in it."""
        try:
            result = self.generation.result()
        finally:
            self.session.close()
        return result if set(result.versions) == {self.version} else None


def log_before_last_reply(play: Play, rollout: Rollout, image_token: int) -> Prompt:
    """What a session had in its log when its last reply began, to be continued once more."""
    last = int(np.flatnonzero(play.learn_T)[-1])
    while last and play.learn_T[last - 1]:
        last -= 1
    ids = play.ids_T[:last]
    places = np.flatnonzero(ids == image_token)
    shown = play.shown[: len(places)]
    images = []
    for first, end in stretches_of(shown, ids, image_token):
        key, runs = play.tiles[shown[first, 0]], tuple(runs_of_groups(0, shown[first:end, 1]))
        begins = np.cumsum([0, *(run.count for run in runs)])[:-1].tolist()
        pixels = rollout.tiles[key][None]
        images.append(PromptImage(int(places[first]), end - first, pixels, (key,), runs=runs, places=tuple(begins)))
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
        logits, _ = learner.score(made.batch)
        now, _ = chosen(logits, made.batch.targets_l, drawing, made.forbidden(logits.shape[-1]))
    finally:
        learner.train()
        reshard(learner)
    return float((now.detach() - made.logprobs_l).abs().exp().mean())
