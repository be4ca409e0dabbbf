"""Hugging Face's `config.json` to `ModelConfig` and back.

Several generations of files describe the same thing under different names; all spellings are accepted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from holotron.errors import ConfigError
from holotron.model import qwen3_5
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
from holotron.model.hf_json import read_json

_LETTERS = {
    "mamba": "M", "linear_attention": "M", "mamba2": "M",
    "attention": "*", "full_attention": "*",
    "mlp": "-", "moe": "E",
}  # fmt: skip

# Towers are named, not described, in published files.
_TOWERS = {
    "vit_huge_patch16_224": {"hidden": 1280, "layers": 32, "heads": 16, "mlp": 5120},
    "vit_large_patch16_224": {"hidden": 1024, "layers": 24, "heads": 16, "mlp": 4096},
    "vit_base_patch16_224": {"hidden": 768, "layers": 12, "heads": 12, "mlp": 3072},
}


class _Fields:
    """Look fields up by any of their names; say which names were tried when none is there."""

    def __init__(self, data: Mapping[str, Any], where: str) -> None:
        self.data, self.where = data, where

    def get(self, *names: str, default: Any = None) -> Any:
        for name in names:
            if self.data.get(name) is not None:
                return self.data[name]
        return default

    def need(self, *names: str) -> Any:
        value = self.get(*names)
        if value is None:
            raise ConfigError(f"{self.where} lacks {' / '.join(names)}")
        return value

    def integer(self, *names: str, default: int | None = None) -> int:
        value = self.get(*names, default=default) if default is not None else self.need(*names)
        if isinstance(value, bool) or not isinstance(value, int | float) or int(value) != value or value < 1:
            raise ConfigError(f"{self.where}: {names[0]} must be a positive whole number, found {value!r}")
        return int(value)


def load_config(path: str | Path) -> ModelConfig:
    """Read a checkpoint folder's `config.json` (or the file itself)."""
    path = Path(path)
    file = path / "config.json" if path.is_dir() else path
    return parse_config(read_json(file), str(file))


def parse_config(data: Mapping[str, Any], where: str = "config.json") -> ModelConfig:
    if qwen3_5.recognises(data):
        return ModelConfig(
            decoder=qwen3_5.decoder(_Fields(data, where)),
            tokens=_tokens(data, data, vision=False),
            name=str(data.get("_name_or_path", "")),
            family="qwen3_5",
            raw=dict(data),
        )
    top = _Fields(data, where)
    nested = top.get("llm_config", "text_config", "language_config")
    if nested is None:
        family = "qwen3" if _is_qwen3(data) else "nemotron_h"
        return ModelConfig(
            decoder=_decoder(data, where),
            tokens=_tokens(data, data, vision=False),
            name=str(top.get("_name_or_path", default="")),
            family=family,  # type: ignore[arg-type]
            raw=dict(data),
        )
    if not isinstance(nested, Mapping):
        raise ConfigError(f"{where}: llm_config must be an object, found {type(nested).__name__}")
    decoder = _decoder(nested, f"{where}: llm_config")
    if _is_qwen3(nested):
        raise ConfigError(
            f"{where}: the vision tower of Qwen3-VL is not supported; only its decoder is (as a text model)"
        )
    vision = _vision(top)
    shuffle = round(1 / float(top.get("downsample_ratio", default=0.5)))
    if top.get("ps_version", default="v2") != "v2":
        raise ConfigError(f"{where}: ps_version {data['ps_version']!r} is not supported; this family uses 'v2'")
    return ModelConfig(
        decoder=decoder,
        vision=vision,
        projector=ProjectorConfig(width=top.integer("projector_hidden_size", default=4096), shuffle=shuffle),
        image=ImageConfig.from_hf(dict(data)),
        tokens=_tokens(data, nested, vision=True),
        name=str(top.get("_name_or_path", default="")),
        family="nemotron_vl",
        raw=dict(data),
    )


def _is_qwen3(data: Mapping[str, Any]) -> bool:
    return str(data.get("model_type", "")).startswith("qwen3") or "Qwen3ForCausalLM" in (
        data.get("architectures") or []
    )


