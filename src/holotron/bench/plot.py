"""The concurrency curve: agent-steps per second and step latency against sessions at once, one line per model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from holotron.bench.report import BenchReport
from holotron.errors import MissingDependency


def draw(reports: Sequence[BenchReport], path: Path) -> None:
    try:
        import matplotlib
    except ImportError:
        raise MissingDependency.extra("matplotlib", "plot") from None
    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, (speed, latency) = pyplot.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    for model in dict.fromkeys(report.model for report in reports):
        mine = sorted((r for r in reports if r.model == model), key=lambda r: r.workload.sessions)
        sessions = [report.workload.sessions for report in mine]
        speed.plot(sessions, [report.steps_per_second for report in mine], marker="o", label=model)
        (line,) = latency.plot(sessions, [report.latency(0.5) for report in mine], marker="o", label=f"{model}, p50")
        ends = [report.latency(0.95) for report in mine]
        latency.plot(sessions, ends, marker="o", linestyle="--", color=line.get_color(), label=f"{model}, p95")
    speed.set(xlabel="sessions at once", ylabel="agent-steps per second", title="Throughput", ylim=(0, None))
    latency.set(xlabel="sessions at once", ylabel="seconds", title="Step latency", ylim=(0, None))
    w = reports[0].workload
    shown = f"{w.steps} steps of {w.screenshot_tokens:,} screenshot + {w.text_tokens} text tokens"
    figure.suptitle(f"{shown}, {w.generate_tokens} generated, {w.history} history, {reports[0].target}")
    for axes in (speed, latency):
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
