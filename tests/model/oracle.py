"""transformers as an outside oracle: our model is saved in the published layout and read back by their code."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, NemotronHForCausalLM
from transformers.models.nemotron_h_omni import NemotronH_Omni_Reasoning_V3

from holotron.model.families import dump_config
from holotron.model.model import Holotron
from holotron.model.weights import save_checkpoint


def unsettle(model: Holotron, seed: int = 0) -> Holotron:
    """Give every parameter a value that matters: biases, norms and decays away from their neutral defaults."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in model.state_dict(keep_vars=True).items():
            noise = torch.randn(tensor.shape, generator=generator, dtype=torch.float32).to(tensor.dtype)
            if name.endswith("A_log"):
                tensor.copy_(noise * 0.5)
            elif name.endswith("dt_bias"):
                tensor.copy_(noise - 1)
            elif tensor.dim() == 1 and name.endswith("weight"):
                tensor.copy_(1 + 0.2 * noise)
            elif tensor.dim() == 1:
                tensor.copy_(0.2 * noise)
            elif "pos_embed" in name or name.endswith("token") or "embeddings" in name:
                tensor.copy_(noise)
            else:
                tensor.copy_(noise * tensor.shape[-1] ** -0.5)
    return model


def drop_dt_clamp(model: torch.nn.Module) -> None:
    """Their prefill clamps the step size at `time_step_min`, their decode and the published kernels do not."""
    for module in model.modules():
        if hasattr(module, "time_step_limit"):
            module.time_step_limit = (0.0, float("inf"))


def theirs(model: Holotron, folder: Path) -> torch.nn.Module:
    """The same model as a transformers module, loaded by `from_pretrained` from what we saved."""
    save_checkpoint(model, folder)
    kind = NemotronHForCausalLM if model.config.family == "nemotron_h" else AutoModelForCausalLM
    loaded, report = kind.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    assert not report["missing_keys"], report
    assert not report["unexpected_keys"], report
    drop_dt_clamp(loaded)
    return loaded.eval()


def their_omni(model: Holotron, folder: Path) -> torch.nn.Module:
    """The vision-language composite. Their class belongs to the next generation (one picture instead of tiles, a video
    embedder we do not have), so its config is written by hand and the video weights may be missing."""
    save_checkpoint(model, folder)
    vision, config = model.config.vision, dump_config(model.config)
    assert vision is not None
    omni = {
        "architectures": ["NemotronH_Omni_Reasoning_V3"],
        "model_type": "nemotron_h_omni",
        "text_config": config["llm_config"],
        "vision_config": {
            "model_type": "radio",
            "hidden_size": vision.hidden,
            "num_hidden_layers": vision.layers,
            "num_attention_heads": vision.heads,
            "mlp_ratio": vision.mlp / vision.hidden,
            "patch_size": vision.patch,
            "max_img_size": vision.grid * vision.patch,
            "num_cls_tokens": 1,
            "num_registers": vision.prefix - 1,
            "summary_idxs": [0],
            "layer_norm_eps": vision.eps,
            "video_temporal_patch_size": 2,
        },
        "downsample_ratio": config["downsample_ratio"],
        "projector_hidden_size": config["projector_hidden_size"],
        "vision_hidden_size": vision.hidden,
        "image_token_id": model.config.tokens.image,
    }
    (folder / "config.json").write_text(json.dumps(omni))
    loaded, report = NemotronH_Omni_Reasoning_V3.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    assert all("video" in key or "summary_idxs" in key for key in report["missing_keys"]), report
    assert not report["unexpected_keys"], report
    drop_dt_clamp(loaded)
    return loaded.eval()
