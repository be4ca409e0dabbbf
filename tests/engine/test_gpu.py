"""The same engine on a GPU: the same tokens, whatever is swapped, forked or batched."""

from __future__ import annotations

import copy
import random
from dataclasses import replace

import numpy as np
import pytest
import torch

from holotron.engine import Engine, EngineConfig, SamplingParams, capture
from holotron.engine.core import Core
from holotron.engine.log import Log
from holotron.model.config import AttentionConfig, MambaConfig, MoEConfig, QwenVisionConfig
from holotron.model.loading import byte_processor, load_model
from holotron.model.model import Holotron
from holotron.model.presets import preset
from holotron.model.weights import random_model
from tests.engine.schedules import NAMES, World
from tests.engine.support import Asked, assert_greedy, micro_model, settings
from tests.engine.test_sessions import words

pytestmark = pytest.mark.gpu


def on_gpu(kind: str, dtype: torch.dtype) -> Holotron:
    return copy.deepcopy(micro_model(kind, dtype)).to("cuda")


class OnGPU(World):
    """Tokens are held against the same model on the CPU."""

    def verify(self, log: Log, generated: int) -> None:
        kind = self.core.model.config.name.removeprefix("micro-")
        assert_greedy(micro_model(kind, self.core.model.dtype), log, generated, self.tolerance or 0.0)


@pytest.mark.parametrize("kind", ["hybrid", "attention", "mamba", "qwen3-vl", "qwen3.5"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-3)])
def test_random_schedules_with_swapping_agree_with_the_cpu(kind: str, dtype: torch.dtype, tolerance: float) -> None:
    for seed in range(2):
        dice = random.Random(seed)
        config = settings(kv_tokens=128, state_rows=3, expected_tokens=2, page_size=16, overlap=seed > 0)
        core = Core(on_gpu(kind, dtype), config)
        world = OnGPU(core, tolerance)
        world.run([(dice.choice(NAMES), *(dice.randrange(1000) for _ in range(3))) for _ in range(30)])  # type: ignore[misc]
        assert core.stats().blocks_to_host > 0
        world.tear_down()


def test_blocks_come_back_from_pinned_memory_bit_for_bit() -> None:
    core = Core(on_gpu("hybrid", torch.float32), settings(kv_tokens=64, state_rows=2, page_size=16, max_running=1))
    sequences = []
    for n in range(4):
        sequence = core.sessions.open(f"s{n}")
        core.sessions.append(sequence, words(20, n + 1))
        Asked(core, sequence).finished(core)
        sequences.append(sequence)
    stored = [block.stored for sequence in sequences for block in sequence.memory.pages if block.stored is not None]
    assert stored
    assert all(tensor.is_pinned() for place in stored for tensor in core.pools.pages._swap.at(place))
    for sequence in sequences:
        assert Asked(core, sequence).finished(core).computed_tokens == 1
        assert_greedy(micro_model("hybrid", torch.float32), sequence.log, 8, 1e-3)


def test_the_threaded_engine_in_bf16() -> None:
    model = on_gpu("hybrid", torch.float32).to(torch.bfloat16)
    with Engine(model, None, EngineConfig(kv_tokens=4096, state_rows=32)) as engine:
        sampling = SamplingParams(max_tokens=20, temperature=0, ignore_eos=True)
        sessions = [engine.open() for _ in range(8)]
        for n, session in enumerate(sessions):
            session.append(words(100, n + 1).ids)
        generations = [session.generate(sampling) for session in sessions]
        assert all(len(generation.result(120).tokens) == 20 for generation in generations)
        engine.check_integrity()


# --------------------------------------------------------------------------- with our own kernels and captured graphs


def prompt(n: int) -> Log:
    """Of different lengths: not all come to the end of a page in the same iteration."""
    return words(90 + 3 * n, n + 1)


