"""Run directories made by hand, for tests of what is said about results: real files, no playing.

    make_run(tmp_path / "a", {"click": "++-!", "type": "+"})

`+` success, `-` failure, `x` exhausted, `!` the environment broke, `?` the policy could not be reached, `~` unscored.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from PIL import Image

from holotron.rollouts.records import to_rows
from holotron.rollouts.tables import TABLES
from holotron.storage.shards import write_shard
from holotron.types import Click, Completion, Observation, Outcome, Reply, Step, Task, Trajectory

OUTCOMES = {
    "+": Outcome.SUCCESS, "-": Outcome.FAILURE, "x": Outcome.EXHAUSTED, "!": Outcome.ENVIRONMENT_ERROR,
    "?": Outcome.POLICY_ERROR, "~": Outcome.UNSCORED,
}  # fmt: skip

TARGET = [[5, 5], [20, 5], [20, 15], [5, 15]]  # what was to be clicked, as grounding suites say


def picture() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (64, 48), "teal").save(buffer, "PNG")
    return buffer.getvalue()


def make_run(
    path: Path,
    tasks: Mapping[str, str],
    *,
    suite: str = "toy",
    model: str = "m",
    repeats: int = 1,
    first_seed: int = 0,
    goal: str = "Do it.",
    answer: str = "",
    reply: str = "click 1 2",
    tokens: int = 10,
    steps: int = 1,
    missing: int = 0,
    shard: int = 64,
    **config: Any,
) -> Path:
    """`repeats`: consecutive signs that are tries of one seed. `missing`: episodes that the run wants and has not."""
    (path / "images").mkdir(parents=True)
    (path / "images" / "p.png").write_bytes(picture())
    shown = Observation(b"", "image/png", (64, 48), (64, 48), "http://a.example", "A page")
    trajectories = list(_trajectories(tasks, suite, repeats, first_seed, goal, answer, reply, tokens, steps, shown))
    records = [to_rows(one, lambda _: "images/p.png") for one in trajectories]
    for number, start in enumerate(range(0, len(records), shard)):
        write_shard(path, TABLES, number, records[start : start + shard])
    manifest = {
        "format": 1,
        "created_at": 1e9,
        "kind": f"eval {suite}",
        "config": {
            "policy": {"policy": "engine", "model": model, "weights": f"sha256:{model}"},
            "limits": {"steps": 20, "seconds": 300.0},
            "environment": {"suite": suite, **config},
        },
        "holotron": "0.1.0",
        "repeats": repeats,
        "attempts": 3,
        "judge": "the environment's own check",
        "hardware": {"cpu": "abacus", "cores": 2, "memory_gb": 8.0, "gpus": []},
        "episodes": sorted([one.id for one in trajectories] + [f"missing/{n}" for n in range(missing)]),
    }
    (path / "manifest.json").write_text(json.dumps(manifest))
    return path


def _trajectories(
    tasks: Mapping[str, str], suite: str, repeats: int, first_seed: int, goal: str, answer: str, reply: str,
    tokens: int, steps: int, shown: Observation,
) -> Iterator[Trajectory]:  # fmt: skip
    clock = 1000.0
    for name, signs in tasks.items():
        for number, sign in enumerate(signs):
            task = Task(suite, name, goal, seed=first_seed + number // repeats)
            id = task.id if number % repeats == 0 else f"{task.id}#{number % repeats}"
            completion = Completion(
                reply, prompt_tokens=100 * bool(tokens), cached_tokens=60 * bool(tokens), generated_tokens=tokens,
                images_sent=1,
            )  # fmt: skip
            made = tuple(
                Step(n, shown, Reply(completion, action=Click(10, 20)), info={"target": TARGET}) for n in range(steps)
            )
            yield Trajectory(
                id, task, made, OUTCOMES[sign], float(sign == "+"), answer, "", started_at=clock, seconds=2.0,
                final=shown,
            )  # fmt: skip
            clock += 1.0  # two at once: each second of wall time is covered twice, but for the ends
