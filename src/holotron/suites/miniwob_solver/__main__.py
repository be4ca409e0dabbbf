"""`python -m holotron.suites.miniwob_solver`: measure the solver and write its table."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from holotron.envs.miniwob import task_names
from holotron.suites.miniwob_solver.measure import TaskResult, measure, summary, table

MARK = "<!-- measured -->"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the scripted MiniWoB++ solver.")
    parser.add_argument("--tasks", default="all", help="comma-separated names, or all")
    parser.add_argument("--seeds", default="0:20", help="first:end")
    parser.add_argument("--sessions", type=int, default=4)
    parser.add_argument("--crop", action="store_true", help="without the instruction bar")
    parser.add_argument("--out", type=Path, help=f"a Markdown file; what follows {MARK} in it is replaced")
    options = parser.parse_args()

    names = task_names() if options.tasks == "all" else options.tasks.split(",")
    seeds = range(*map(int, options.seeds.split(":")))
    results = asyncio.run(
        measure(
            names,
            seeds,
            sessions=options.sessions,
            crop=options.crop,
            on_task=lambda result: print(_line(result), flush=True),
        )
    )
    print(summary(results))
    if options.out:
        text = options.out.read_text(encoding="utf-8").split(MARK)[0]
        options.out.write_text(f"{text}{MARK}\n\n{summary(results)}\n\n{table(results)}\n", encoding="utf-8")


def _line(result: TaskResult) -> str:
    problems = {e.problem for e in result.episodes if e.problem}
    lost = [i for i, e in enumerate(result.episodes) if not e.solved]
    return (
        f"{result.name:30} {result.success:6.0%}  reward {result.reward:5.2f}  steps {result.steps:5.1f}"
        + (f"  lost: {lost}" if lost else "")
        + (f"  {'; '.join(sorted(problems))}" if problems else "")
    )


if __name__ == "__main__":
    main()
