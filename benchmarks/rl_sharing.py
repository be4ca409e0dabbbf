"""What computing a group's common beginning once saves in an update of RL.

    python benchmarks/rl_sharing.py               # a group of eight, a question about a page: five tiles, one reply
    python benchmarks/rl_sharing.py --steps 4     # episodes of four screens that part after the first

Forward and backward of one pass of the trainer, holotron-mini, with and without sharing; tower and losses included.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
import torch

from holotron.model.loading import load_model
from holotron.training.learner import Learner
from holotron.training.rl import passes
from holotron.training.rl.passes import Weighted, make_pass
from holotron.training.rl.record import Play, Rollout
from holotron.types import Outcome, Task


def member(number: int, steps: int, tiles: int, image: int, rows: int) -> Weighted:
    """An episode of its own behind the first screen, with pictures of noise and replies of fourteen letters."""
    rng = np.random.default_rng(number)
    ids: list[int] = []
    learn: list[bool] = []
    keys: list[bytes] = []
    for step in range(steps):
        ids += [
            *b"Click the word at the left of the second button. "[: 48 if step == 0 else 4],
            *[image] * (tiles * rows),
        ]
        learn += [False] * (len(ids) - len(learn))
        reply = bytes(rng.integers(97, 123, 14, np.uint8))
        ids, learn = [*ids, *reply], [*learn, *[True] * 14]
        keys += [bytes([step and number + 1, step, tile]) + b"-" * 13 for tile in range(tiles)]
    pictures = {key: torch.randint(0, 256, (3, 320, 320), dtype=torch.uint8) for key in keys}
    shown = np.asarray([(tile, row) for tile in range(len(keys)) for row in range(rows)], np.int32)
    count = sum(learn)
    play = Play(
        np.asarray(ids, np.int32), np.asarray(learn), tuple(keys), shown, np.full(count, -1, np.float32),
        np.zeros(count, np.int32),
    )  # fmt: skip
    return Rollout(Task("t", "a"), True, Outcome.SUCCESS, (play,), pictures), play, 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--members", type=int, default=8)
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--tiles", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    device = torch.device(args.device)
    model, _ = load_model("holotron-mini", device=device)
    learner = Learner(model).requires_grad_(True).train()
    rows = model.config.tokens_per_tile
    group = [member(n, args.steps, args.tiles, model.config.tokens.image, rows) for n in range(args.members)]
    for shares in (False, True, False, True):
        passes.can_share = lambda _, shares=shares: shares  # type: ignore[assignment,misc]
        spent = []
        for _ in range(args.repeats):
            began, cpu = time.monotonic(), time.process_time()
            batch = make_pass(group, model.config, device).batch
            learner.predict(batch, learner.look(batch)).float().log_softmax(-1).sum().backward()
            if device.type == "cuda":
                torch.cuda.synchronize()
            spent.append(time.process_time() - cpu if device.type == "cpu" else time.monotonic() - began)
        row = {"shared": shares, "tokens": batch.tokens, "computed": len(batch.ids_T), "seconds": round(min(spent), 3)}
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
