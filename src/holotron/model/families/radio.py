"""The RADIO vision tower in `config.json`, as Nemotron's vision-language families share it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holotron.errors import ConfigError
from holotron.model.config import ImageConfig, VisionConfig
from holotron.model.families.common import Fields

# Towers are named, not described, in published files.
_TOWERS = {
    "vit_huge_patch16_224": {"hidden": 1280, "layers": 32, "heads": 16, "mlp": 5120},
    "vit_large_patch16_224": {"hidden": 1024, "layers": 24, "heads": 16, "mlp": 4096},
    "vit_base_patch16_224": {"hidden": 768, "layers": 12, "heads": 12, "mlp": 3072},
    "vit_small_patch16_224": {"hidden": 384, "layers": 12, "heads": 6, "mlp": 1536},
}
_ALIASES = {"radio_v2.5-h": "vit_huge_patch16_224", "c-radio_v2-vlm-h": "vit_huge_patch16_224"}


def is_dynamic(data: Mapping[str, Any]) -> bool:
    """Dynamic resolution instead of tiles: the range of patches is what says so."""
    vision = data.get("vision_config")
    places = (vision, vision.get("args")) if isinstance(vision, Mapping) else ()
    return any(isinstance(place, Mapping) and place.get("min_num_patches") for place in places)


def read_vision(top: Fields, *, prefix: int, align_corners: bool) -> VisionConfig:
    """`prefix` and `align_corners` are the family's own, for files that do not say."""
    v = top.part("vision_config")
    arguments = v.part("args", optional=True)
    v.only("hidden_act", "gelu")
    if (scale := v.number("layerscale_value", default=1.0)) != 1:
        raise ConfigError(f"{v.where}: layerscale_value {scale:g} is not supported; layers are not scaled here")
    patch = vision_patch(top)
    if "hidden_size" in v.data and "num_hidden_layers" in v.data:
        hidden = v.integer("hidden_size")
        shape = {
            "hidden": hidden,
            "layers": v.integer("num_hidden_layers"),
            "heads": v.integer("num_attention_heads"),
            "mlp": v.integer("intermediate_size", default=round(hidden * v.number("mlp_ratio", default=4.0))),
        }
    else:
        name = str(arguments.get("model", default=v.get("model_name", "version", default="vit_huge_patch16_224")))
        name = _ALIASES.get(name, name)
        if name not in _TOWERS:
            raise ConfigError(f"{v.where}: unknown tower {name!r}; known are {sorted(_TOWERS)}")
        shape = _TOWERS[name]
    side = v.integer(
        "max_resolution", "cpe_max_size", "max_img_size", default=arguments.integer("cpe_max_size", default=2048)
    )
    if v.get("num_cls_tokens", "num_registers") is not None:  # as transformers counts them
        prefix = v.integer("num_cls_tokens", default=3) + _registers(v)
    return VisionConfig(
        **shape,
        patch=patch,
        grid=v.integer("position_grid", default=max(side // patch, 1)),
        prefix=v.integer("num_prefix_tokens", default=prefix),
        eps=v.number("layer_norm_eps", default=1e-6),
        align_corners=v.flag("position_align_corners", default=align_corners),
    )


def vision_patch(top: Fields) -> int:
    """Pixels to a side of what the tower reads at once."""
    return top.integer("patch_size", default=top.part("vision_config").integer("patch_size", default=16))


def _registers(v: Fields) -> int:
    return 0 if v.get("num_registers") == 0 else v.integer("num_registers", default=7)


def write_vision(v: VisionConfig, image: ImageConfig) -> dict[str, Any]:
    """Sizes in words, which we and transformers read, and as the tower's name and arguments, which vLLM and SGLang
    read. (A tower of a size that they have no name for does not open there.)"""
    shape = {"hidden": v.hidden, "layers": v.layers, "heads": v.heads, "mlp": v.mlp}
    patches = {"min_num_patches": image.min_patches, "max_num_patches": image.max_patches} if image.dynamic else {}
    return {
        "args": {
            "model": next((name for name, known in _TOWERS.items() if known == shape), None),
            "cpe_max_size": v.grid * v.patch,
            # One class token; with the registers it makes a full multiple.
            "register_multiple": v.prefix if v.prefix > 1 else None,
            "cls_token_per_teacher": False,
            "teachers": [],
            **patches,
        },
        "preferred_resolution": [image.tile_size, image.tile_size],
        # The same for transformers.
        "mlp_ratio": v.mlp / v.hidden,
        "max_img_size": v.grid * v.patch,
        "num_cls_tokens": 1,
        "num_registers": v.prefix - 1,
        "summary_idxs": [0],
        "model_type": "radio",
        "hidden_size": v.hidden,
        "num_hidden_layers": v.layers,
        "num_attention_heads": v.heads,
        "intermediate_size": v.mlp,
        "patch_size": v.patch,
        "position_grid": v.grid,
        "num_prefix_tokens": v.prefix,
        "layer_norm_eps": v.eps,
        "position_align_corners": v.align_corners,
    }
