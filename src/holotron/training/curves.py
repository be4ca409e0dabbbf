"""What a run writes down while it goes: `metrics.jsonl` (always), TensorBoard's event files, and the terminal.

A resumed run continues its curves: whatever was written after the checkpoint it resumes from is cut off first.
"""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

METRICS = "metrics.jsonl"


class Curves:
    def __init__(self, folder: Path, *, resume_at: int = 0, console: Console | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / METRICS
        _cut(path, resume_at)
        self._file = path.open("a")
        self._events: Any = None
        self.console = console or Console()
        if importlib.util.find_spec("tensorboard") is not None:
            from torch.utils.tensorboard import SummaryWriter

            self._events = SummaryWriter(str(folder / "tensorboard"), purge_step=resume_at or None)
        else:
            self.say(f"tensorboard is not installed; curves go to {path} only")

    def add(self, step: int, values: Mapping[str, float]) -> None:
        self._file.write(json.dumps({"step": step, **values}) + "\n")
        if self._events is not None:
            for name, value in values.items():
                self._events.add_scalar(name, value, step)

    def flush(self) -> None:
        self._file.flush()
        if self._events is not None:
            self._events.flush()

    def say(self, text: str) -> None:
        self.console.print(f"[dim]{time.strftime('%H:%M:%S')}[/dim] {text}", highlight=False, soft_wrap=True)

    def close(self) -> None:
        self._file.close()
        if self._events is not None:
            self._events.close()


def read_metrics(folder: Path) -> list[dict[str, float]]:
    path = folder / METRICS
    return [json.loads(line) for line in path.read_text().splitlines() if line] if path.exists() else []


def _cut(path: Path, step: int) -> None:
    """Keep what belongs to steps up to this one; a line that a kill cut short goes too."""
    if not path.exists():
        return
    kept = []
    for line in path.read_text().splitlines():
        try:
            if json.loads(line)["step"] <= step:
                kept.append(line + "\n")
        except (ValueError, KeyError):
            continue
    draft = path.with_name(f".{path.name}.partial")
    draft.write_text("".join(kept))
    draft.replace(path)
