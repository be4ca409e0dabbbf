"""Families that see pictures at their own size learn (Qwen3-VL, Qwen3.5, Nemotron Omni): from conversations, whole or
with adapters, and from rewards; and the engine says of every token what the trainer says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from holotron.engine import Engine, EngineConfig, SamplingParams
from holotron.engine.sampler import never_sampled
from holotron.model.config import ImageConfig, ModelConfig, MoEConfig, VisionConfig
from holotron.model.loading import byte_processor, load_model
from holotron.model.presets import preset
from holotron.model.weights import random_model, save_checkpoint
from holotron.training.batches import Batch, pack
from holotron.training.curves import read_metrics
from holotron.training.distributed import Ranks
from holotron.training.generate import greedy
from holotron.training.learner import Learner
from holotron.training.mixture import _pack, _unpack
from holotron.training.rl.objective import Drawing
from holotron.training.rl.record import Rollout, SampledTurn
from holotron.training.rl.successes import _from_arrays, _to_arrays
from holotron.training.rl.weights import disagreement
from holotron.training.samples import Sample
from holotron.training.stream import conversation_sample
from holotron.training.trainer import Trainer
from holotron.types import Outcome, Task
from tests.training.rl.support import two_updates, untrained
from tests.training.support import conversation_recipe, write_conversations

SOFTMAX: dict[str, Any] = {"scoring": "softmax", "activation": "swiglu"}


def config(kind: str) -> ModelConfig:
    """All kinds, less deep than the presets."""
    if kind == "omni":
        return omni()
    made = preset("tiny-qwen3-vl" if kind.startswith("vl") else "tiny-qwen3.5")
    d = made.decoder
    match kind:
        case "vl":
            decoder = replace(d, pattern="*-*-*-")  # deepstack writes behind the first two
        case "vl-experts":
            decoder = replace(d, pattern="*E*E*E", mlp=None, moe=MoEConfig(4, 2, 48, shared_width=0, **SOFTMAX))
        case "3.5":
            decoder = replace(d, pattern="G-*-", moe=None, mlp=preset("tiny-qwen3-vl").decoder.mlp)
        case _:
            decoder = replace(d, pattern="GE*E")
    return replace(made, name="", decoder=decoder)


def omni() -> ModelConfig:
    """A RADIO tower at dynamic resolution before Mamba-2, attention and experts."""
    made = preset("tiny")
    assert isinstance(made.vision, VisionConfig)
    experts = MoEConfig(experts=4, top_k=2, width=32, shared_width=32, scale=1.5)
    return replace(
        made,
        name="",
        family="nemotron_omni",
        decoder=replace(made.decoder, pattern="ME*E", mlp=None, moe=experts),
        vision=replace(made.vision, align_corners=False),
        image=ImageConfig(tile_size=64, patch_size=8, min_patches=16, max_patches=256),
    )


KINDS = ["vl", "vl-experts", "3.5", "3.5-experts", "omni"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_conversations(tmp_path_factory.mktemp("data"), 12)


@pytest.mark.parametrize("lora", [None, {"rank": 4, "alpha": 8}], ids=["full", "lora"])
@pytest.mark.parametrize("kind", KINDS)
def test_it_learns_from_conversations(kind: str, lora: dict[str, Any] | None, data: Path, tmp_path: Path) -> None:
    start = tmp_path / "start"
    save_checkpoint(random_model(config(kind)), start)
    byte_processor(config(kind)).save(start)
    changes: dict[str, Any] = {
        "model": {"source": str(start), "checkpoint_layers": True},
        "schedule": {"steps": 4, "warmup": 1},
        "optimiser": {"lr": 5e-3 if lora is None else 2e-2},
    }
    recipe = conversation_recipe(data, **changes | ({"lora": lora} if lora else {}))
    Trainer(recipe, tmp_path / "run", Ranks()).run()
    losses = [row["loss/reply"] for row in read_metrics(tmp_path / "run") if "loss/reply" in row]
    assert losses[-1] < 0.95 * losses[0], losses
    before, _ = load_model(start, device="cpu")
    after, _ = load_model(tmp_path / "run" / "model", device="cpu")
    changed = {
        name
        for (name, old), new in zip(before.named_parameters(), after.parameters(), strict=True)
        if not torch.equal(old, new)
    }
    if lora is None:  # gradients reach all of the tower, and every level of deepstack
        assert {name for name, _ in before.named_parameters() if name.startswith(("vision_model.", "mlp1."))} <= changed
    else:
        assert changed and all(name.startswith("language_model.") for name in changed)


@pytest.mark.parametrize("kind", KINDS)
def test_it_learns_from_rewards(kind: str, tmp_path: Path) -> None:
    start = untrained(tmp_path / "start", config(kind))
    two_updates(start, tmp_path / "run")
    rows = [row for row in read_metrics(tmp_path / "run") if "update/ratio" in row]
    assert rows[0]["update/error"] == pytest.approx(1.0, abs=1e-3)
    assert all(1.0 <= row["update/agreement"] <= 1.001 for row in rows[1:])


@pytest.mark.parametrize("kind", KINDS)
def test_engine_and_trainer_agree(kind: str) -> None:
    """A session with several pictures, sampled in chunks that cut them, and the same log as one row of training."""
    model, processor = random_model(config(kind), seed=3).eval(), byte_processor(config(kind))
    settings = EngineConfig(page_size=16, kv_tokens=4096, state_rows=8, token_budget=24, max_running=8)
    turns = []
    with Engine(model, processor, settings) as engine, engine.open() as session:
        for n in range(3):
            shot = picture(n, 32 + 16 * n, 80)
            prompt = processor.render([{"role": "user", "content": [{"type": "image", "image": shot}, f"{n}?"]}])
            session.append(prompt)
            sampling = SamplingParams(max_tokens=9, temperature=1.0, seed=n, ignore_eos=True, policy_logprobs=True)
            result = session.generate(sampling).result()
            turns.append(SampledTurn(prompt, result))
    rollout = Rollout(Task("t", "t"), False, Outcome.FAILURE, (), {})
    learner = Learner(model.requires_grad_(True))
    assert disagreement(learner, turns, rollout, Drawing(1.0, never_sampled(model))) <= 1.001


# ---------------------------------------------------------------------------------------------------- several sizes


def picture(seed: int, height: int, width: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def talk(seed: int, *sizes: tuple[int, int]) -> list[dict[str, Any]]:
    shots = [{"type": "image", "image": picture(seed + n, *size)} for n, size in enumerate(sizes)]
    return [{"role": "user", "content": [*shots, "which?"]}, {"role": "assistant", "content": f"answer {seed}"}]


@pytest.mark.parametrize("kind", ["vl", "3.5", "omni"])
def test_a_batch_of_pictures_of_several_sizes_is_each_by_itself(kind: str) -> None:
    model, processor = random_model(config(kind), dtype=torch.float64).eval(), byte_processor(config(kind))
    learner = Learner(model)
    talks = [talk(0, (32, 48), (64, 32)), talk(5, (48, 48)), talk(9, (32, 48))]
    samples = [conversation_sample(processor, each) for each in talks]
    samples.append(conversation_sample(processor, [{"role": "user", "content": "?"}, *talks[0][1:]]))  # without any
    samples = list(_unpack(_pack(samples), torch.device("cpu")))  # as they come from a worker
    batch, alone = packed(samples, model.config), [packed([sample], model.config) for sample in samples]
    assert batch.sizes is not None
    losses = [learner(b, learner.pixels(b.tiles_n3HW) if len(b.tiles_n3HW) else None)[0] for b in (batch, *alone)]
    torch.testing.assert_close(losses[0], torch.stack(losses[1:]).sum(), atol=1e-9, rtol=0)
    assert torch.equal(learner.counts(batch), torch.stack([learner.counts(b) for b in alone]).sum(0))
    asked = [(sample, sample.sequences[0]) for sample in samples]
    together = greedy(learner, asked, [260], 5)
    assert together == [greedy(learner, [one], [260], 5)[0] for one in asked]
    with torch.no_grad():  # and what is said is what the network says when it is run alone
        prompt = processor.render(talks[0][:1])
        ids = torch.tensor([*prompt.ids, *together[0]])
        logits = model(ids, pixels=[learner.pixels(image.tiles) for image in prompt.images])
    assert logits[len(prompt.ids) - 1 : -1].argmax(-1).tolist() == together[0]


def packed(samples: list[Sample], config: ModelConfig) -> Batch:
    return pack(
        [sample.tiles for sample in samples],
        [sample.sequences for sample in samples],
        [None] * len(samples),
        config=config,
        device=torch.device("cpu"),
        sizes=[sample.sizes for sample in samples],
    )


def test_a_success_with_pictures_of_several_sizes_is_kept_whole() -> None:
    processor = byte_processor(config("vl"))
    prompt = processor.render(talk(0, (32, 48), (64, 32))[:1])
    tiles = {key: tile for image in prompt.images for key, tile in zip(image.keys, image.tiles, strict=True)}
    rollout = Rollout(Task("t", "t", "goal", 3), True, Outcome.SUCCESS, (), tiles, 2)
    back = _from_arrays(_to_arrays(rollout)).tiles
    assert {key: tile.shape for key, tile in back.items()} == {key: tile.shape for key, tile in tiles.items()}
    assert all(torch.equal(back[key], tiles[key]) for key in tiles)
