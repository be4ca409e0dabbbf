"""Qwen3.5's text models as transformers writes them: they load, and compute the same in any pieces."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import torch
from transformers import Qwen3_5ForCausalLM, Qwen3_5MoeForCausalLM, Qwen3_5MoeTextConfig, Qwen3_5TextConfig

from holotron.errors import ConfigError
from holotron.model.families import dump_config, load_config, parse_config
from holotron.model.layers import CentredRMSNorm
from holotron.model.weights import load_checkpoint, random_model, save_checkpoint

TOLERANCE = 1e-4
LENGTH = 80  # more than one of their chunks of 64


def shapes(seed: int) -> dict[str, object]:
    """A random small configuration."""
    draw = random.Random(seed)
    key_heads, kv_heads = draw.choice([1, 2, 3]), draw.choice([1, 2])
    return {
        "vocab_size": 97,
        "hidden_size": draw.choice([24, 40]),
        "num_hidden_layers": draw.choice([4, 5]),
        "num_attention_heads": kv_heads * draw.choice([1, 3]),
        "num_key_value_heads": kv_heads,
        "head_dim": draw.choice([8, 16, 24]),
        "linear_num_key_heads": key_heads,
        "linear_num_value_heads": key_heads * draw.choice([1, 2, 3]),
        "linear_key_head_dim": draw.choice([6, 16]),
        "linear_value_head_dim": draw.choice([5, 16]),
        "linear_conv_kernel_dim": draw.choice([2, 4]),
        "full_attention_interval": draw.choice([2, 4]),
        "rope_parameters": {
            "rope_theta": 1e4,
            "rope_type": "default",
            "partial_rotary_factor": draw.choice([0.25, 0.5]),
        },
        "tie_word_embeddings": draw.choice([True, False]),
        "max_position_embeddings": 512,
    }


def theirs(seed: int, experts: bool) -> torch.nn.Module:
    torch.manual_seed(seed)
    if experts:
        config = Qwen3_5MoeTextConfig(
            **shapes(seed),
            moe_intermediate_size=16,
            shared_expert_intermediate_size=24,
            num_experts=5,
            num_experts_per_tok=2,
        )
        model: torch.nn.Module = Qwen3_5MoeForCausalLM(config)
    else:
        model = Qwen3_5ForCausalLM(Qwen3_5TextConfig(**shapes(seed), intermediate_size=50))
    with torch.no_grad():  # as they start, norms, gates and step sizes hardly matter
        for name, parameter in model.named_parameters():
            noise = torch.randn_like(parameter)
            if parameter.dim() == 1:
                parameter.copy_(noise * 0.3 + ("linear_attn.norm" in name))
            else:
                parameter.copy_(noise * 0.7 * parameter.shape[-1] ** -0.5)
    return model.eval()


@pytest.mark.parametrize("experts", [False, True], ids=["dense", "experts"])
@pytest.mark.parametrize("seed", range(4))
@torch.no_grad()
def test_their_files_load_and_compute_the_same(seed: int, experts: bool, tmp_path: Path) -> None:
    oracle = theirs(seed, experts)
    oracle.save_pretrained(tmp_path)  # type: ignore[operator]
    model = load_checkpoint(tmp_path)
    ids = torch.randint(0, 97, (LENGTH,))
    expected = oracle(ids[None]).logits[0]
    torch.testing.assert_close(model(ids), expected, atol=TOLERANCE, rtol=0)

    draw = random.Random(seed)
    for _ in range(3):  # pieces of any size with a memory; ones are decodes
        state, seen = model.new_state(capacity=8), 0
        while seen < LENGTH:
            size = min(draw.choice([1, 1, 2, 7, 20, 65]), LENGTH - seen)
            got = model(ids[seen : seen + size], state=state)
            torch.testing.assert_close(got, expected[seen : seen + size], atol=TOLERANCE, rtol=0)
            seen += size


@torch.no_grad()
def test_what_we_write_is_what_we_read(tmp_path: Path) -> None:
    oracle = theirs(1, True)
    oracle.save_pretrained(tmp_path / "theirs")  # type: ignore[operator]
    model = load_checkpoint(tmp_path / "theirs")
    assert parse_config(dump_config(model.config)) == model.config
    assert model.config.raw is not None
    object.__setattr__(model.config, "raw", None)  # written from the configuration, not copied from the file
    save_checkpoint(model, tmp_path / "ours")
    assert load_config(tmp_path / "ours").decoder == model.config.decoder
    again, report = Qwen3_5MoeForCausalLM.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not report["missing_keys"] | report["unexpected_keys"], report
    ids = torch.arange(30)
    torch.testing.assert_close(again.eval()(ids[None]).logits, oracle(ids[None]).logits, atol=1e-6, rtol=0)


def text_config(**changes: object) -> dict[str, object]:
    return json.loads(Qwen3_5TextConfig(**shapes(0), intermediate_size=50).to_json_string()) | changes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layer_types": ["mamba"] * 3, "num_hidden_layers": 3}, "unknown layer types"),
        ({"num_hidden_layers": 9}, "num_hidden_layers says 9"),
        ({"attention_bias": True}, "biases"),
        ({"hidden_act": "gelu"}, 'hidden_act "gelu"'),
        ({"rope_parameters": {"rope_type": "yarn"}}, "rope_type 'yarn'"),
        ({"linear_num_value_heads": 7, "linear_num_key_heads": 2}, "cannot share"),
    ],
)
def test_what_is_not_supported_is_said(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_config(text_config(**changes))


def test_the_published_sizes() -> None:
    """Qwen3.5-35B-A3B as its configuration class describes it by default: 34.7B parameters in the decoder; a session
    costs 63 MB of state and 20 KiB per token."""
    from holotron.engine.plan import Planner
    from holotron.model.model import Holotron

    config = parse_config(json.loads(Qwen3_5MoeTextConfig().to_json_string()))
    assert config.decoder.pattern == "GEGEGE*E" * 10
    with torch.device("meta"):
        model = Holotron(config)
        reference = Qwen3_5MoeForCausalLM(Qwen3_5MoeTextConfig())
    count = sum(p.numel() for p in model.parameters())
    assert count == sum(p.numel() for p in reference.parameters())
    assert round(count / 1e9, 1) == 34.7
    planner = Planner(config)
    assert planner.row_bytes == 30 * (32 * 128 * 128 * 4 + 3 * 8192 * 2)
    assert planner.page_bytes == planner.engine.page_size * 20 * 1024


def test_norms_around_one_keep_their_digits_in_16_bits() -> None:
    """The weight of such a norm is small: one plus it must not be rounded to 16 bits."""
    config = parse_config(text_config())
    model = random_model(config, dtype=torch.bfloat16)
    norms = [m for m in model.modules() if isinstance(m, CentredRMSNorm)]
    assert norms
    assert not any(norm.weight.any() for norm in norms)
    norm = norms[0]
    with torch.no_grad():
        norm.weight.fill_(0.001)
        assert norm.gain.dtype == torch.float32
        torch.testing.assert_close(norm.gain, 1 + norm.weight.float(), atol=1e-7, rtol=0)
        where = norm.gain.data_ptr()
        norm.weight.fill_(0.002)
        torch.testing.assert_close(norm.gain, 1 + norm.weight.float(), atol=1e-7, rtol=0)
        assert norm.gain.data_ptr() == where, "a captured graph reads it there"
