"""A model's recipes on one GPU, with random weights: does every stage run, in how much memory, how fast?

    python benchmarks/recipes_gpu.py                                                # the 12B: one H200, two minutes
    python benchmarks/recipes_gpu.py --recipes holotron4-30b-a3b --model holotron-3-nano
    python benchmarks/recipes_gpu.py --recipes holo3.1-4b
    python benchmarks/recipes_gpu.py --model tiny --device cpu --view 64x64@1 --screen 64x64@1 --tokens 2048

The recipes are those of a folder of recipes/, read from their files; only what needs a download or a browser is
replaced: random weights for the checkpoint, painted pages for those of Chromium, a script's episodes on painted screens
for demonstrations, painted tasks for MiniWoB++. RL holds replies to a grammar, because weights that have learnt nothing
would never write an action. All speak the compact dialect: without a vocabulary a byte is a token, and the long prompts
of the others would be ten times as long as they are. Everything else, from rank to tokens a pass, is the recipes'.

    tokens/s      of updates after the first, which compiles kernels: forward, recomputation, backward and optimiser
    memory        the most that was allocated at once
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from holotron.agent.dialects import make_dialect
from holotron.agent.history import Append
from holotron.agent.loop import Episode, Limits
from holotron.agent.policies.scripted import ScriptedPolicy
from holotron.data.pages.make import Size
from holotron.rollouts.export import conversations
from holotron.suites.painted import PaintedEnvironment
from holotron.training.distributed import Ranks
from holotron.training.learner import LOSSES
from holotron.training.recipe import Part, Recipe, make_recipe, read_recipe
from holotron.training.rl.recipe import RlRecipe
from holotron.training.rl.trainer import RlTrainer
from holotron.training.trainer import Trainer
from holotron.types import Action, Click, Observation, Task

RECIPES = Path(__file__).parents[1] / "recipes"
GIB = 1 << 30


def changed(recipe: Part, **tables: Any) -> dict[str, Any]:
    """A recipe as a table, with some of its tables replaced or, where they are tables, added to."""
    table = recipe.model_dump(mode="json", exclude_defaults=True)
    for name, value in tables.items():
        table[name] = table.get(name, {}) | value if isinstance(value, dict) else value
    return table


def click_the_target(environment: Any, observation: Observation, step: int) -> Action:
    left, top, right, bottom = environment.target
    return Click((left + right) / 2, (top + bottom) / 2)


async def write_demonstrations(folder: Path, view: str, name: str, count: int, steps: int) -> Path:
    """Episodes of a script on painted screens, as `holotron export --dialect NAME --history append` writes them."""
    dialect = make_dialect(name)
    lines = []
    for seed in range(count):
        environment, task = PaintedEnvironment(Size.parse(view)), Task("painted", f"order-{steps}", seed=seed)
        episode = Episode(environment, ScriptedPolicy(click_the_target), task, limits=Limits(steps=steps))
        for messages, learn in conversations(await episode.run(), dialect, Append()):
            images = [image for message in messages for image in message.images]
            names = [f"{len(lines)}-{n}.png" for n in range(len(images))]
            for name, image in zip(names, images, strict=True):
                (folder / name).write_bytes(image.data)
            plain = [
                {
                    "role": message.role,
                    "content": [
                        {"type": "text", "text": part} if isinstance(part, str) else {"type": "image"}
                        for part in message.parts
                    ],
                }
                for message in messages
            ]
            lines.append({"messages": plain, "images": names, "learn": learn})
    path = folder / "demonstrations.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


class Clock:
    """Seconds and memory of what happens on a device."""

    def __init__(self, device: str) -> None:
        self._gpu = device.startswith("cuda")
        if self._gpu:
            torch.cuda.reset_peak_memory_stats()
        self._started = time.monotonic()

    def seconds(self) -> float:
        if self._gpu:
            torch.cuda.synchronize()
        now = time.monotonic()
        took, self._started = now - self._started, now
        return took

    def peak(self) -> float:
        return torch.cuda.max_memory_allocated() / GIB if self._gpu else 0.0


def sft(recipe: Recipe, out: Path, device: str, updates: int) -> dict[str, float]:
    clock = Clock(device)
    trainer = Trainer(recipe, out, Ranks(device=torch.device(device)))
    weights = torch.tensor([getattr(recipe.loss, name) for name in LOSSES], device=device)
    row = {"load_s": clock.seconds(), "learning": sum(p.numel() for p in trainer.optimiser.originals.values())}
    losses = []
    made = [trainer.lanes.step(update) for update in range(updates + 1)]  # as worker processes would, meanwhile
    trainer.lanes.step = made.__getitem__  # type: ignore[method-assign]
    row["data_s"] = clock.seconds()
    for update in range(updates + 1):
        if update == 1:
            row["first_s"] = clock.seconds()
            row["before"] = trainer.progress.tokens
        losses.append(float(trainer.step(weights, recipe.optimiser.lr)[0]))
    seconds, tokens = clock.seconds(), trainer.progress.tokens - int(row.pop("before"))
    trainer.curves.close()
    row |= {"tokens_per_pass": tokens / updates / recipe.batch.accumulate, "update_s": seconds / updates}
    return row | {
        "tokens_per_s": tokens / seconds,
        "peak_gib": clock.peak(),
        "first_loss": losses[0],
        "last_loss": losses[-1],
    }


def rl(recipe: RlRecipe, out: Path, device: str, updates: int) -> dict[str, float]:
    clock = Clock(device)
    trainer = RlTrainer(recipe, out, Ranks(device=torch.device(device)))
    assert trainer.players is not None
    row = {"load_s": clock.seconds(), "learning": sum(p.numel() for p in trainer.optimiser.originals.values())}
    try:
        with trainer.players:
            for update in range(updates + 1):
                groups = trainer.queue.take(recipe.update.groups, trainer.progress.step)
                waited, before = clock.seconds(), trainer.progress.tokens
                figures = trainer.step(groups, recipe.optimiser.lr)
                seconds = clock.seconds()
                if update == 0:
                    row |= {"first_rollouts_s": waited, "first_s": seconds, "error": figures["error"]}
                else:
                    row |= {"agreement": figures.get("agreement", float("nan")), "rollouts_s": waited}
                    row |= {"update_s": seconds, "tokens_per_s": (trainer.progress.tokens - before) / seconds}
            counts = trainer.counts
            row |= {"episodes": counts.episodes, "successes": counts.successes, "ratio": figures["ratio"]}
    finally:
        trainer.curves.close()
    return row | {"peak_gib": clock.peak()}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", default="holotron-12b", help="a folder of recipes/")
    parser.add_argument("--model", help="a preset; by default the one of the recipes' name")
    parser.add_argument("--view", default="1920x1080@1", help="screens of stages 1 and 2: CSS pixels and scale")
    parser.add_argument("--screen", default="512x512@1", help="of RL; one tile")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--updates", type=int, default=1, help="that are timed, of every stage")
    parser.add_argument("--stages", default="1,2,3")
    parser.add_argument("--dialect", default="compact")
    parser.add_argument("--tokens", type=int, help="of a pass, instead of the recipes'")
    parser.add_argument("--fonts", type=Path, help="a folder of font files; the system's by default")
    parser.add_argument("--out", type=Path, help="rows as JSON lines, as they come")
    parser.add_argument("overrides", nargs="*", help="key=value of the RL recipe")
    args = parser.parse_args(argv)
    work, recipes = Path(tempfile.mkdtemp()), RECIPES / args.recipes
    model = args.model or args.recipes
    source = {"model": {"source": model}}
    fonts = {} if args.fonts is None else {"fonts": str(args.fonts)}
    pages = {"kind": "drawn", "sizes": [args.view], "questions": 4, "dialect": args.dialect, **fonts}
    fewer = {} if args.tokens is None else {"tokens": args.tokens}
    once = {"batch": {"accumulate": 1, "workers": 0, **fewer}}

    def localisation() -> dict[str, float]:
        recipe = changed(read_recipe(recipes / "1-localisation.toml"), **source, **once, data=[pages])
        return sft(make_recipe(recipe), work / "1", args.device, args.updates)

    def navigation() -> dict[str, float]:
        file = asyncio.run(write_demonstrations(work, args.view, args.dialect, count=6, steps=6))
        data = [{"kind": "conversations", "files": [str(file)], "weight": 4}, pages]
        recipe = changed(read_recipe(recipes / "2-navigation.toml"), **source, **once, data=data)
        return sft(make_recipe(recipe), work / "2", args.device, args.updates)

    def reinforcement() -> dict[str, float]:
        tasks = {"suite": "painted", "names": ["boxes-1"], "view": Size.parse(args.screen).view.to_json(), "steps": 3}
        agent = {"dialect": args.dialect, "constrained": True, "max_tokens": 32}
        read = read_recipe(recipes / "3-rl.toml", args.overrides, RlRecipe)
        recipe = changed(read, **source, tasks=tasks, agent=agent, rollouts={"record_every": 0}, update=fewer)
        return rl(make_recipe(recipe, "RL", RlRecipe), work / "3", args.device, args.updates)

    stages: dict[str, tuple[str, Callable[[], dict[str, float]]]] = {
        "1": ("1-localisation, LoRA", localisation),
        "2": ("2-navigation, LoRA", navigation),
        "3": ("3-rl, LoRA, with the engine", reinforcement),
    }
    for name, stage in (stages[key] for key in args.stages.split(",")):
        try:
            row = {key: round(value, 4) for key, value in stage().items()}
        except torch.OutOfMemoryError as error:
            print(f"| {name} | does not fit: {error} |", flush=True)
            continue
        print(f"| {name} | " + ", ".join(f"{key} {value:,}" for key, value in row.items()) + " |", flush=True)
        if args.out is not None:
            with args.out.open("a") as file:
                file.write(json.dumps({"stage": name, "recipes": args.recipes, "model": model, **row}) + "\n")
        gc.collect()
        if args.device.startswith("cuda"):
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
