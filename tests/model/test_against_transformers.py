"""Exact agreement with an independent implementation, in fp32 on the CPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from holotron.model.config import (
    AttentionConfig,
    DecoderConfig,
    DeltaConfig,
    MambaConfig,
    MLPConfig,
    ModelConfig,
    MoEConfig,
    TokenIds,
)
from holotron.model.model import Holotron
from holotron.model.presets import tiny, tiny_transformer
from holotron.model.vision import pixel_shuffle
from holotron.model.weights import random_model
from tests.model.oracle import their_omni, theirs, unsettle

TOLERANCE = 1e-4
LENGTH = 45

MAMBA = MambaConfig(heads=8, head_dim=10, state=16, groups=2, chunk=8)
ATTENTION = AttentionConfig(heads=6, kv_heads=2, head_dim=12)


def text_model(pattern: str, **parts: object) -> ModelConfig:
    decoder = DecoderConfig(vocab=97, hidden=40, pattern=pattern, **parts)  # type: ignore[arg-type]
    return ModelConfig(decoder=decoder, family="nemotron_h", tokens=TokenIds(first_unsampled=None))


QWEN_EXPERTS = MoEConfig(
    experts=6, top_k=2, width=24, shared_width=16, scoring="softmax", activation="swiglu", shared_gate=True
)


def gated(pattern: str, **parts: object) -> ModelConfig:
    """Qwen3.5: Gated DeltaNet, gated attention of which a part is rotated, norms around one."""
    decoder = DecoderConfig(
        vocab=97,
        hidden=40,
        pattern=pattern,
        delta=DeltaConfig(key_heads=2, value_heads=6, key_dim=8, value_dim=12, chunk=16),
        attention=AttentionConfig(6, 2, 16, rope_theta=1e4, qk_norm=True, rotary_dim=4, gated=True),
        eps=1e-6,
        centred_norms=True,
        **parts,  # type: ignore[arg-type]
    )
    return ModelConfig(decoder=decoder, family="qwen3_5", tokens=TokenIds(bos=None, eos=(3,), first_unsampled=None))


CONFIGS = {
    "hybrid, head_dim 10": text_model("M-M*-M-", mamba=MAMBA, attention=ATTENTION, mlp=MLPConfig(96)),
    "four groups, odd sizes": text_model(
        "M*-M-",
        mamba=MambaConfig(heads=12, head_dim=7, state=20, groups=4, chunk=16),
        attention=AttentionConfig(heads=5, kv_heads=1, head_dim=9),
        mlp=MLPConfig(50),
    ),
    "mixture of experts": text_model(
        "ME*EM",
        mamba=MAMBA,
        attention=ATTENTION,
        moe=MoEConfig(experts=8, top_k=3, width=24, shared_width=32, scale=2.5),
    ),
    "grouped experts in a latent space": text_model(
        "MEM*E",
        mamba=MAMBA,
        attention=ATTENTION,
        moe=MoEConfig(experts=8, top_k=2, width=24, shared_width=32, scale=1.5, groups=4, top_groups=2, latent=16),
    ),
    "qwen3": replace(tiny_transformer(), name=""),
    "qwen3.5": gated("G-G-*-G-", mlp=MLPConfig(50, "swiglu")),
    "qwen3.5 with experts": gated("GEGE*E", moe=QWEN_EXPERTS),
}


def build(name: str, folder: Path) -> tuple[Holotron, torch.nn.Module, torch.Tensor]:
    model = unsettle(random_model(CONFIGS[name]).eval(), seed=len(name))
    ids = torch.randint(0, 97, (LENGTH,), generator=torch.Generator().manual_seed(1))
    return model, theirs(model, folder), ids


@pytest.mark.parametrize("name", CONFIGS)
@torch.no_grad()
def test_whole_sequence(name: str, tmp_path: Path) -> None:
    model, oracle, ids = build(name, tmp_path)
    torch.testing.assert_close(model(ids), oracle(ids[None]).logits[0], atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("name", CONFIGS)
@torch.no_grad()
def test_chunked_prefill_then_decode(name: str, tmp_path: Path) -> None:
    """Both sides carry a cache: two prefill chunks, then token by token."""
    model, oracle, ids = build(name, tmp_path)
    state, cache = model.new_state(), None
    for piece in ids.split([20, 13] + [1] * (LENGTH - 33)):
        reply = oracle(piece[None], past_key_values=cache, use_cache=True)
        cache = reply.past_key_values
        torch.testing.assert_close(model(piece, state=state), reply.logits[0], atol=TOLERANCE, rtol=0)


def vision_language() -> ModelConfig:
    config = tiny()
    assert config.vision is not None
    # Their tower resamples positions without aligned corners.
    return replace(config, vision=replace(config.vision, align_corners=False))


@pytest.mark.parametrize("size", [(64, 64), (32, 64), (96, 32)])
@torch.no_grad()
def test_tower_shuffle_projector_and_merge(size: tuple[int, int], tmp_path: Path) -> None:
    """A picture of any shape through the whole model: vision tower, shuffle, projector, merge, decoder."""
    model = unsettle(random_model(vision_language()).eval())
    oracle = their_omni(model, tmp_path)
    patch, tokens = model.config.vision.patch, model.config.tokens  # type: ignore[union-attr]
    height, width = size
    rows, columns = height // patch, width // patch
    pixels = torch.randn(1, 3, height, width, generator=torch.Generator().manual_seed(2))
    flat = pixels[0].view(3, rows, patch, columns, patch).permute(1, 3, 0, 2, 4).reshape(rows * columns, -1)
    grid = torch.tensor([[rows, columns]])

    expected = torch.cat(list(oracle.get_image_features(flat, image_grid_hw=grid).pooler_output))
    mine = model.encode_tiles(pixels)
    torch.testing.assert_close(mine, expected, atol=TOLERANCE, rtol=0)

    placeholders = [tokens.image] * (rows * columns // 4)
    ids = torch.tensor([5, 6, tokens.image_start, *placeholders, tokens.image_end, 7, 8, 9])
    reply = oracle(input_ids=ids[None], pixel_values=flat, image_grid_hw=grid)
    torch.testing.assert_close(model(ids, pixels=pixels), reply.logits[0], atol=TOLERANCE, rtol=0)


def test_pixel_shuffle_keeps_rows_and_columns_apart() -> None:
    features = torch.arange(4 * 6, dtype=torch.float32).view(1, 24, 1)  # 4 rows, 6 columns
    shuffled = pixel_shuffle(features, 4, 6, 2)
    assert shuffled.tolist() == [
        [[0, 1, 6, 7], [2, 3, 8, 9], [4, 5, 10, 11], [12, 13, 18, 19], [14, 15, 20, 21], [16, 17, 22, 23]]
    ]


def test_aligned_corners_change_the_positions() -> None:
    """The flag is real: the two conventions give different tables, and agree where nothing is resampled."""
    on, off = tiny(), vision_language()
    a, b = unsettle(random_model(on).eval()), unsettle(random_model(off).eval())
    generators = [m.vision_model.radio_model.model.patch_generator for m in (a, b)]  # type: ignore[union-attr]
    assert torch.equal(generators[0].positions(8, 8), generators[1].positions(8, 8))
    assert not torch.allclose(generators[0].positions(4, 4), generators[1].positions(4, 4), atol=1e-2)
    assert torch.equal(generators[0].positions(4, 2), generators[0].positions(4, 4).view(4, 4, -1)[:, :2].flatten(0, 1))
