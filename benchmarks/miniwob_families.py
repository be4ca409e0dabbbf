"""Success on MiniWoB++ by family of tasks: the table of holotron-mini's card.

    holotron eval miniwob --policy holotron-mini --seeds 200000:200020 --json miniwob.json
    python benchmarks/miniwob_families.py miniwob.json

A task's family is the file of the scripted solver (`holotron.suites.miniwob_solver`) that knows how it is done.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from statistics import mean

from holotron.suites.miniwob_solver import SOLVERS

UNSOLVED = "no solver"


def family(task: str) -> str:
    solver = SOLVERS.get(task)
    return solver.act.__module__.rsplit(".", 1)[-1].replace("_", " ") if solver else UNSOLVED


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("result", type=Path, help="what `holotron eval miniwob --json` wrote")
    tasks = json.loads(arguments.parse_args().result.read_text())["tasks"]
    families: dict[str, list[float]] = defaultdict(list)
    for task in tasks:
        families[family(task["task"])].append(task["success"])
    print("| family | tasks | success | above 90 % |\n|---|---|---|---|")
    for name, shares in sorted(families.items(), key=lambda item: -mean(item[1])):
        print(f"| {name} | {len(shares)} | {100 * mean(shares):.0f} % | {sum(share > 0.9 for share in shares)} |")


if __name__ == "__main__":
    main()
