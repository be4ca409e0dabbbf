"""A synthesis in a process of its own, to be killed: `python -m tests.data.killable FOLDER PAGES`. Prints progress."""

from __future__ import annotations

import sys
from pathlib import Path

from holotron.data.pages.make import Recipe, Size
from holotron.data.synth import synthesise

RECIPE = Recipe(sizes=(Size(160, 160, 1),), episodes=0.2)

if __name__ == "__main__":
    synthesise(
        Path(sys.argv[1]),
        RECIPE,
        seed=5,
        pages=int(sys.argv[2]),
        processes=2,
        shard_pages=4,
        progress=lambda report: print(report.pages, flush=True),
    )
