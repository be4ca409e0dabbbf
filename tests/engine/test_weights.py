"""New weights in a running engine."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch

from holotron.engine.api import OnUpdate
from holotron.engine.core import Core
from holotron.engine.log import Log
from holotron.errors import CheckpointError
from holotron.model.model import Holotron
from tests.engine.support import Asked, assert_greedy, image_log, make_tile, micro_model, settings
from tests.engine.test_scheduling import greedy
from tests.engine.test_sessions import words


def fresh_model() -> Holotron:
    """A copy of its own: these tests change it."""
    return copy.deepcopy(micro_model())


def changed(model: Holotron, seed: int = 1) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: parameter + 0.3 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
        for name, parameter in model.named_parameters()
        if parameter.dim() > 1
    }


def test_refresh_computes_open_sessions_again_with_the_new_weights() -> None:
    core = Core(fresh_model(), settings(token_budget=16))
    sequence = core.sessions.open("s")
    core.sessions.append(sequence, words(20))
    mark = core.sessions.mark(sequence)
    core.sessions.append(sequence, image_log(make_tile(1)))
    first = Asked(core, sequence, greedy(4)).finished(core)
    assert first.versions == (0,) * 4
    assert core.update_weights(changed(core.model), "refresh") == 1
    result = Asked(core, sequence, greedy(4)).finished(core)
    assert result.versions == (1,) * 4
    assert result.cached_tokens == 0
    assert (sequence.memory.oldest, sequence.memory.newest) == (1, 1)
    assert_greedy(core.model, sequence.log, 4)
    assert core.stats().recomputed_tokens == 20 + 6 + 3
    # The mark was taken anew on the way.
    core.sessions.rewind(sequence, core.sessions.position(sequence, mark))
    assert Asked(core, sequence, greedy(2)).finished(core).computed_tokens == 0
    assert_greedy(core.model, sequence.log, 2)
    core.check_integrity()


def test_keep_goes_on_with_what_is_remembered_and_says_so() -> None:
    core = Core(fresh_model(), settings())
    sequence = core.sessions.open("s")
    core.sessions.append(sequence, words(20))
    Asked(core, sequence, greedy(4)).finished(core)
    core.update_weights(changed(core.model), "keep")
    result = Asked(core, sequence, greedy(4)).finished(core)
    assert result.computed_tokens == 1
    assert result.versions == (1,) * 4
    assert (sequence.memory.oldest, sequence.memory.newest) == (0, 1)


@pytest.mark.parametrize("on_update", ["keep", "refresh"])
def test_a_generation_under_way_continues_across_versions(on_update: OnUpdate) -> None:
    core = Core(fresh_model(), settings())
    sequence = core.sessions.open("s")
    core.sessions.append(sequence, words(20))
    asked = Asked(core, sequence, greedy(8))
    while len(asked.events) < 3:
        core.step()
    core.update_weights(changed(core.model), on_update)
    result = asked.finished(core)
    assert result.versions == (0,) * 3 + (1,) * 5
    if on_update == "refresh":
        assert_greedy(core.model, sequence.log, 5)
    core.check_integrity()


def test_stateless_requests_never_resume_what_older_weights_computed() -> None:
    core = Core(fresh_model(), settings(kv_tokens=4096))
    session = core.sessions.open("s")
    core.sessions.append(session, words(70))
    Asked(core, session, greedy(4)).finished(core)
    Asked(core, core.sessions.stateless(words(80, 2)), greedy(4)).finished(core)
    running = Asked(core, core.sessions.stateless(words(90, 3)), greedy(30))
    core.step()
    core.update_weights(changed(core.model), "keep")
    running.finished(core)
    for prompt in (words(75), words(80, 2), words(90, 3)):
        sequence = core.sessions.stateless(prompt)
        result = Asked(core, sequence, greedy(3)).finished(core)
        assert result.cached_tokens == 0
        whole = Log(prompt.ids)
        for token in result.tokens:
            whole.append(token)
        assert_greedy(core.model, whole, 3)
    core.check_integrity()


def test_weights_that_do_not_fit_change_nothing() -> None:
    core = Core(fresh_model(), settings())
    before = {name: parameter.clone() for name, parameter in core.model.named_parameters()}
    good = "language_model.lm_head.weight"
    for bad, message in (({"nothing.weight": torch.zeros(1)}, "no parameter"), ({good: torch.zeros(2, 2)}, "shape")):
        with pytest.raises(CheckpointError, match=message):
            core.update_weights({"language_model.backbone.embeddings.weight": before[good] * 0} | bad, "keep")
    assert core.version == 0
    assert all(torch.equal(parameter, before[name]) for name, parameter in core.model.named_parameters())


def test_tied_weights_may_come_under_both_names() -> None:
    config = micro_model().config
    config = replace(config, decoder=replace(config.decoder, tied_embeddings=True))
    core = Core(Holotron(config).double().eval(), settings())
    table = torch.randn(config.decoder.vocab, config.decoder.hidden, dtype=torch.float64)
    names = ("language_model.lm_head.weight", "language_model.backbone.embeddings.weight")
    assert core.update_weights(dict.fromkeys(names, table), "refresh") == 1
    assert torch.equal(core.model.language_model.lm_head.weight, table)
