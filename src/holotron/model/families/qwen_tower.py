"""What Qwen3-VL and Qwen3.5 share around their decoders: the vision tower and the rotation in `config.json`, and the
names of tensors in the composite checkpoint."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from holotron.errors import ConfigError
from holotron.model.config import QwenVisionConfig, TokenIds
from holotron.model.families.base import ImageTokens
from holotron.model.families.common import Fields
from holotron.model.families.rope import read_rope
from holotron.model.processor.tiling import ImageConfig
from holotron.model.qwen_vision import THETA

# As transformers called them before the composite had a model of its own, and with a text model inside; lm_head apart.
COMPOSITE_SPELLINGS = (
    (r"(?:model\.)?language_model\.model\.", "model.language_model."),
    (r"(?:model\.)?language_model\.lm_head\.", "lm_head."),
    (r"language_model\.", "model.language_model."),
    (r"model\.(?=layers\.|embed_tokens\.|norm\.)", "model.language_model."),
    (r"visual\.", "model.visual."),
)
# A decoder that was taken out of the composite with its names.
TEXT_SPELLINGS = (
    (r"(?:model\.)?language_model\.lm_head\.", "lm_head."),
    (r"(?:model\.)?language_model\.(?:model\.)?", "model."),
)

PATCH, MERGE = 16, 2  # where no file says

IMAGE_TOKENS = ImageTokens("<|image_pad|>", "<|vision_start|>", "<|vision_end|>")


def read_vision(top: Fields, hidden: int, *, deepstack: tuple[int, ...] = ()) -> QwenVisionConfig:
    """`hidden`: of the decoder, which the tower's mergers write for; `deepstack` is the family's, for files that do not
    say."""
    v = top.part("vision_config")
    v.only("hidden_act", "gelu_pytorch_tanh")
    if (theta := read_rope(v, theta=THETA, kinds=("axial", "default")).theta) != THETA:
        raise ConfigError(f"{v.where}: rope_theta must be {THETA:g}, found {theta:g}")
    if v.integer("in_channels", default=3) != 3:
        raise ConfigError(f"{v.where}: in_channels must be 3, found {v.get('in_channels')!r}")
    if (out := v.integer("out_hidden_size", default=hidden)) != hidden:
        raise ConfigError(f"{v.where}: out_hidden_size is {out}, but the decoder's hidden_size is {hidden}")
    table = v.integer("num_position_embeddings", default=2304)
    if math.isqrt(table) ** 2 != table:
        raise ConfigError(f"{v.where}: num_position_embeddings {table} is not the square of a grid")
    levels = v.get("deepstack_visual_indexes", default=deepstack)
    if not isinstance(levels, list | tuple) or not all(type(layer) is int for layer in levels):
        raise ConfigError(f"{v.where}: deepstack_visual_indexes must be a list of layers, found {levels!r}")
    width, heads = v.integer("hidden_size", default=1152), v.integer("num_heads", "num_attention_heads", default=16)
    if (other := v.integer("num_attention_heads", default=heads)) != heads:
        raise ConfigError(f"{v.where}: num_heads is {heads} and num_attention_heads {other}; keep one of them")
    if (size := v.integer("head_dim", default=max(1, width // heads))) != max(1, width // heads):
        raise ConfigError(f"{v.where}: head_dim {size} is not supported; {heads} heads share the width of {width}")
    return QwenVisionConfig(
        hidden=width,
        layers=v.integer("depth", "num_hidden_layers", default=27),
        heads=heads,
        mlp=v.integer("intermediate_size", default=4304),
        patch=v.integer("patch_size", default=PATCH),
        frames=v.integer("temporal_patch_size", default=2),
        merge=v.integer("spatial_merge_size", default=MERGE),
        grid=math.isqrt(table),
        deepstack=tuple(levels),
    )


def read_images(top: Fields, preprocessor: Mapping[str, Any] | None) -> ImageConfig:
    """Pictures are cut for the tower, whatever the preprocessor's file says of its sizes."""
    v = top.part("vision_config")
    sizes = {
        name: v.integer(name, default=size) for name, size in (("patch_size", PATCH), ("spatial_merge_size", MERGE))
    }
    return ImageConfig.from_hf({**top.data, "vision_config": sizes}, preprocessor)


def write_vision(v: QwenVisionConfig, hidden: int, model_type: str) -> dict[str, Any]:
    return {
        "model_type": model_type,
        "depth": v.layers,
        "hidden_size": v.hidden,
        "hidden_act": "gelu_pytorch_tanh",
        "intermediate_size": v.mlp,
        "num_heads": v.heads,
        "in_channels": 3,
        "patch_size": v.patch,
        "spatial_merge_size": v.merge,
        "temporal_patch_size": v.frames,
        "out_hidden_size": hidden,
        "num_position_embeddings": v.grid**2,
        "deepstack_visual_indexes": list(v.deepstack),
    }


MROPE = ("default", "mrope")  # what files call it


def read_sections(rope: Fields, default: tuple[int, int, int]) -> tuple[int, int, int]:
    """Of M-RoPE; its interleaved form is the only one there is in these families."""
    if rope.get("mrope_interleaved") is False:
        raise ConfigError(
            f"{rope.where}: mrope_interleaved false is not supported; this family's M-RoPE is interleaved"
        )
    sections = rope.get("mrope_section", default=default)
    if not isinstance(sections, list | tuple) or len(sections) != 3 or not all(type(n) is int for n in sections):
        raise ConfigError(f"{rope.where}: mrope_section must be three numbers of pairs, found {sections!r}")
    return sections[0], sections[1], sections[2]


def write_tokens(tokens: TokenIds) -> dict[str, Any]:
    return {
        "image_token_id": tokens.image,
        "video_token_id": tokens.image + 1,
        "vision_start_token_id": tokens.image_start,
        "vision_end_token_id": tokens.image_end,
        "first_unsampled_token_id": tokens.first_unsampled,
    }


def composite_key(parameter: str, text_key: str | None) -> str:
    """What the composite checkpoint calls a parameter; `text_key` is what the text model alone calls it."""
    if text_key is None:
        return "model.visual." + parameter.partition(".")[2]
    return text_key if text_key.startswith("lm_head.") else "model.language_model." + text_key.removeprefix("model.")
