"""How cost grows: agent-steps per second over sessions and steps, and the hybrid beside the transformer it replaced.

    python benchmarks/grid.py                                 # about an hour on one H200; interrupt it at will
    python benchmarks/grid.py --minutes 9                     # what fits into nine minutes; run it again for more
    python benchmarks/grid.py --each 1 --minutes 9            # one step of each stretch instead of all: minutes
    python benchmarks/grid.py --only curve --each 2 --plot docs/images/hybrid-vs-transformer.png
    python benchmarks/grid.py --model tiny --against tiny-transformer --sessions 2,4 --steps 2,4 --counts 1,2 --small

Sessions of 24 steps are measured in stretches (steps 1 to 6, 7 to 12, 13 to 24), each from a past that is made up; so
rates over the first 6, 12 and 24 steps come out of one session's length, nothing is run twice, and a run that was
interrupted goes on where it stopped. With `--each n` only n steps in the middle of a stretch are measured, at the mean
of its contexts, and stand for all of it. Stretches whose sessions do not all fit on the device run with the rest on the
host, and say how many do. The curve is the first stretch, for both models.
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
from itertools import pairwise
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

TRAJECTORY = 30  # steps


@dataclass(frozen=True)
class Stretch:
    """Steps `first` (counted from 0) up to but not including `last` of so many sessions at once."""

    model: str
    sessions: int
    first: int
    last: int

    @property
    def key(self) -> str:
        return f"{self.model}/{self.sessions}/{self.first}-{self.last}"

    def workload(self, each: int | None, small: bool) -> Workload:
        count = min(each or self.last, self.last - self.first)
        before = self.first + (self.last - self.first - count) // 2
        return Workload(self.sessions, count, *((32, 64, 8, 8) if small else ()), begun=before)


def numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def stretches(args: argparse.Namespace) -> Iterator[Stretch]:
    ends = [0, *numbers(args.steps)]
    if args.only in (None, "curve"):
        for model in (args.model, args.against):
            for count in numbers(args.counts):
                yield Stretch(model, count, 0, ends[1])
    if args.only in (None, "grid"):
        for first, last in pairwise(ends):  # the short ones first
            for sessions in numbers(args.sessions):
                yield Stretch(args.model, sessions, first, last)


def measure(stretch: Stretch, loaded: Loaded, args: argparse.Namespace) -> dict[str, Any]:
    workload = stretch.workload(args.each, args.small)
    options = {"token_budget": args.token_budget, **engine_settings(args.engine)}
    planner = Planner(loaded.model.config, loaded.model.dtype, EngineConfig(**options))
    context = workload.longest_context + inprocess.MARGIN
    # Room on the host for all of them, as far as this machine has it.
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    options["host_bytes"] = min((stretch.sessions + 1) * planner.session_bytes(context), int(0.6 * memory))
    config = inprocess.engine_config(loaded.model, workload, options)
    report = inprocess.measure_loaded(loaded, workload, engine=options).as_dict()
    rows = config.state_rows - 1 if loaded.model.config.decoder.mamba else config.max_running
    return {
        **report,
        "sessions_on_device": min(stretch.sessions, rows),
        "planned_session_bytes": planner.session_bytes(workload.longest_context - 1),  # the last token is not read
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="holotron-12b")
    parser.add_argument("--against", default="holo2-8b-text")
    parser.add_argument("--sessions", default="25,50,100,200")
    parser.add_argument("--steps", default="6,12,24", help="where stretches end (%(default)s)")
    parser.add_argument("--counts", default="1,10,25,50,100", help="sessions at once, of the curve (%(default)s)")
    parser.add_argument("--each", type=int, metavar="N", help="measure N steps of a stretch instead of all")
    parser.add_argument("--only", choices=["grid", "curve"])
    parser.add_argument("--minutes", type=float, help="begin nothing after this long")
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
    for stretch in stretches(args):
        if stretch.key in done:
            continue
        if args.minutes is not None and time.monotonic() - started > 60 * args.minutes:
            print("the time is up; run it again to go on")
            break
        if name != stretch.model:
            loaded, name = None, stretch.model  # the last one makes room first
            _tidy()
            loaded = load_model(name)
        assert loaded is not None
        _tidy()
        try:
            done[stretch.key] = measure(stretch, loaded, args)
        except Exception as error:
            traceback.print_exc()
            done[stretch.key] = {"error": f"{type(error).__name__}: {error}"}
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(done, indent=1) + "\n")
        print(row(stretch.key, done[stretch.key]), flush=True)
    print("\n".join([HEAD, *(row(key, found) for key, found in done.items())]))
    print("\n" + growth(done, args))
    if args.plot is not None:
        draw(done, f"0-{numbers(args.steps)[0]}", args.plot)


HEAD = (
    "| model, sessions, steps | agent-steps/s | on the device | cached | p50 / p95 step | session bytes, planned |\n"
    "|---|---|---|---|---|---|"
)


def row(key: str, found: dict[str, Any]) -> str:
    if "error" in found:
        return f"| {key} | failed: {found['error']} | | | | |"
    times, on_device = found["step_seconds"], found["sessions_on_device"]
    sessions = found["workload"]["sessions"]
    where = f"{on_device} of {sessions}" + (", the rest on the host" if on_device < sessions else "")
    return (
        f"| {key} | {found['agent_steps_per_second']:.3g} | {where} "
        f"| {found['cached_share']:.1%} | {times['p50']:.3g} / {times['p95']:.3g} s "
        f"| {found['session_bytes']:,}, {found['planned_session_bytes']:,} |"
    )


def growth(done: dict[str, Any], args: argparse.Namespace) -> str:
    """Rates over the first steps of sessions, put together from stretches; and whole trajectories, the cost of whose
    last steps is extrapolated from the last two stretches."""
    ends = numbers(args.steps)
    head = [f"first {end} steps" for end in ends]
    lines = [f"| sessions | {' | '.join(head)} | {TRAJECTORY}-step trajectories per hour |"]
    lines.append("|---" * (len(ends) + 2) + "|")
    for sessions in numbers(args.sessions):
        seconds, rates, costs = 0.0, [], []
        for first, last in pairwise([0, *ends]):
            found = done.get(Stretch(args.model, sessions, first, last).key, {})
            if "agent_steps_per_second" not in found:
                break
            costs.append((0.5 * (first + last), 1 / found["agent_steps_per_second"]))  # of a step, seconds
            seconds += (last - first) * costs[-1][1]
            rates.append(f"{last / seconds:.3g}")
        hourly = ""
        if len(rates) == len(ends) and (beyond := TRAJECTORY - ends[-1]) > 0 and len(costs) > 1:
            (before, cheap), (middle, dear) = costs[-2:]
            slope = max(0.0, (dear - cheap) / (middle - before))
            seconds += beyond * (dear + slope * (ends[-1] + 0.5 * beyond - middle))
            hourly = f"{3600 / seconds:,.0f} (steps {ends[-1] + 1} to {TRAJECTORY} extrapolated)"
        cells = [*rates, *["-"] * (len(ends) - len(rates)), hourly]
        lines.append(f"| {sessions} | {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(done: dict[str, Any], steps: str, path: Path) -> None:
    """Agent-steps per second and step latency against sessions at once, one line per model."""
    try:
        import matplotlib
    except ImportError:
        raise MissingDependency.extra("matplotlib", "plot") from None
    matplotlib.use("agg")
    from matplotlib import pyplot

    lines: dict[str, list[tuple[int, float, float]]] = {}
    for key, found in done.items():
        model, count, stretch = key.split("/")
        if stretch == steps and "error" not in found:
            point = (int(count), found["agent_steps_per_second"], found["step_seconds"]["p50"])
            lines.setdefault(model, []).append(point)
    figure, (speed, latency) = pyplot.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    for model, points in lines.items():
        counts, rates, times = zip(*sorted(points), strict=True)
        speed.plot(counts, rates, marker="o", label=model)
        latency.plot(counts, times, marker="o", label=model)
    speed.set(xlabel="sessions at once", ylabel="agent-steps per second", title="Throughput", ylim=(0, None))
    latency.set(xlabel="sessions at once", ylabel="seconds", title="Step latency, p50", ylim=(0, None))
    figure.suptitle("2,400 prompt and 128 generated tokens per step, append history")
    for axes in (speed, latency):
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