def replies(core: Core, tokens: int = 40, temperature: float = 0.0) -> list[list[int]]:
    """Eight sessions at once, twice: what they say."""
    asked = []
    for n in range(8):
        sequence = core.sessions.open(f"s{n}")
        core.sessions.append(sequence, prompt(n))
        params = SamplingParams(max_tokens=tokens, temperature=temperature, seed=n, ignore_eos=True)
        asked.append(Asked(core, sequence, params))
    for one in asked:
        one.finished(core)
    again = [Asked(core, one.request.sequence, one.request.params) for one in asked]
    for one in again:
        one.finished(core)
    core.check_integrity()
    return [one.request.sequence.log.ids[len(prompt(n)) :] for n, one in enumerate(asked)]


def roomy(**changes: object) -> EngineConfig:
    return EngineConfig(page_size=64, kv_tokens=8192, state_rows=40, max_running=8, token_budget=1024, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("temperature", "options"),
    [(0.0, {}), (1.0, {}), (0.0, {"replay": True}), (0.0, {"kv_dtype": "float8_e4m3fn", "replay": True})],
)
def test_captured_graphs_and_overlap_say_the_same(temperature: float, options: dict) -> None:
    model = load_model("tiny", device="cuda", dtype=torch.bfloat16).model
    plain = replies(Core(model, roomy(graphs=False, overlap=False, **options)), temperature=temperature)
    for overlap in (False, True):
        core = Core(model, roomy(graphs=True, overlap=overlap, **options))
        assert replies(core, temperature=temperature) == plain
        assert core.runner.captured == [8]


def conversations(core: Core, tokens: int = 9) -> list[list[int]]:
    """Sessions that come one after the other and go on, so that prompts run beside decodes: what they say."""
    sequences = [core.sessions.open(f"s{n}") for n in range(8)]
    for turn in range(4):
        asked = []
        for n, sequence in enumerate(sequences):
            core.sessions.append(sequence, words(40 + 61 * n, 10 * turn + n + 1))
            params = SamplingParams(max_tokens=tokens + n, temperature=0, ignore_eos=True)
            asked.append(Asked(core, sequence, params))
            core.step()
            core.step()
        for one in asked:
            one.finished(core)
    core.check_integrity()
    return [list(sequence.log.ids) for sequence in sequences]


def in_three_axes() -> Holotron:
    """Positions as Qwen3-VL has them, without deepstack."""
    config = preset("tiny-qwen3-vl")
    assert isinstance(config.vision, QwenVisionConfig)
    rotated = AttentionConfig(4, 2, 32, rope_theta=1e4, qk_norm=True, sections=(6, 5, 5))
    decoder, vision = replace(config.decoder, attention=rotated), replace(config.vision, deepstack=())
    return random_model(replace(config, decoder=decoder, vision=vision), device="cuda", dtype=torch.bfloat16).eval()


