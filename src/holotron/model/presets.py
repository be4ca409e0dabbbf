"""Named configurations: the published models, and small ones of the same shape for tests and laptops."""

from __future__ import annotations

from holotron.errors import ConfigError
from holotron.model.config import (
    AttentionConfig,
    DecoderConfig,
    ImageConfig,
    MambaConfig,
    MLPConfig,
    ModelConfig,
    MoEConfig,
    ProjectorConfig,
    TokenIds,
    VisionConfig,
)

PATTERN_12B = "M-M-M-M*-" * 6 + "M-M-M-M-"
PATTERN_30B = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"


def holotron_12b() -> ModelConfig:
    """Holotron-12B: Nemotron-H hybrid decoder, RADIO ViT-H tower, two-layer projector."""
    return ModelConfig(
        name="holotron-12b",
        decoder=DecoderConfig(
            vocab=131_200,  # 131,072 text tokens, then image tokens, padded; a real checkpoint's tensors decide
            hidden=5120,
            pattern=PATTERN_12B,
            mamba=MambaConfig(heads=128, head_dim=80, state=128, groups=8),
            attention=AttentionConfig(heads=40, kv_heads=8, head_dim=128),
            mlp=MLPConfig(20480),
        ),
        vision=VisionConfig(),
        projector=ProjectorConfig(20480),
        tokens=TokenIds(),
    )


def nemotron_3_nano_30b_a3b() -> ModelConfig:
    """The decoder of the next base: 30B parameters, 3B active, mixture of experts instead of MLPs."""
    return ModelConfig(
        name="nemotron-3-nano-30b-a3b",
        family="nemotron_h",
        decoder=DecoderConfig(
            vocab=131_072,
            hidden=2688,
            pattern=PATTERN_30B,
            mamba=MambaConfig(heads=64, head_dim=64, state=128, groups=8),
            attention=AttentionConfig(heads=32, kv_heads=2, head_dim=128),
            moe=MoEConfig(experts=128, top_k=6, width=1856, shared_width=3712, scale=2.5),
            max_positions=262_144,
        ),
        tokens=TokenIds(image=18, image_start=21, image_end=22, eos=(11,), first_unsampled=None),
    )


def holo2_8b() -> ModelConfig:
    """The decoder of Holo2-8B (Qwen3-8B): the transformer that the hybrid is compared with."""
    return ModelConfig(
        name="holo2-8b",
        family="qwen3",
        decoder=DecoderConfig(
            vocab=151_936,
            hidden=4096,
            pattern="*-" * 36,
            attention=AttentionConfig(heads=32, kv_heads=8, head_dim=128, rope_theta=1_000_000.0, qk_norm=True),
            mlp=MLPConfig(12288, "swiglu"),
            eps=1e-6,
            max_positions=262_144,
        ),
        tokens=TokenIds(151_655, 151_652, 151_653, bos=None, eos=(151_645,), first_unsampled=151_669),
    )


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
    "holotron-mini": holotron_mini,
    "nemotron-3-nano-30b-a3b": nemotron_3_nano_30b_a3b,
    "holo2-8b": holo2_8b,
    "small-30m": small_30m,
    "tiny": tiny,
    "tiny-transformer": tiny_transformer,
}


def preset(name: str) -> ModelConfig:
    if name not in PRESETS:
        raise ConfigError(f"there is no preset {name!r}; there are: {', '.join(PRESETS)}")
    return PRESETS[name]()
