"""New weights that come as less than everything: exactly the weights that the sender has."""

from __future__ import annotations

import pytest
import torch

from holotron.engine import Engine, EngineConfig, SamplingParams
from holotron.engine.weights import Arriving, HalfLoaded, LowRank, Sparse, WeightLoader
from holotron.errors import CheckpointError
from holotron.model.adapters import merge_adapter
from tests.engine.support import byte_model

NAME = "language_model.lm_head.weight"


def test_sparse_low_rank_and_arriving() -> None:
    model, _ = byte_model("hybrid")
    loader, weight = WeightLoader(model), dict(model.named_parameters())[NAME]
    base = weight.detach().clone()
    draw = torch.Generator().manual_seed(0)

    def noise(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64).to(weight.dtype)

    rows, columns = base.shape
    for scale in (0.5, 2.0):  # each takes the place of the one before, without rounding on top of rounding
        down, up = noise(4, columns), noise(rows, 4)
        loader.load({NAME: LowRank(down, up, scale)})
        assert torch.equal(weight, merge_adapter(base, down, up, scale))
    loader.load({NAME: base + 1})
    assert torch.equal(weight, base + 1)
    loader.load({NAME: LowRank(down, up, 1.0)})
    assert torch.equal(weight, merge_adapter(base + 1, down, up, 1.0)), "on top of what is there now"

    target = weight.detach().clone()
    indices = torch.tensor([0, 5, base.numel() - 1], dtype=torch.int32)
    target.view(-1)[indices.long()] = 3.25
    loader.load({NAME: Sparse(indices, torch.full((3,), 3.25))})
    assert torch.equal(weight, target)
    loader.load({NAME: Arriving(tuple(base.shape), lambda: base)})
    assert torch.equal(weight, base)


@pytest.mark.parametrize(
    "change",
    [
        torch.zeros(3),
        Arriving((3,), lambda: torch.zeros(3)),
        LowRank(torch.zeros(2, 3), torch.zeros(5, 2), 1.0),
        Sparse(torch.tensor([10**9]), torch.tensor([1.0])),
        Sparse(torch.tensor([-1]), torch.tensor([1.0])),
        Sparse(torch.tensor([1, 2]), torch.tensor([1.0])),
    ],
)
def test_what_does_not_fit_changes_nothing(change: object) -> None:
    model, _ = byte_model("hybrid")
    before = {name: tensor.detach().clone() for name, tensor in model.named_parameters()}
    first = next(iter(before))
    with pytest.raises(CheckpointError):
        WeightLoader(model).load({first: before[first] + 1, NAME: change})  # type: ignore[dict-item]
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.named_parameters())


def test_versions_are_told_or_counted_and_a_broken_update_is_said() -> None:
    model, processor = byte_model("hybrid")
    with Engine(model, processor, EngineConfig(page_size=8, kv_tokens=256, state_rows=8, token_budget=64)) as engine:
        assert engine.update_weights({}) == 1
        assert engine.update_weights({}, version=7) == 7
        session = engine.open()
        session.append("x")
        reply = session.generate(SamplingParams(max_tokens=2, temperature=0, ignore_eos=True)).result()
        assert set(reply.versions) == {7}

        def breaks() -> torch.Tensor:
            raise ConnectionError("the sender is gone")

        shape = tuple(dict(model.named_parameters())[NAME].shape)
        with pytest.raises(HalfLoaded, match="gone"):
            engine.update_weights({NAME: Arriving(shape, breaks)})
        assert engine.version == 7
