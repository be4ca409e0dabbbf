"""Named configurations: the published models (described with their families), and small ones of the same shape for
tests and laptops."""

from __future__ import annotations

from holotron.errors import ConfigError
from holotron.model.config import (
    AttentionConfig,
    DecoderConfig,
    DeltaConfig,
    ImageConfig,
    MambaConfig,
    MLPConfig,
    ModelConfig,
    MoEConfig,
    ProjectorConfig,
    QwenVisionConfig,
    TokenIds,
    VisionConfig,
)
from holotron.model.families.nemotron_h import nemotron_3_nano_30b_a3b
from holotron.model.families.nemotron_omni import holotron_3_nano
from holotron.model.families.nemotron_vl import PATTERN_12B, holotron_12b
from holotron.model.families.qwen3 import holo2_8b_text
from holotron.model.families.qwen3_5_vl import holo4_27b, holo31_08b, holo31_4b, holo31_9b, holo31_35b_a3b
from holotron.model.families.qwen3_vl import holo2_4b, holo2_8b, holo2_30b_a3b
from holotron.model.processor.smart_resize import MEAN, STD
from holotron.registry import did_you_mean


def holotron_mini() -> ModelConfig:
    """The small policy: 11M parameters, bytes for tokens, 100 tokens for a tile of 320x320 pixels.

    Made for screens of about 160x160 CSS pixels at scale 2, one tile in which a letter is a patch wide; a page of twice
    the size is four tiles and a thumbnail. Reading small print is the hard part, so the tower gets nearly half of the
    parameters. Three attention layers among the Mamba layers: copying a
    string needs at least two.
    """
    return ModelConfig(
        name="holotron-mini",
        decoder=DecoderConfig(
            vocab=320,
            hidden=256,
            pattern="M-M*-M*-M*-M-",
            mamba=MambaConfig(heads=8, head_dim=64, state=64, groups=1, chunk=64),
            attention=AttentionConfig(heads=4, kv_heads=2, head_dim=64),
            mlp=MLPConfig(1024),
            max_positions=16_384,
        ),
        vision=VisionConfig(hidden=256, layers=6, heads=8, mlp=1024, patch=16, grid=20, prefix=4),
        projector=ProjectorConfig(512),
        image=ImageConfig(tile_size=320, patch_size=16, max_tiles=4),
        tokens=TokenIds(image=256, image_start=257, image_end=258, bos=259, eos=(260,), first_unsampled=None),
    )


def tiny() -> ModelConfig:
    """Every kind of part in a few hundred thousand parameters; bytes for tokens. For tests and first steps."""
    return ModelConfig(
        name="tiny",
        decoder=DecoderConfig(
            vocab=320,
            hidden=64,
            pattern="M-M*-M-",
            mamba=MambaConfig(heads=8, head_dim=16, state=16, groups=2, chunk=32),
            attention=AttentionConfig(heads=4, kv_heads=2, head_dim=16),
            mlp=MLPConfig(128),
            max_positions=32_768,
        ),
        vision=VisionConfig(hidden=48, layers=2, heads=4, mlp=96, patch=8, grid=8, prefix=2),
        projector=ProjectorConfig(128),
        image=ImageConfig(tile_size=64, patch_size=8, max_tiles=4),
        tokens=TokenIds(image=256, image_start=257, image_end=258, bos=259, eos=(260,), first_unsampled=None),
    )


def tiny_transformer() -> ModelConfig:
    """A Qwen3-style decoder of the same size as `tiny`, without vision."""
    return ModelConfig(
        name="tiny-transformer",
        family="qwen3",
        decoder=DecoderConfig(
            vocab=320,
            hidden=64,
            pattern="*-" * 4,
            attention=AttentionConfig(heads=4, kv_heads=2, head_dim=16, rope_theta=10_000.0, qk_norm=True),
            mlp=MLPConfig(160, "swiglu"),
            eps=1e-6,
            max_positions=32_768,
        ),
        tokens=TokenIds(image=256, image_start=257, image_end=258, bos=259, eos=(260,), first_unsampled=None),
    )