def _decoder(data: Mapping[str, Any], where: str) -> DecoderConfig:
    f = _Fields(data, where)
    if _is_qwen3(data):
        return _qwen3(f)
    pattern = _pattern(f)
    hidden = f.integer("hidden_size")
    mamba = attention = mlp = moe = None
    if "M" in pattern:
        mamba = MambaConfig(
            heads=f.integer("mamba_num_heads", "mamba_n_heads"),
            # `expand` also appears in these files and is wrong for some sizes: heads x head_dim is the inner width.
            head_dim=f.integer("mamba_head_dim", "mamba_d_head"),
            state=f.integer("ssm_state_size", "mamba_d_state", "state_size"),
            groups=f.integer("n_groups", "mamba_n_groups", "mamba_num_groups"),
            kernel=f.integer("conv_kernel", "mamba_d_conv", default=4),
            conv_bias=bool(f.get("use_conv_bias", "mamba_conv_bias", default=True)),
            chunk=f.integer("chunk_size", "mamba_chunk_size", default=128),
        )
        if f.get("use_bias", "mamba_proj_bias", default=False):
            raise ConfigError(f"{where}: biases in the Mamba projections are not part of this family")
    if "*" in pattern:
        heads = f.integer("num_attention_heads")
        attention = AttentionConfig(
            heads=heads,
            kv_heads=f.integer("num_key_value_heads", default=heads),
            head_dim=f.integer("head_dim", "attention_head_dim", default=max(1, hidden // heads)),
        )
    if "-" in pattern:
        activation = f.get("mlp_hidden_act", default="relu2")
        if activation != "relu2":
            raise ConfigError(f"{where}: mlp_hidden_act {activation!r} is not supported; this family uses 'relu2'")
        mlp = MLPConfig(_mlp_width(f))
    if "E" in pattern:
        width = f.integer("moe_intermediate_size")
        shared = f.integer("n_shared_experts", default=1)
        moe = MoEConfig(
            experts=f.integer("n_routed_experts", "num_experts"),
            top_k=f.integer("num_experts_per_tok"),
            width=width,
            shared_width=f.integer("moe_shared_expert_intermediate_size", default=width) * shared,
            scale=float(f.get("routed_scaling_factor", default=1.0)),
            groups=f.integer("n_group", default=1),
            top_groups=f.integer("topk_group", default=1),
            normalise=bool(f.get("norm_topk_prob", default=True)),
            latent=f.get("moe_latent_size"),
        )
    return DecoderConfig(
        vocab=f.integer("vocab_size"),
        hidden=hidden,
        pattern=pattern,
        mamba=mamba,
        attention=attention,
        mlp=mlp,
        moe=moe,
        eps=float(f.get("layer_norm_epsilon", "rms_norm_eps", "norm_eps", default=1e-5)),
        tied_embeddings=bool(f.get("tie_word_embeddings", default=False)),
        max_positions=f.integer("max_position_embeddings", default=131_072),
    )


def _qwen3(f: _Fields) -> DecoderConfig:
    heads, hidden = f.integer("num_attention_heads"), f.integer("hidden_size")
    rope = f.get("rope_parameters", "rope_scaling", default={})
    theta = f.get("rope_theta", default=rope.get("rope_theta", 1_000_000.0))
    if rope.get("rope_type", "default") != "default":
        raise ConfigError(f"{f.where}: rope_type {rope['rope_type']!r} is not supported")
    return DecoderConfig(
        vocab=f.integer("vocab_size"),
        hidden=hidden,
        pattern="*-" * f.integer("num_hidden_layers"),
        attention=AttentionConfig(
            heads=heads,
            kv_heads=f.integer("num_key_value_heads", default=heads),
            head_dim=f.integer("head_dim", default=max(1, hidden // heads)),
            rope_theta=float(theta),
            qk_norm=True,
        ),
        mlp=MLPConfig(f.integer("intermediate_size"), "swiglu"),
        eps=float(f.get("rms_norm_eps", default=1e-6)),
        tied_embeddings=bool(f.get("tie_word_embeddings", default=False)),
        max_positions=f.integer("max_position_embeddings", default=40_960),
    )


def _pattern(f: _Fields) -> str:
    listed = f.get("layers_block_type", "layer_types", "block_types")
    pattern = f.get("hybrid_override_pattern", "hybrid_layer_pattern")
    if pattern is None and listed is None:
        raise ConfigError(f"{f.where} lacks hybrid_override_pattern / layers_block_type")
    if pattern is None:
        unknown = sorted({str(kind) for kind in listed} - set(_LETTERS))
        if unknown:
            raise ConfigError(f"{f.where}: unknown block types {unknown}; known are {sorted(_LETTERS)}")
        pattern = "".join(_LETTERS[kind] for kind in listed)
    layers = f.get("num_hidden_layers", default=len(pattern))
    if len(pattern) != layers:
        raise ConfigError(f"{f.where}: the layer pattern has {len(pattern)} letters, num_hidden_layers says {layers}")
    return str(pattern)


def _mlp_width(f: _Fields) -> int:
    width = f.need("intermediate_size")
    if isinstance(width, list):
        if len(set(width)) != 1:
            raise ConfigError(f"{f.where}: MLP layers of different widths are not supported: {sorted(set(width))}")
        return int(width[0])
    return f.integer("intermediate_size")


def _vision(top: _Fields) -> VisionConfig:
    data = top.need("vision_config")
    if not isinstance(data, Mapping):
        raise ConfigError(f"{top.where}: vision_config must be an object")
    v = _Fields(data, f"{top.where}: vision_config")
    arguments = _Fields(v.get("args", default={}), f"{v.where}: args")
    patch = top.integer("patch_size", default=v.integer("patch_size", default=16))
    if "hidden_size" in data and "num_hidden_layers" in data:
        shape = {
            "hidden": v.integer("hidden_size"),
            "layers": v.integer("num_hidden_layers"),
            "heads": v.integer("num_attention_heads"),
            "mlp": v.integer("intermediate_size"),
        }
    else:
        name = str(arguments.get("model", default=v.get("model_name", "version", default="vit_huge_patch16_224")))
        name = {"radio_v2.5-h": "vit_huge_patch16_224", "c-radio_v2-vlm-h": "vit_huge_patch16_224"}.get(name, name)
        if name not in _TOWERS:
            raise ConfigError(f"{v.where}: unknown tower {name!r}; known are {sorted(_TOWERS)}")
        shape = _TOWERS[name]
    side = v.get("max_resolution", "cpe_max_size", default=arguments.get("cpe_max_size", default=2048))
    dynamic = arguments.get("min_num_patches") is not None
    return VisionConfig(
        **shape,
        patch=patch,
        grid=v.integer("position_grid", default=int(side) // patch),
        prefix=v.integer("num_prefix_tokens", default=10 if dynamic else 16),
        eps=float(v.get("layer_norm_eps", default=1e-6)),
        align_corners=bool(v.get("position_align_corners", default=not dynamic)),
    )


def _tokens(top: Mapping[str, Any], llm: Mapping[str, Any], *, vision: bool) -> TokenIds:
    def either(name: str) -> Any:
        return top.get(name) if top.get(name) is not None else llm.get(name)

    eos = either("eos_token_id")
    image = either("img_context_token_id") or either("image_token_id") or 131_072
    start = either("img_start_token_id") or image + 1
    end = either("img_end_token_id") or image + 2
    return TokenIds(
        image=image,
        image_start=start,
        image_end=end,
        bos=either("bos_token_id"),
        eos=tuple(eos) if isinstance(eos, list) else (eos,) if eos is not None else (),
        first_unsampled=either("first_unsampled_token_id") or (image if vision and image >= 131_072 else None),
    )


# ------------------------------------------------------------------------------------------------------------ writing


def dump_config(config: ModelConfig) -> dict[str, Any]:
    """A `config.json` in the published form. A loaded model keeps the file it came from, sizes included."""
    if config.raw is not None:
        return dict(config.raw)
    if config.family == "qwen3_5":
        return {**qwen3_5.dump(config.decoder), **_dump_tokens(config.tokens)}
    llm = _dump_qwen3(config) if config.family == "qwen3" else _dump_nemotron(config)
    if config.vision is None or config.projector is None:
        return {**llm, **_dump_tokens(config.tokens)}
    v, image = config.vision, config.image.to_hf()
    return {
        "architectures": ["NemotronH_Nano_VL_V2"],
        "model_type": "NemotronH_Nano_VL_V2",
        "llm_config": llm,
        "vision_config": {
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
        },
        "projector_hidden_size": config.projector.width,
        "vit_hidden_size": v.hidden,
        "ps_version": "v2",
        **image,
        "force_image_size": image["image_size"],
        "downsample_ratio": 1 / config.projector.shuffle,
        **_dump_tokens(config.tokens),
    }


def _dump_tokens(tokens: TokenIds) -> dict[str, Any]:
    fields = asdict(tokens)
    return {
        "img_context_token_id": fields["image"],
        "img_start_token_id": fields["image_start"],
        "img_end_token_id": fields["image_end"],
        "bos_token_id": fields["bos"],
        "eos_token_id": list(tokens.eos),
        "first_unsampled_token_id": fields["first_unsampled"],
    }


def _dump_common(d: DecoderConfig) -> dict[str, Any]:
    return {
        "vocab_size": d.vocab,
        "hidden_size": d.hidden,
        "tie_word_embeddings": d.tied_embeddings,
        "max_position_embeddings": d.max_positions,
    }


def _dump_qwen3(config: ModelConfig) -> dict[str, Any]:
    d, a, m = config.decoder, config.decoder.attention, config.decoder.mlp
    assert a
    assert m
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        **_dump_common(d),
        "num_hidden_layers": len(d.pattern) // 2,
        "num_attention_heads": a.heads,
        "num_key_value_heads": a.kv_heads,
        "head_dim": a.head_dim,
        "intermediate_size": m.width,
        "hidden_act": "silu",
        "rms_norm_eps": d.eps,
        "rope_theta": a.rope_theta,
        "attention_bias": False,
    }


def _dump_nemotron(config: ModelConfig) -> dict[str, Any]:
    d = config.decoder
    out: dict[str, Any] = {
        "architectures": ["NemotronHForCausalLM"],
        "model_type": "nemotron_h",
        **_dump_common(d),
        "num_hidden_layers": len(d.pattern),
        "hybrid_override_pattern": d.pattern,
        "layer_norm_epsilon": d.eps,
        "residual_in_fp32": False,
    }
    if d.mamba:
        out |= {
            "mamba_num_heads": d.mamba.heads,
            "mamba_head_dim": d.mamba.head_dim,
            "ssm_state_size": d.mamba.state,
            "n_groups": d.mamba.groups,
            "conv_kernel": d.mamba.kernel,
            "chunk_size": d.mamba.chunk,
            "use_conv_bias": d.mamba.conv_bias,
            "use_bias": False,
            "mamba_hidden_act": "silu",
        }
    if d.attention:
        out |= {
            "num_attention_heads": d.attention.heads,
            "num_key_value_heads": d.attention.kv_heads,
            "head_dim": d.attention.head_dim,
            "attention_bias": False,
        }
    if d.mlp:
        out |= {"intermediate_size": d.mlp.width, "mlp_hidden_act": "relu2", "mlp_bias": False}
    if d.moe:
        out |= {
            "n_routed_experts": d.moe.experts,
            "num_experts_per_tok": d.moe.top_k,
            "moe_intermediate_size": d.moe.width,
            "moe_shared_expert_intermediate_size": d.moe.shared_width,
            "n_shared_experts": 1,
            "routed_scaling_factor": d.moe.scale,
            "n_group": d.moe.groups,
            "topk_group": d.moe.top_groups,
            "norm_topk_prob": d.moe.normalise,
            "moe_latent_size": d.moe.latent,
        }
    return out
