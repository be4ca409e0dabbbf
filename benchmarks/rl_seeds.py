"""Runs of `holotron train rl` that differ in their seed, in one picture: greedy success on held-out seeds, by update.

    python benchmarks/rl_seeds.py runs/rl-1 runs/rl-2 runs/rl-3 --out docs/images/rl-seeds.png

Thin lines are the runs, the thick one their mean as far as all of them go. A line is only as good as the number of
episodes behind each point (`evaluate.seeds` times the tasks).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

from holotron.training.curves import read_metrics

matplotlib.use("agg")
from matplotlib import pyplot

MEASURE = "evaluation/success"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("runs", nargs="+", type=Path, help="folders with a metrics.jsonl")
    arguments.add_argument("--out", type=Path, required=True, help="the picture")
    chosen = arguments.parse_args()
    curves = {run: {row["step"]: row[MEASURE] for row in read_metrics(run) if MEASURE in row} for run in chosen.runs}
    if missing := [str(run) for run, curve in curves.items() if not curve]:
        raise SystemExit(f"no evaluations in {', '.join(missing)}; train with evaluate.every_steps")
    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    for run, curve in curves.items():
        axes.plot(list(curve), list(curve.values()), alpha=0.5, marker=".", label=run.name)
    common = sorted(set.intersection(*(set(curve) for curve in curves.values())))
    means = [sum(curve[step] for curve in curves.values()) / len(curves) for step in common]
    axes.plot(common, means, color="black", linewidth=2.5, label="mean")
    axes.set(xlabel="update", ylabel="greedy success, held-out seeds")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(chosen.out, dpi=120)
    for step, mean in zip(common, means, strict=True):
        print(f"update {step:5.0f}  mean {100 * mean:.1f} %")
    print(f"picture: {chosen.out}")


if __name__ == "__main__":
    main()