_BYTES = TokenIds(image=256, image_start=257, image_end=258, bos=None, eos=(260,))
_SEEN = ImageConfig(256, 8, min_pixels=32 * 32, max_pixels=256 * 256, mean=MEAN, std=STD)


def tiny_qwen3_vl() -> ModelConfig:
    """Qwen3-VL as small as `tiny`: deepstack, positions in three axes, pictures at their own size."""
    return ModelConfig(
        name="tiny-qwen3-vl",
        family="qwen3_vl",
        decoder=DecoderConfig(
            vocab=320,
            hidden=64,
            pattern="*-" * 4,
            attention=AttentionConfig(4, 2, head_dim=24, rope_theta=1e4, qk_norm=True, sections=(4, 4, 4)),
            mlp=MLPConfig(160, "swiglu"),
            eps=1e-6,
            max_positions=32_768,
        ),
        vision=QwenVisionConfig(hidden=48, layers=3, heads=4, mlp=96, patch=8, grid=8, deepstack=(0, 1)),
        image=_SEEN,
        tokens=_BYTES,
    )


def tiny_qwen3_5() -> ModelConfig:
    """Qwen3.5 as small as `tiny`: Gated DeltaNet, gated attention, experts."""
    return ModelConfig(
        name="tiny-qwen3.5",
        family="qwen3_5_vl",
        decoder=DecoderConfig(
            vocab=320,
            hidden=64,
            pattern="GEGE*E",
            delta=DeltaConfig(key_heads=2, value_heads=4, key_dim=16, value_dim=16),
            attention=AttentionConfig(
                4, 2, head_dim=24, rope_theta=1e4, qk_norm=True, rotary_dim=12, gated=True, sections=(2, 2, 2)
            ),
            moe=MoEConfig(
                4, top_k=2, width=48, shared_width=32, scoring="softmax", activation="swiglu", shared_gate=True
            ),
            eps=1e-6,
            centred_norms=True,
            max_positions=32_768,
        ),
        vision=QwenVisionConfig(hidden=48, layers=2, heads=4, mlp=96, patch=8, grid=8),
        image=_SEEN,
        tokens=_BYTES,
    )


def small_30m() -> ModelConfig:
    """About 30M parameters in the proportions of the 12B: its 62-layer pattern, hidden size, inner width and MLP a
    twentieth as wide, 16 heads to a group and 128 state entries as there."""
    return ModelConfig(
        name="small-30m",
        family="nemotron_h",
        decoder=DecoderConfig(
            vocab=8192,
            hidden=256,
            pattern=PATTERN_12B,
            mamba=MambaConfig(heads=32, head_dim=16, state=128, groups=2, chunk=32),
            attention=AttentionConfig(heads=5, kv_heads=1, head_dim=52),
            mlp=MLPConfig(1024),
        ),
        tokens=TokenIds(first_unsampled=None),
    )


PRESETS = {
    "holotron-12b": holotron_12b,
    "holotron-3-nano": holotron_3_nano,
    "holotron-mini": holotron_mini,
    "nemotron-3-nano-30b-a3b": nemotron_3_nano_30b_a3b,
    "holo2-4b": holo2_4b,
    "holo2-8b": holo2_8b,
    "holo2-8b-text": holo2_8b_text,
    "holo2-30b-a3b": holo2_30b_a3b,
    "holo3.1-0.8b": holo31_08b,
    "holo3.1-4b": holo31_4b,
    "holo3.1-9b": holo31_9b,
    "holo3.1-35b-a3b": holo31_35b_a3b,
    "holo4-27b": holo4_27b,
    "small-30m": small_30m,
    "tiny": tiny,
    "tiny-transformer": tiny_transformer,
    "tiny-qwen3-vl": tiny_qwen3_vl,
    "tiny-qwen3.5": tiny_qwen3_5,
}


def preset(name: str) -> ModelConfig:
    if name not in PRESETS:
        raise ConfigError(f"there is no preset {name!r}: {did_you_mean(name, PRESETS)}")
    return PRESETS[name]()
