"""The engine with the kernels of a GPU, on a CPU: through Triton's interpreter, with graphs that are recorded as the
functions they are. `test_prompt_graphs.py` runs this in a process of its own (the interpreter has to be switched on
before triton is imported): `python -m tests.engine.interpreted hybrid`.

What a recorded function reads besides its fixed inputs would be caught: a replay gets the inputs of another batch.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace

os.environ["TRITON_INTERPRET"] = "1"

import torch
from torch import Tensor

from holotron.engine import capture, graphs, prompt_graphs, vision
from holotron.engine.api import EngineConfig, SamplingParams
from holotron.engine.core import Core
from holotron.engine.log import Log
from holotron.kernels import dispatch
from holotron.model.config import AttentionConfig, MambaConfig, ModelConfig, MoEConfig, QwenVisionConfig
from holotron.model.model import Holotron
from tests.engine.support import Asked, assert_greedy, image_log, make_tile, micro_config
from tests.engine.test_sessions import words


class Recording:
    def __init__(self, compute: Callable[[], Tensor]) -> None:
        self.compute = compute
        self.out = torch.empty_like(compute_nothing(compute))

    def replay(self) -> None:
        self.out.copy_(self.compute())


class Tape:
    """Instead of `capture.Recorder`."""

    def __init__(self, device: torch.device) -> None:
        pass

    def capture(self, compute: Callable[[], Tensor]) -> capture.Capture:
        recording = Recording(compute)
        return recording, recording.out

    def clear(self) -> None:
        pass


MEMORIES: list[Tensor] = []


def compute_nothing(compute: Callable[[], Tensor]) -> Tensor:
    """Run for the shape of the result, and put all memories back: capturing does not compute."""
    before = [memory.clone() for memory in MEMORIES]
    out = compute()
    for memory, old in zip(MEMORIES, before, strict=True):
        memory.copy_(old)
    return out


def on_triton() -> None:
    dispatch._suits_triton = lambda t: t.dtype == torch.float32  # type: ignore[assignment]
    for module in (capture, graphs, prompt_graphs, vision):
        module.Recorder = Tape  # type: ignore[attr-defined,misc]


def model_of(kind: str) -> Holotron:
    if kind == "axes":  # pictures have places in three axes, and deepstack nothing to add
        config = micro_config("qwen3-vl")
        assert isinstance(config.vision, QwenVisionConfig)
        rotated = AttentionConfig(4, 2, 16, rope_theta=1e2, qk_norm=True, sections=(4, 2, 2))
        decoder = replace(config.decoder, pattern="*-", attention=rotated, moe=None)
        return initialised(replace(config, decoder=decoder, vision=replace(config.vision, deepstack=())))
    config = micro_config(kind)
    decoder = replace(
        config.decoder,
        attention=AttentionConfig(heads=4, kv_heads=2, head_dim=16, rope_theta=1e4 if kind == "attention" else None),
        mamba=MambaConfig(heads=2, head_dim=8, state=16, groups=1, chunk=8) if "M" in config.decoder.pattern else None,
        moe=MoEConfig(experts=4, top_k=2, width=12, shared_width=8) if "E" in config.decoder.pattern else None,
    )
    return initialised(replace(config, decoder=decoder))


def initialised(config: ModelConfig) -> Holotron:
    torch.manual_seed(7)
    model = Holotron(config).float().eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            parameter.normal_(0, 1.0 if "embed" in name else 1.5 / parameter.shape[-1] ** 0.5)
    return model


def main(kind: str, option: str = "") -> None:
    model = model_of(kind)
    config = EngineConfig(
        page_size=16,
        kv_tokens=1024,
        state_rows=12,
        max_running=6,
        token_budget=48,
        graphs=True,
        overlap=True,
        replay=option == "replay",
    )
    on_cpu = dispatch._suits_triton
    on_triton()
    core = Core(model, config)
    MEMORIES.extend([*core.pools.cache.row_tensors, core.pools.cache.kv_ZL2zkD])
    greedy = SamplingParams(max_tokens=5, temperature=0, ignore_eos=True)
    said: list[Log] = []
    for turn in range(3):  # sessions come one after the other, so prompts run beside decodes; and go on
        asked: list[Asked] = []
        for n in range(4):
            sequence = core.sessions.open_ones.get(f"s{n}") or core.sessions.open(f"s{n}")
            core.sessions.append(sequence, words(19 + 7 * n, 5 * turn + n + 1))
            if n == 2:
                core.sessions.append(sequence, image_log(make_tile(turn)))
                core.sessions.append(sequence, Log([3, 4]))
            asked.append(Asked(core, sequence, greedy))
            core.step()
        for one in asked:
            one.finished(core)
            said.append(one.request.sequence.log.copy())
    core.check_integrity()
    captured = core.runner.captured_prompts
    assert len(captured) >= 2, captured
    assert any(shape.decodes for shape in captured), captured
    dispatch._suits_triton = on_cpu
    for log in said:
        assert_greedy(model, log, 5, 1e-3)
    print(f"{core.stats().iterations} iterations; graphs of {[tuple(shape) for shape in captured]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
