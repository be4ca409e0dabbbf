"""Every n-th group's episodes as an ordinary run directory: `holotron report runs/x/episodes` shows what the policy
does."""

from __future__ import annotations

import threading
from pathlib import Path

from holotron.rollouts.store import RunWriter
from holotron.storage.manifest import describe_run
from holotron.suites.base import Suite
from holotron.training.rl.recipe import RlRecipe
from holotron.training.rl.tasks import Drawn
from holotron.types import Trajectory


class Recorder:
    def __init__(self, folder: Path, recipe: RlRecipe, suite: Suite) -> None:
        policy = {"policy": "engine", "recipe": recipe.name, "agent": recipe.agent.model_dump()}
        manifest = describe_run("rl", policy=policy, limits=suite.limits.describe(), environment=suite.describe())
        self._every = recipe.rollouts.record_every
        self._lock = threading.Lock()  # episodes end on several threads at once; a run has one writer
        self._writer = RunWriter(folder, manifest)

    def __call__(self, trajectory: Trajectory, drawn: Drawn) -> None:
        if drawn.number % self._every:
            return
        with self._lock:
            if trajectory.id not in self._writer.finished:  # else it was played again after a resume
                self._writer.append(trajectory)

    def close(self) -> None:
        self._writer.close()
