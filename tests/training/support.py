"""Small models, small data, small recipes: enough to train for real in seconds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from holotron.model.config import (
    AttentionConfig,
    ImageConfig,
    MambaConfig,
    MLPConfig,
    ModelConfig,
    ProjectorConfig,
    VisionConfig,
)
from holotron.model.presets import preset
from holotron.training.recipe import Recipe, make_recipe


def small_config(tile: int = 64) -> ModelConfig:
    """The shape of holotron-mini at a fraction of its size."""
    base = preset("holotron-mini")
    decoder = replace(
        base.decoder,
        hidden=64,
        pattern="M-*-M-",
        mamba=MambaConfig(heads=4, head_dim=32, state=16, groups=1, chunk=32),
        attention=AttentionConfig(heads=2, kv_heads=1, head_dim=32),
        mlp=MLPConfig(128),
    )
    return replace(
        base,
        decoder=decoder,
        vision=VisionConfig(hidden=96, layers=2, heads=4, mlp=192, patch=16, grid=tile // 16, prefix=2),
        projector=ProjectorConfig(128),
        image=ImageConfig(tile_size=tile, patch_size=16, max_tiles=1, use_thumbnail=False),
    )


COLOURS = {"red": (200, 30, 30), "green": (30, 160, 60), "blue": (40, 60, 210), "yellow": (230, 200, 40)}


def write_conversations(folder: Path, count: int = 40, seed: int = 0) -> Path:
    """A picture of one colour; say which. Every third conversation has a second turn."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    lines = []
    for number in range(count):
        colour = str(rng.choice(list(COLOURS)))
        image = np.full((64, 64, 3), COLOURS[colour], np.uint8)
        image[: rng.integers(0, 16)] = 255
        Image.fromarray(image).save(folder / f"{number}.png")
        messages = [
            {"role": "user", "content": [{"type": "text", "text": "which?\n"}, {"type": "image"}]},
            {"role": "assistant", "content": [{"type": "text", "text": f"answer {colour}"}]},
        ]
        if number % 3 == 0:
            messages += [
                {"role": "user", "content": [{"type": "image"}]},
                {"role": "assistant", "content": [{"type": "text", "text": "wait"}]},
            ]
        turns = len(messages) // 2
        lines.append({"messages": messages, "images": [f"{number}.png"] * turns, "learn": [1, 3][:turns]})
    path = folder / "conversations.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def conversation_recipe(data: Path, **changes: Any) -> Recipe:
    """Full fine-tuning of the tiny preset on conversations; `changes` are whole tables."""
    table: dict[str, Any] = {
        "name": "test",
        "model": {"source": "tiny", "template": "turns"},
        "data": [{"kind": "conversations", "files": [str(data)]}],
        "batch": {"tokens": 400},
        "optimiser": {"lr": 2e-3},
        "schedule": {"steps": 8, "warmup": 2},
    }
    return make_recipe(table | changes)


def to_toml(recipe: Recipe) -> str:
    """A recipe as a file; all tables inline."""

    def value(item: object) -> str:
        if isinstance(item, dict):
            return "{ " + ", ".join(f"{key} = {value(inner)}" for key, inner in item.items()) + " }"
        if isinstance(item, list):
            return "[" + ", ".join(map(value, item)) + "]"
        return json.dumps(item)

    table = json.loads(recipe.model_dump_json(exclude_none=True))
    return "".join(f"{key} = {value(item)}\n" for key, item in table.items())
