"""The native CPU kernels compute what the layers compute: the same hidden vectors, the same memories afterwards.

They are compared with the layers in float64. How far off they may be differs from token to token: now and then the
outputs of a random net's heads nearly cancel and a norm then magnifies their rounding a thousandfold. So the measure is
what happens in float64 when all that is given (weights, memories, inputs) is off by a rounding to fp32.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from holotron.kernels import native
from holotron.kernels.layout import Layout, Snapshot
from holotron.kernels.native import build
from holotron.model.cache import Cache
from holotron.model.config import AttentionConfig, DecoderConfig, MambaConfig, MLPConfig, ModelConfig
from holotron.model.decoder import Decoder
from holotron.model.model import Holotron
from holotron.model.native import native_head
from holotron.model.presets import tiny
from holotron.model.weights import random_model
from tests.model.oracle import unsettle

needs_native = pytest.mark.skipif(native.library() is None, reason="no C++ compiler, or no AVX2")
NARROW = ("-mno-avx512f",)  # as on a processor that has AVX2 only
MEMORIES = ("ssm_RLHPN", "conv_RLKC", "kv_ZL2zkD")
PAGE = 16
ROUNDING = 2.0**-24
ALLOWED = 64  # such roundings. Measured in 1,000 nets: at most 23, and at most 176 where torch computes in fp32


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@st.composite
def decoders(draw: st.DrawFn) -> Decoder:
    """Sizes that fill no vector and no tile, and sizes that fill several."""
    groups, kv_heads = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    mamba = MambaConfig(
        heads=groups * draw(st.integers(1, 5)),
        head_dim=draw(st.sampled_from([3, 5, 16, 20])),
        state=draw(st.sampled_from([4, 7, 16, 40])),
        groups=groups,
        kernel=draw(st.sampled_from([2, 4, 5])),
        conv_bias=draw(st.booleans()),
    )
    attention = AttentionConfig(
        heads=kv_heads * draw(st.integers(1, 3)), kv_heads=kv_heads, head_dim=draw(st.sampled_from([4, 6, 33, 52]))
    )
    hidden = draw(st.sampled_from([20, 24, 50, 96]))
    config = DecoderConfig(
        11, hidden, "M-*M", mamba=mamba, attention=attention, mlp=MLPConfig(draw(st.integers(1, 90)))
    )
    model = unsettle(random_model(ModelConfig(config, family="nemotron_h"), seed=draw(st.integers(0, 99)))).eval()
    decay = draw(st.sampled_from([0.0, 4.0]))  # e^4 times as fast: states are forgotten within a token
    for layer in model.language_model.backbone.layers:
        if hasattr(layer.mixer, "A_log"):
            layer.mixer.A_log.data += decay
    return model.language_model


@st.composite
def batches(draw: st.DrawFn) -> tuple[Layout, int, int]:
    """A layout with decodes, prompts (some continued) and snapshots in arbitrary rows and pages; how many of both."""
    decodes = draw(st.integers(0, 5))
    prompts = draw(st.lists(st.integers(1, 100), min_size=0 if decodes else 1, max_size=3))
    lengths = [1] * decodes + prompts
    contexts = [draw(st.integers(1, 40)) for _ in range(decodes)] + [draw(st.sampled_from([0, 0, 37])) for _ in prompts]
    rows = draw(st.permutations(range(len(lengths) + 3)))
    spare, snapshots = list(rows[len(lengths) :]), []
    for n, length in enumerate(prompts):
        for tokens in draw(st.lists(st.integers(1, length), max_size=2, unique=True)):
            if spare:
                snapshots.append(Snapshot(decodes + n, tokens, spare.pop()))
    needed = [-(-(c + n) // PAGE) for c, n in zip(contexts, lengths, strict=True)]
    order = draw(st.permutations(range(sum(needed))))
    pages = [[order.pop() for _ in range(n)] for n in needed]
    layout = Layout.build(
        lengths,
        contexts=contexts,
        rows=rows[: len(lengths)],
        pages=pages,
        page_size=PAGE,
        num_decodes=decodes,
        snapshots=snapshots,
    )
    return layout, len(rows), sum(needed)


def memory(config: DecoderConfig, rows: int, pages: int, random: torch.Generator) -> list[Tensor]:
    cache = Cache.allocate(config, rows=rows, pages=pages, page_size=PAGE)
    return [getattr(cache, name).normal_(generator=random) for name in MEMORIES]


@needs_native
@pytest.mark.parametrize("flags", [(), NARROW], ids=["this machine", "avx2"])
@settings(max_examples=80, deadline=None)
@given(decoders(), batches(), st.sampled_from([1, 2, 3]), st.integers(0, 2**31))
@torch.no_grad()
def test_a_pass(
    flags: tuple[str, ...], decoder: Decoder, batch: tuple[Layout, int, int], count: int, seed: int
) -> None:
    random = torch.Generator().manual_seed(seed)
    layout, rows, pages = batch
    memories = memory(decoder.config, rows, pages, random)
    x = torch.randn(layout.num_tokens, decoder.config.hidden, generator=random)
    before = x.clone()
    found_memories = [m.clone() for m in memories]
    with threads(count), pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "library", lambda: build.library(flags))
        found = decoder._native.forward(decoder, x, layout, Cache(*found_memories))
    assert found is not None
    assert torch.equal(x, before)
    expected, effect = in_float64(decoder, x, layout, memories, random)
    for mine, exact, rounding in zip((found, *found_memories), expected, effect, strict=True):
        wrong = rows_of(mine - exact).norm(dim=-1)
        assert (wrong <= ALLOWED * rounding + 1e-9).all(), f"{(wrong / rounding).max():.0f} roundings"


def in_float64(
    decoder: Decoder, x: Tensor, layout: Layout, memories: list[Tensor], random: torch.Generator
) -> tuple[list[Tensor], list[Tensor]]:
    """Hidden vectors and memories as they should be, and for every row of them what a rounding of all that is given
    changes (root mean square of four tries)."""

    def rounded(t: Tensor) -> Tensor:
        return t * (1 + ROUNDING * (2 * torch.rand(t.shape, generator=random, dtype=torch.float64) - 1))

    def computed(x: Tensor, memories: list[Tensor]) -> list[Tensor]:
        return [decoder(x, layout, Cache(*memories)), *memories]

    decoder.double()
    expected = computed(x.double(), [m.double() for m in memories])
    weights = {parameter: parameter.clone() for parameter in decoder.parameters()}
    squares = [torch.zeros(()) for _ in expected]
    for _ in range(4):
        for parameter, weight in weights.items():
            parameter.copy_(rounded(weight))
        tried = computed(rounded(x), [rounded(m) for m in memories])
        squares = [s + rows_of(t - e).square().sum(-1) / 4 for s, t, e in zip(squares, tried, expected, strict=True)]
    return expected, [s.sqrt() for s in squares]


def rows_of(t: Tensor) -> Tensor:
    """A token's hidden vector, a head's state, a sequence's last inputs, a token's keys."""
    return t.flatten(-2) if t.dim() > 2 else t


def small() -> Holotron:
    return unsettle(random_model(tiny())).eval()


@needs_native
@torch.no_grad()
def test_batching_decodes_changes_no_bit() -> None:
    model, ids = small(), torch.arange(40) + 60
    together = model.new_state(5, capacity=32)
    model(ids[:35], [7] * 5, state=together)
    alone = [together.select([row]) for row in range(5)]
    expected = torch.cat([model(ids[35 + row : 36 + row], state=state) for row, state in enumerate(alone)])
    assert torch.equal(model(ids[35:], [1] * 5, state=together), expected)
    for row, state in enumerate(alone):
        assert torch.equal(together.cache.ssm_RLHPN[row], state.cache.ssm_RLHPN[0])


@needs_native
@given(st.integers(1, native.FEW + 2), st.integers(1, 70), st.integers(1, 90), st.integers(1, 3))
@torch.no_grad()
def test_the_head(rows: int, inputs: int, outputs: int, count: int) -> None:
    head, x = torch.nn.Linear(inputs, outputs, bias=False), torch.randn(rows, inputs)
    with threads(count):
        found = native_head(head, x)
    assert (found is None) == (rows > native.FEW)
    if found is not None:
        torch.testing.assert_close(found, head(x), rtol=1e-4, atol=1e-5)


@needs_native
@torch.no_grad()
def test_changed_weights_are_noticed() -> None:
    model, ids = small(), torch.arange(9) + 60

    def agree() -> None:
        torch.testing.assert_close(model(ids, state=model.new_state()), model(ids), rtol=1e-4, atol=1e-4)

    agree()
    layer = model.language_model.backbone.layers[0]
    layer.mixer.in_proj.weight.mul_(0.5)  # in place
    agree()
    layer.mixer.in_proj.weight.data = layer.mixer.in_proj.weight.data * 3  # elsewhere
    agree()
    layer.mixer.A_log = torch.nn.Parameter(layer.mixer.A_log + 1)  # another parameter
    agree()
    layer.mixer.out_proj = torch.nn.Sequential(layer.mixer.out_proj, torch.nn.Tanh())  # an adapter
    agree()
    model.double().float()  # moved as a whole
    agree()
    model = deepcopy(model)
    model.language_model.backbone.norm_f.weight.mul_(0.5)
    agree()


@needs_native
@torch.no_grad()
def test_what_must_go_through_the_layers_does() -> None:
    model, ids = small(), torch.arange(9) + 60
    decoder = model.language_model

    def native_is_used() -> bool:
        state = model.new_state()
        layout = state.advance([9])
        return decoder._native.forward(decoder, decoder.embed(ids), layout, state.cache) is not None

    assert native_is_used()
    with torch.enable_grad():
        assert not native_is_used()
    seen: list[int] = []
    hook = decoder.backbone.layers[2].mixer.register_forward_hook(lambda *_: seen.append(1))
    assert not native_is_used()
    model(ids, state=model.new_state())
    assert seen
    hook.remove()
    assert native_is_used()
    model.double()
    assert not native_is_used()


@torch.no_grad()
def test_without_a_compiler_the_model_still_works(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model, ids = small(), torch.arange(9) + 60
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setattr(native, "library", build.library.__wrapped__)
    with caplog.at_level(logging.INFO, logger=build.__name__):
        found = model(ids, state=model.new_state())
    assert "native CPU kernels are not used" in caplog.text
    torch.testing.assert_close(found, model(ids), rtol=1e-4, atol=1e-4)
