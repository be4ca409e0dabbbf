"""A small policy for painted screens, cloned for a moment: it writes clicks, and hits the right box now and then."""

from __future__ import annotations

import asyncio
import io
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image as Pillow

from holotron.agent.dialects import make_dialect
from holotron.agent.history import Selection, Shown, Turn
from holotron.agent.profiles import Profile, write_profile
from holotron.data.pages.make import Size
from holotron.model.config import (
    AttentionConfig,
    ImageConfig,
    MambaConfig,
    MLPConfig,
    ModelConfig,
    ProjectorConfig,
    VisionConfig,
)
from holotron.model.loading import byte_processor
from holotron.model.model import Holotron
from holotron.model.presets import preset
from holotron.model.processor import Processor
from holotron.model.weights import random_model, save_checkpoint
from holotron.suites.painted import PaintedEnvironment
from holotron.training.batches import pack
from holotron.training.curves import read_metrics
from holotron.training.distributed import Ranks
from holotron.training.learner import Learner
from holotron.training.optimiser import Optimiser
from holotron.training.recipe import OptimiserPart, make_recipe
from holotron.training.rl.recipe import RlRecipe
from holotron.training.rl.trainer import RlTrainer
from holotron.training.samples import Sample
from holotron.training.stream import conversation_sample
from holotron.types import Click, Task

SIZE = "64x64@0.5"


def small_config() -> ModelConfig:
    """A screenshot is four patches and one token: what is where can be learnt in seconds."""
    base = preset("holotron-mini")
    return replace(
        base,
        decoder=replace(
            base.decoder,
            hidden=48,
            pattern="M-*-",
            mamba=MambaConfig(heads=4, head_dim=24, state=16, groups=1, chunk=32),
            attention=AttentionConfig(heads=2, kv_heads=1, head_dim=24),
            mlp=MLPConfig(96),
        ),
        vision=VisionConfig(hidden=48, layers=1, heads=4, mlp=96, patch=16, grid=2, prefix=2),
        projector=ProjectorConfig(96),
        image=ImageConfig(tile_size=32, patch_size=16, max_tiles=1, use_thumbnail=False),
    )


def demonstration(processor: Processor, name: str, seed: int) -> Sample:
    """The first turn of a task and a click at the target."""

    async def look() -> tuple[Any, Any, PaintedEnvironment]:
        environment = PaintedEnvironment(Size.parse(SIZE))
        observation = await environment.reset(Task("painted", name, seed=seed))
        return observation, environment.task, environment

    observation, task, environment = asyncio.run(look())
    dialect = make_dialect("compact", actions=["click"])
    image, screen = dialect.look(observation)
    shown = Selection((), (Shown(Turn(0, observation, image, screen), image),))
    pixels = np.asarray(Pillow.open(io.BytesIO(observation.image)))
    messages = [
        {
            "role": message.role,
            "content": [
                {"type": "text", "text": part} if isinstance(part, str) else {"type": "image", "image": pixels}
                for part in message.parts
            ],
        }
        for message in dialect.messages(task, shown)
    ]
    target = environment._screen.targets[0]
    click = Click((target[0] + target[2]) / 2, (target[1] + target[3]) / 2)
    return conversation_sample(processor, [*messages, {"role": "assistant", "content": dialect.render(click, screen)}])


def untrained(folder: Path, config: ModelConfig | None = None) -> Path:
    """A checkpoint that has learned nothing. Under a grammar it clicks somewhere."""
    config = config or small_config()
    save(random_model(config, seed=0), byte_processor(config), folder)
    return folder


def clone(
    folder: Path,
    *,
    steps: int,
    names: tuple[str, ...] = ("boxes-1",),
    lr: float = 3e-3,
    seed: int = 0,
) -> Path:
    """Clone clicks for some steps, and save a checkpoint that says what it speaks."""
    config = small_config()
    processor = byte_processor(config)
    model = random_model(config, seed=seed)
    learner = Learner(model.requires_grad_(True)).train()
    optimiser = Optimiser(learner.named_parameters(), OptimiserPart(lr=lr, weight_decay=0.01))
    dice = random.Random(seed)
    demos = [demonstration(processor, names[n % len(names)], 300_000 + n) for n in range(400)]
    for step in range(steps):
        chosen = dice.sample(demos, 24)
        batch = pack(
            [sample.tiles for sample in chosen],
            [sample.sequences for sample in chosen],
            [None] * len(chosen),
            config=config,
            device=torch.device("cpu"),
        )
        (learner(batch, learner.pixels(batch.tiles_n3HW))[0] / len(batch.targets_l)).backward()
        optimiser.step(lr * min(1.0, (step + 1) / 10))
    save(learner.model, processor, folder)
    return folder


def save(model: Holotron, processor: Processor, folder: Path) -> None:
    save_checkpoint(model, folder)
    processor.save(folder)
    write_profile(folder, Profile("compact", history="append"))


def view_of(size: str) -> dict[str, Any]:
    """A recipe's view, from a size such as 160x160@2."""
    return Size.parse(size).view.to_json()


def rl_recipe(source: Path | str, **changes: Any) -> RlRecipe:
    """A recipe for the small policy; `changes` are tables, merged into those here."""
    table: dict[str, Any] = {
        "name": "test",
        "model": {"source": str(source)},
        "tasks": {"suite": "painted", "names": ["boxes-1"], "view": view_of(SIZE), "steps": 3},
        "agent": {"max_tokens": 32},
        "rollouts": {"sessions": 16, "group": 8, "queue": 8},
        "engine": {"kv_tokens": 8192, "state_rows": 64},
        "update": {"groups": 4, "tokens": 4096},
        "optimiser": {"lr": 1e-3, "weight_decay": 0.0},
        "schedule": {"steps": 4, "warmup": 0, "decay_share": 0},
    }
    for name, value in changes.items():
        table[name] = {**table.get(name, {}), **value} if isinstance(value, dict) else value
    return make_recipe(table, "the test's recipe", RlRecipe)


def two_updates(start: Path, out: Path) -> RlTrainer:
    """Two of a small model that chooses among clicks; afterwards the engine serves what was learnt."""
    recipe = rl_recipe(
        start,
        agent={"constrained": True},
        rollouts={"sessions": 8, "group": 4, "queue": 4},
        update={"groups": 2},
        schedule={"steps": 2},
    )
    trainer = RlTrainer(recipe, out, Ranks())
    trainer.run()
    assert trainer.progress.step == 2
    served = dict(trainer.players.engine.model.named_parameters())
    learnt = dict(trainer.learner.model.named_parameters())
    assert all(torch.equal(served[name], learnt[name]) for name in served)
    return trainer


def reinforce(checkpoint: Path, out: Path, *, steps: int = 40, **changes: Any) -> tuple[float, float]:
    """Reinforcement learning from a checkpoint on painted screens: greedy success on seeds it never plays, before and
    after."""
    evaluate = {"every_steps": steps, "seeds": "200000:200064"}
    recipe = rl_recipe(
        checkpoint, **{"schedule": {"steps": steps, "decay_share": 0.7}, "evaluate": evaluate, **changes}
    )
    figures = RlTrainer(recipe, out, Ranks()).run()
    curve = [row["evaluation/success"] for row in read_metrics(out) if "evaluation/success" in row]
    return curve[0], figures["evaluation/success"]
