"""Random small models of Qwen's vision-language families as transformers makes and writes them, and prompts with
pictures for both sides."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import (
    Qwen3_5Config,
    Qwen3_5ForConditionalGeneration,
    Qwen3_5MoeConfig,
    Qwen3_5MoeForConditionalGeneration,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
    Qwen3VLMoeConfig,
    Qwen3VLMoeForConditionalGeneration,
)

from holotron.kernels.layout import Layout
from holotron.model.model import Holotron
from holotron.model.positions import packed_shifts

KINDS = ["vl", "vl-experts", "3.5", "3.5-experts"]
IMAGE, START, END = 90, 88, 89
PATCH = 8


def _text(kind: str, draw: random.Random) -> dict[str, Any]:
    heads, kv = draw.choice([(4, 2), (6, 3), (2, 1)])
    head_dim = draw.choice([16, 24])
    pairs = head_dim // 2
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": draw.choice([1e4, 5e5])}
    common: dict[str, Any] = {
        "vocab_size": 97,
        "hidden_size": draw.choice([32, 40]),
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "head_dim": head_dim,
        "max_position_embeddings": 512,
        "eos_token_id": 3,
    }
    if kind.startswith("3.5"):
        common |= {
            "num_hidden_layers": 4,
            "layer_types": draw.choice(
                [
                    ["linear_attention", "full_attention"] * 2,
                    ["full_attention", *["linear_attention"] * 2, "full_attention"],
                ]
            ),
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 8,
            "linear_value_head_dim": 12,
        }
        rope["partial_rotary_factor"] = 0.5
        pairs //= 2
    else:
        common["num_hidden_layers"] = draw.choice([3, 4])
    columns = pairs // 3
    rope["mrope_section"] = [pairs - 2 * columns, columns, columns]
    common["rope_parameters"] = rope
    if kind.endswith("experts"):
        common |= {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": draw.choice([12, 20])}
        if kind.startswith("3.5"):
            common["shared_expert_intermediate_size"] = 28
        else:
            common["intermediate_size"] = 50
    else:
        common["intermediate_size"] = 50
    return common


def theirs(kind: str, seed: int) -> nn.Module:
    """A random model of theirs, with every parameter away from its neutral default."""
    draw = random.Random(seed)
    text = _text(kind, draw)
    tied = draw.random() < 0.5
    vision: dict[str, Any] = {
        "depth": 4,
        "hidden_size": 48,
        "num_heads": draw.choice([2, 4]),
        "intermediate_size": 60,
        "patch_size": PATCH,
        "out_hidden_size": text["hidden_size"],
        "num_position_embeddings": draw.choice([16, 36]),
    }
    if kind.startswith("vl"):
        vision["deepstack_visual_indexes"] = draw.choice([[0, 1, 3], [2], [1, 2]])
    ids = {"image_token_id": IMAGE, "video_token_id": 91, "vision_start_token_id": START, "vision_end_token_id": END}
    classes: dict[str, tuple[Any, Any]] = {
        "vl": (Qwen3VLConfig, Qwen3VLForConditionalGeneration),
        "vl-experts": (Qwen3VLMoeConfig, Qwen3VLMoeForConditionalGeneration),
        "3.5": (Qwen3_5Config, Qwen3_5ForConditionalGeneration),
        "3.5-experts": (Qwen3_5MoeConfig, Qwen3_5MoeForConditionalGeneration),
    }
    config, model = classes[kind]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = model(config(text_config=text, vision_config=vision, tie_word_embeddings=tied, **ids))
        with torch.no_grad():
            for name, parameter in made.named_parameters():
                noise = torch.randn_like(parameter)
                if parameter.dim() == 1:
                    centred = "norm" in name and kind.startswith("3.5") and "visual" not in name
                    one = "norm" in name and name.endswith("weight") and (not centred or "linear_attn.norm" in name)
                    parameter.copy_(noise * 0.3 + one)
                else:
                    parameter.copy_(noise * 0.7 * parameter[0].numel() ** -0.5 if parameter.dim() == 5 else noise * 0.2)
    return made.eval()


class Asked(NamedTuple):
    """A prompt with pictures of several sizes, for either side."""

    ids: Tensor
    pictures: list[Tensor]  # normalised, [3, height, width]

    @property
    def grids(self) -> Tensor:
        return torch.tensor([[1, p.shape[1] // PATCH, p.shape[2] // PATCH] for p in self.pictures])


def prompt(seed: int) -> Asked:
    draw = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    ids: list[int] = [draw.randrange(80) for _ in range(draw.randrange(6))]
    pictures = []
    for _ in range(3):
        rows, columns = draw.choice([(2, 3), (1, 4), (3, 2), (5, 1), (2, 2)])
        ids += [START, *[IMAGE] * (rows * columns), END, *(draw.randrange(80) for _ in range(draw.randrange(5)))]
        pictures.append(torch.randn(3, 2 * PATCH * rows, 2 * PATCH * columns, generator=generator))
    ids += [draw.randrange(80) for _ in range(10)]
    return Asked(torch.tensor(ids), pictures)


def flat(picture: Tensor) -> Tensor:
    """A picture [3, H, W] as transformers takes it: patches in squares of four, two frames each."""
    rows, columns = picture.shape[1] // PATCH // 2, picture.shape[2] // PATCH // 2
    patches = picture.view(3, rows, 2, PATCH, columns, 2, PATCH).permute(1, 4, 2, 5, 0, 3, 6)
    return patches[..., None, :, :].expand(*(-1,) * 5, 2, -1, -1).reshape(rows * columns * 4, -1)


def their_logits(oracle: nn.Module, asked: Asked) -> Tensor:
    pixels = torch.cat([flat(picture) for picture in asked.pictures])
    kinds = (asked.ids == IMAGE).int()[None]
    reply = oracle(input_ids=asked.ids[None], pixel_values=pixels, image_grid_thw=asked.grids, mm_token_type_ids=kinds)
    return reply.logits[0]


def our_logits(model: Holotron, asked: Asked, pieces: list[int] | None = None) -> Tensor:
    """The whole prompt at once without a memory, or with one in pieces of any size, wherever they cut a picture."""
    sizes = [(p.shape[1], p.shape[2]) for p in asked.pictures]
    if pieces is None:
        return model(asked.ids, pixels=[p[None] for p in asked.pictures])
    rows = torch.cat([model.encode_tiles(p[None]) for p in asked.pictures])
    shown = model.pictures(asked.ids, [len(asked.ids)], sizes)
    assert shown is not None
    shift, _ = packed_shifts([len(asked.ids)], shown)
    state, logits, at, seen = model.new_state(capacity=8), [], 0, 0
    for piece in asked.ids.split(pieces):
        count = int((piece == IMAGE).sum())
        x, deep = model.merge(piece, rows[seen : seen + count] if count else None)
        plain = state.advance([len(piece)])
        layout = Layout.build(
            [len(piece)],
            contexts=plain.contexts,
            pages=[[0]],
            page_size=state.capacity,
            shift_3T=shift[:, at : at + len(piece)],
        )
        logits.append(model.language_model.logits(model.language_model(x, layout, state.cache, deep)))
        at, seen = at + len(piece), seen + count
    return torch.cat(logits)