@pytest.mark.parametrize("options", [{}, {"replay": True}, {"kv_dtype": "float8_e4m3fn"}, {"axes": True}], ids=str)
def test_captured_prompts_say_what_their_kernels_say(options: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit: the same kernels on the same filled-up batches, replayed or launched one by one."""
    axes = options.pop("axes", False)
    model = in_three_axes() if axes else load_model("tiny", device="cuda", dtype=torch.bfloat16).model
    core = Core(model, roomy(**options))
    said = conversations(core)
    shapes = core.runner.captured_prompts
    assert len(shapes) >= 3
    assert any(shape.decodes for shape in shapes)

    monkeypatch.setattr(capture.Captured, "__call__", lambda self: self._compute())
    assert conversations(Core(model, roomy(**options))) == said


def test_captured_prompts_agree_with_the_reference_on_the_cpu() -> None:
    model = load_model("tiny", device="cuda", dtype=torch.float32).model
    twin = copy.deepcopy(model).to("cpu")
    core = Core(model, roomy())
    for n, said in enumerate(conversations(core)):
        assert_greedy(twin, Log(said), 9 + n, 1e-3)
    assert core.runner.captured_prompts


def test_captured_graphs_follow_new_weights() -> None:
    """They are overwritten where they are, and so is what is computed from them once. The model is one that learns, as
    in reinforcement learning."""
    torch.manual_seed(0)
    model = load_model("tiny", device="cuda", dtype=torch.bfloat16).model.requires_grad_(True)
    core = Core(model, roomy(graphs=True, overlap=True))
    before = replies(core)
    changes = {}
    for name, parameter in model.named_parameters():
        old = parameter.detach()
        changes[name] = old + 0.3 * old.abs().mean() * torch.randn_like(old)
    for sequence in list(core.sessions.open_ones.values()):
        core.close(sequence)
    core.update_weights(changes, "keep")
    assert core.runner.captured == [8]
    after = replies(core)
    assert after == replies(Core(copy.deepcopy(model), roomy(graphs=False, overlap=False)))
    assert after != before


def test_our_kernels_in_single_precision_agree_with_the_reference_on_the_cpu() -> None:
    model = load_model("tiny", device="cuda", dtype=torch.float32).model
    twin = copy.deepcopy(model).to("cpu")
    for options in ({}, {"replay": True}):
        for said, n in zip(replies(Core(model, roomy(**options))), range(8), strict=True):
            log = Log([*prompt(n).ids, *said])
            assert_greedy(twin, log, len(said), 1e-3)


@pytest.mark.parametrize("options", [{}, {"weight_dtype": "float8_e4m3fn"}], ids=["bf16", "fp8"])
def test_experts_run_in_graphs_too(options: dict) -> None:
    config = preset("tiny")
    decoder = replace(
        config.decoder,
        pattern="ME*EM",
        mamba=MambaConfig(heads=16, head_dim=16, state=16, groups=2, chunk=32),
        moe=MoEConfig(experts=16, top_k=3, width=48, shared_width=64),
    )

    def made() -> Holotron:
        model = random_model(replace(config, decoder=decoder), device="cuda", dtype=torch.bfloat16)
        return model.eval().requires_grad_(False)

    plain = replies(Core(made(), roomy(graphs=False, overlap=False, **options)))
    core = Core(made(), roomy(**options))
    assert replies(core) == plain
    assert core.runner.captured == [8]
    conversations(Core(made(), roomy(**options)))


def test_8_bit_projections_run_in_graphs_too() -> None:
    config = preset("tiny")
    decoder = replace(config.decoder, mamba=MambaConfig(heads=16, head_dim=16, state=16, groups=2, chunk=32))
    model = random_model(replace(config, decoder=decoder), device="cuda", dtype=torch.bfloat16)
    model.eval().requires_grad_(False)
    plain = replies(Core(model, roomy(graphs=False, overlap=False, weight_dtype="float8_e4m3fn")))
    assert replies(Core(model, roomy(weight_dtype="float8_e4m3fn"))) == plain


@pytest.mark.parametrize("name", ["tiny-qwen3-vl", "tiny-qwen3.5"])
def test_pictures_in_three_axes_from_captured_graphs(name: str) -> None:
    """Heads wide enough for the kernels: chunks that cut pictures, decodes from graphs, against the network alone."""
    config = preset(name)
    a = config.decoder.attention
    assert a is not None
    sizes = {"head_dim": 64, "rotary_dim": 32 if a.gated else None, "sections": (6, 5, 5) if a.gated else (12, 10, 10)}
    config = replace(config, decoder=replace(config.decoder, attention=replace(a, **sizes)))  # type: ignore[arg-type]
    model, processor = random_model(config, seed=1).eval().requires_grad_(False).cuda(), byte_processor(config)
    shots = [np.random.default_rng(n).integers(0, 256, (48 + 16 * n, 80, 3), np.uint8) for n in range(4)]
    engine_config = EngineConfig(page_size=16, kv_tokens=8192, state_rows=16, token_budget=48, max_running=8)
    with Engine(model, processor, engine_config) as engine:
        sessions = [engine.open() for _ in shots]
        for n, session in enumerate(sessions):
            session.append("look ", shots[n], " and ", shots[n - 1], "?")
        sampling = SamplingParams(max_tokens=24, temperature=0, ignore_eos=True)
        replies = [g.result().tokens for g in [session.generate(sampling) for session in sessions]]
        logs = [engine.prepare(("look ", shots[n], " and ", shots[n - 1], "?")) for n in range(len(shots))]
        assert engine.on_loop(lambda core: core.runner.captured).result()
    alone = copy.deepcopy(model).cpu()
    for log, said in zip(logs, replies, strict=True):
        log.extend(Log(said))
        assert_greedy(alone, log, len(said), 1e-3)
