"""Earlier successes of every task, on disk: one compressed file each, so that a long run's memory stays small and a
resumed run still has them.

    successes/click-link/00000317-2.npz          group 317, member 2

Each is given out once. A few old successes that stand in for every failed group of a hard task would be most of what is
praised there.
"""

from __future__ import annotations

import logging
import os
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from holotron.training.rl.record import Play, Rollout
from holotron.training.samples import joined
from holotron.types import Outcome, Task

log = logging.getLogger(__name__)


class Successes:
    def __init__(self, folder: Path, keep: int) -> None:
        """`keep` of each task, the newest."""
        self._folder = folder
        self._keep = keep
        for draft in folder.glob("*/.*.partial"):
            draft.unlink()

    def add(self, rollout: Rollout, group: int, member: int) -> None:
        if not self._keep:
            return
        folder = self._folder / rollout.task.name
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{group:08d}-{member}.npz"
        draft = folder / f".{name}.partial"
        with draft.open("wb") as file:
            np.savez_compressed(file, **_to_arrays(rollout))
        os.replace(draft, folder / name)
        for old in self._of(rollout.task.name)[: -self._keep]:
            old.unlink(missing_ok=True)

    def take(self, name: str) -> Rollout | None:
        """The newest success of a task, for the last time."""
        for path in reversed(self._of(name)):
            try:
                with np.load(path) as arrays:
                    return _from_arrays(dict(arrays))
            except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
                log.warning("%s cannot be read (%s); it is left out", path, error)
            finally:
                path.unlink(missing_ok=True)
        return None

    def _of(self, name: str) -> list[Path]:
        return sorted((self._folder / name).glob("*.npz")) if self._keep else []


def _to_arrays(rollout: Rollout) -> dict[str, Any]:
    keys = list(rollout.tiles)
    place = {key: n for n, key in enumerate(keys)}
    task = rollout.task
    arrays: dict[str, Any] = {
        "task": np.asarray([task.suite, task.name, task.goal, str(task.seed)]),
        "steps": np.asarray(rollout.steps),
        "reward": np.asarray(rollout.reward),
        "keys": np.frombuffer(b"".join(keys), np.uint8).reshape(len(keys), -1),
        "pixels": np.empty(0, np.uint8),
        "plays": np.asarray(len(rollout.plays)),
    }
    if keys:
        tiles, sizes = joined([tile[None] for tile in rollout.tiles.values()])
        arrays |= {"pixels": tiles.numpy()} | ({} if sizes is None else {"sizes": sizes})
    for n, play in enumerate(rollout.plays):
        arrays |= {
            f"ids{n}": play.ids_T,
            f"learn{n}": play.learn_T,
            f"tiles{n}": np.asarray([place[key] for key in play.tiles], np.int32),
            f"shown{n}": play.shown,
            f"logprobs{n}": play.logprobs_l,
            f"versions{n}": play.versions_l,
            f"masks{n}": play.masks_uW,
            **({} if play.mask_l is None else {f"mask_of{n}": play.mask_l}),
        }
    return arrays


def _from_arrays(arrays: dict[str, np.ndarray]) -> Rollout:
    suite, name, goal, seed = (str(part) for part in arrays["task"])
    keys = [row.tobytes() for row in arrays["keys"]]
    plays = tuple(
        Play(
            arrays[f"ids{n}"],
            arrays[f"learn{n}"],
            tuple(keys[place] for place in arrays[f"tiles{n}"]),
            arrays[f"shown{n}"],
            arrays[f"logprobs{n}"],
            arrays[f"versions{n}"],
            arrays[f"masks{n}"],
            arrays.get(f"mask_of{n}"),
        )
        for n in range(int(arrays["plays"]))
    )
    pixels = list(map(torch.from_numpy, arrays["pixels"]))
    if "sizes" in arrays:
        sizes = arrays["sizes"].tolist()
        pixels = [tile[:, :height, :width].clone() for tile, (height, width) in zip(pixels, sizes, strict=True)]
    tiles = dict(zip(keys, pixels, strict=True))
    rollout = Rollout(Task(suite, name, goal, int(seed)), True, Outcome.SUCCESS, plays, tiles, int(arrays["steps"]))
    return replace(rollout, replayed=True, reward=float(arrays["reward"]))
