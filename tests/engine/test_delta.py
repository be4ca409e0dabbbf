"""Gated DeltaNet in the engine, beside the random schedules of `test_exactness`: what is planned is what is taken, new
weights reach what is derived from them, and the engine's probabilities are the trainer's."""

from __future__ import annotations

import copy

import pytest
import torch

from holotron.engine.api import EngineConfig, SamplingParams
from holotron.engine.core import Core
from holotron.engine.plan import Planner
from holotron.kernels.layout import Layout
from tests.engine.support import Asked, assert_greedy, micro_model, settings
from tests.engine.test_scheduling import greedy
from tests.engine.test_sessions import words


@pytest.mark.parametrize("state_dtype", [None, "bfloat16"])
def test_states_and_pages_are_planned_to_the_byte(state_dtype: str | None) -> None:
    model = micro_model("delta", torch.float32)
    planner = Planner(model.config, torch.float32, EngineConfig(page_size=4, state_dtype=state_dtype, graphs=False))
    plan = planner.plan(sessions=5, context=100)
    cache = Core(model, planner.sized(5, 100)).pools.cache
    assert cache.delta is not None
    assert plan.state == sum(t.nbytes for t in cache.delta) > 0
    assert plan.kv == cache.kv_ZL2zkD.nbytes
    assert plan.weights == sum(t.nbytes for t in {*model.parameters(), *model.buffers()})


def test_new_weights_reach_norms_and_decays() -> None:
    """Both compute with something derived from their parameters and kept."""
    core = Core(copy.deepcopy(micro_model("delta")), settings())
    sequence = core.sessions.open("s")
    core.sessions.append(sequence, words(20))
    Asked(core, sequence, greedy(4)).finished(core)
    generator = torch.Generator().manual_seed(1)
    small = {
        name: parameter + 0.5 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
        for name, parameter in core.model.named_parameters()
        if parameter.dim() == 1 and name.startswith("language_model.")
    }
    assert {name.rsplit(".", 1)[-1] for name in small} == {"weight", "A_log", "dt_bias"}
    core.update_weights(small, "refresh")
    Asked(core, sequence, greedy(6)).finished(core)
    assert_greedy(core.model, sequence.log, 6)


def test_a_swapped_state_comes_back_as_it_was() -> None:
    """Three sessions on two rows: every turn moves a state to the host and another one back."""
    core = Core(micro_model("delta"), settings(state_rows=2, max_running=1))
    sequences = [core.sessions.open(f"s{n}") for n in range(3)]
    for n, sequence in enumerate(sequences):
        core.sessions.append(sequence, words(15, n))
    for _ in range(3):
        for sequence in sequences:
            Asked(core, sequence, greedy(5)).finished(core)
    assert core.stats().blocks_to_host > 0
    for sequence in sequences:
        assert_greedy(core.model, sequence.log, 15)
    core.check_integrity()


def test_the_engine_gives_the_trainers_probabilities() -> None:
    """Sampled in pieces beside others, in fp32; computed again as training does, in one packed pass with gradients."""
    model = copy.deepcopy(micro_model("delta", torch.float32)).requires_grad_()
    core = Core(model, settings(token_budget=11))
    asked = []
    for n in range(4):
        sequence = core.sessions.open(f"s{n}")
        core.sessions.append(sequence, words(9 + 5 * n, n))
        asked.append(Asked(core, sequence, SamplingParams(max_tokens=12, temperature=1.0, seed=n, ignore_eos=True)))
    results = [each.finished(core) for each in asked]
    logs = [each.request.sequence.log.ids for each in asked]
    ids, lengths = torch.tensor([token for log in logs for token in log]), [len(log) for log in logs]
    decoder = model.language_model
    logprobs = decoder.logits(decoder(decoder.embed(ids), Layout.build(lengths))).log_softmax(-1)
    assert logprobs.requires_grad
    worst = 0.0
    for result, log, rows in zip(results, logs, logprobs.split(lengths), strict=True):
        said = torch.tensor(log[-len(result.tokens) :])
        mine = rows[-len(said) - 1 : -1].gather(-1, said[:, None])[:, 0]
        worst = max(worst, float((mine.detach() - torch.tensor(result.logprobs)).abs().max().exp()))
    assert worst <= 1.001
