"""How cost grows: agent-steps per second over sessions and steps, and the hybrid beside the transformer it replaced.

    python benchmarks/grid.py                                  # about an hour on one H200; interrupt it at will
    python benchmarks/grid.py --minutes 9                      # what fits into nine minutes; run it again for more
    python benchmarks/grid.py --only curve --plot docs/images/hybrid-vs-transformer.png
    python benchmarks/grid.py --model tiny --against tiny-transformer --sessions 2,4 --steps 2,3 --counts 1,2 --small

A cell is written to the file as soon as it is measured and never measured twice. Cells whose sessions do not all fit on
the device run with the rest on the host, and say how many do. The curve needs no grid and the grid no curve.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from holotron.bench import inprocess
from holotron.bench.command import engine_settings
from holotron.bench.workload import Workload
from holotron.engine.api import EngineConfig
from holotron.engine.plan import Planner
from holotron.errors import MissingDependency
from holotron.model.loading import Loaded, load_model


@dataclass(frozen=True)
class Cell:
    part: str  # grid or curve
    model: str
    sessions: int
    steps: int

    @property
    def key(self) -> str:
        return f"{self.part}/{self.model}/{self.sessions}x{self.steps}"


def cells(args: argparse.Namespace) -> Iterator[Cell]:
    def numbers(text: str) -> list[int]:
        return [int(number) for number in text.split(",")]

    if args.only in (None, "curve"):
        for model in (args.model, args.against):
            for count in numbers(args.counts):
                yield Cell("curve", model, count, args.curve_steps)
    if args.only in (None, "grid"):
        for steps in numbers(args.steps):  # the short ones first
            for sessions in numbers(args.sessions):
                yield Cell("grid", args.model, sessions, steps)


def measure(cell: Cell, loaded: Loaded, args: argparse.Namespace) -> dict[str, Any]:
    sizes = (32, 64, 8, 8) if args.small else ()
    workload = Workload(cell.sessions, cell.steps, *sizes)
    options = {"token_budget": args.token_budget, **engine_settings(args.engine)}
    planner = Planner(loaded.model.config, loaded.model.dtype, EngineConfig(**options))
    context = workload.longest_context + inprocess.MARGIN
    # Room on the host for all of them, as far as this machine has it.
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    options["host_bytes"] = min((cell.sessions + 1) * planner.session_bytes(context), int(0.6 * memory))
    config = inprocess.engine_config(loaded.model, workload, options)
    report = inprocess.measure_loaded(loaded, workload, engine=options).as_dict()
    on_device = min(cell.sessions, config.state_rows - 1 if loaded.model.config.decoder.mamba else config.max_running)
    return {
        **report,
        "sessions_on_device": on_device,
        "planned_session_bytes": planner.session_bytes(context),
        "trajectories_of_30_steps_per_hour": report["agent_steps_per_second"] * 3600 / 30,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="holotron-12b")
    parser.add_argument("--against", default="holo2-8b")
    parser.add_argument("--sessions", default="25,50,100,200")
    parser.add_argument("--steps", default="6,12,24")
    parser.add_argument("--counts", default="1,10,25,50,100", help="sessions at once, of the curve (%(default)s)")
    parser.add_argument("--curve-steps", type=int, default=6)
    parser.add_argument("--only", choices=["grid", "curve"])
    parser.add_argument("--minutes", type=float, help="begin no cell after this long")
    parser.add_argument("--token-budget", type=int, default=2048)
    parser.add_argument("--engine", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--small", action="store_true", help="few tokens per step: does it run?")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/grid.json"))
    parser.add_argument("--plot", type=Path, metavar="PNG", help="draw the curve")
    args = parser.parse_args()
    done: dict[str, Any] = json.loads(args.out.read_text()) if args.out.exists() else {}
    started = time.monotonic()
    loaded: Loaded | None = None
    name = ""
    for cell in cells(args):
        if cell.key in done:
            continue
        if args.minutes is not None and time.monotonic() - started > 60 * args.minutes:
            print("the time is up; run it again to go on")
            break
        if name != cell.model:
            loaded, name = None, cell.model  # the last one makes room first
            _tidy()
            loaded = load_model(name)
        assert loaded is not None
        _tidy()
        try:
            done[cell.key] = measure(cell, loaded, args)
        except Exception as error:
            traceback.print_exc()
            done[cell.key] = {"error": f"{type(error).__name__}: {error}"}
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(done, indent=1) + "\n")
        print(row(cell.key, done[cell.key]), flush=True)
    print("\n".join([HEAD, *(row(key, found) for key, found in done.items())]))
    if args.plot is not None:
        draw(done, args.plot)


HEAD = (
    "| cell (sessions x steps) | agent-steps/s | on the device | cached | p50 / p95 step | 30-step runs per hour |\n"
    "|---|---|---|---|---|---|"
)


def row(key: str, found: dict[str, Any]) -> str:
    if "error" in found:
        return f"| {key} | failed: {found['error']} | | | | |"
    times = found["step_seconds"]
    return (
        f"| {key} | {found['agent_steps_per_second']:.3g} | {found['sessions_on_device']} "
        f"| {found['cached_share']:.1%} | {times['p50']:.3g} / {times['p95']:.3g} s "
        f"| {found['trajectories_of_30_steps_per_hour']:,.0f} |"
    )


def draw(done: dict[str, Any], path: Path) -> None:
    """Agent-steps per second against sessions at once, one line per model."""
    try:
        import matplotlib
    except ImportError:
        raise MissingDependency.extra("matplotlib", "plot") from None
    matplotlib.use("agg")
    from matplotlib import pyplot

    lines: dict[str, list[tuple[int, float]]] = {}
    for key, found in done.items():
        part, model, size = key.split("/")
        if part == "curve" and "error" not in found:
            lines.setdefault(model, []).append((int(size.split("x")[0]), found["agent_steps_per_second"]))
    figure, axes = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    for model, points in lines.items():
        axes.plot(*zip(*sorted(points), strict=True), marker="o", label=model)
    axes.set(xlabel="sessions at once", ylabel="agent-steps per second", ylim=(0, None))
    axes.grid(alpha=0.3)
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def _tidy() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
