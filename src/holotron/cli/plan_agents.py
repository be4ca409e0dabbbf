"""`holotron plan --agents N`: what so many agents need, and what breaks first. Part of `holotron plan`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holotron.bench import measured
from holotron.bench.scale import Assumptions, Need, Scale, choose_rate
from holotron.errors import ConfigError, MissingDependency

if TYPE_CHECKING:
    from holotron.engine.plan import Planner


def assumptions(said: Sequence[str]) -> Assumptions:
    given: dict[str, str] = {}
    for text in said:
        name, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"--assume {text}: write NAME=VALUE, such as gpu_hour=2.5")
        given[name.strip().replace("-", "_")] = value.strip()
    return Assumptions().but(given)


def scale_for(planner: Planner, weights: str, gpu: str | None, usable: int, given: Assumptions) -> Scale:
    name = planner.model.name
    if gpu != measured.GPU and not given.steps_per_second:
        raise ConfigError(
            f"steps were measured on an {measured.GPU} only: plan for that, or say --assume steps_per_second=... from "
            "`holotron bench sessions` on yours"
        )
    choose_rate(name, weights, given)  # an unknown model is told before its memory is planned
    free = usable - planner.plan(1, 64).total
    if free <= 0:
        raise ConfigError(f"{name} in {weights} does not fit on this GPU; see `holotron plan {name}` without --agents")
    return Scale.of(name, weights, planner.session_bytes, free, given)


def as_json(scale: Scale, need: Need, head: dict[str, Any]) -> str:
    told = asdict(need) | {"cores": need.cores, "host_gib": need.host_gib, "cost_total": sum(need.cost.values())}
    used = [scale.rate.measured, *measured.ALL]
    assumed = [{"name": name, "value": value, "why": why} for name, value, why in scale.given.listed()]
    one = {
        "agents": scale.agents_per_gpu,
        "sessions_at_once": scale.rate.sessions,
        "task_steps": scale.rate.steps,
        "steps_per_second": scale.steps_per_second,
        "session_bytes": scale.session_bytes,
        "overflow_bytes": scale.overflow_bytes,
    }
    limits = [asdict(limit) for limit in scale.limits()]
    measurements = [asdict(figure) for figure in used]
    return json.dumps(
        head | {"need": told, "one_gpu": one, "limits": limits, "measured": measurements, "assumed": assumed}, indent=2
    )


def show(scale: Scale, need: Need, title: str) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    console.width = max(console.width, 120)
    console.print(
        f"[bold]{need.agents:,} agents[/bold] on {title}: {need.steps_per_second:,.1f} steps a second, one every "
        f"{need.step_seconds:.1f} s for each agent"
    )
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("what", "how much", "of which"):
        table.add_column(name, justify="right" if name == "how much" else "left")
    per_gpu = f"{scale.agents_per_gpu:.0f} agents each ({scale.rate.sessions} in the model, the rest in their browsers)"
    table.add_row("GPUs", f"{need.gpus:,}", f"{per_gpu}; {need.gpu_machines:,} machines")
    of = f"browsers {need.browser_cores:,.0f}, servers {need.server_cores:,.0f}, entrances {need.entrance_cores:,.1f}"
    table.add_row("cores", f"{need.cores:,.0f}", f"{of}; {need.browser_machines:,} machines of browsers")
    of = f"browsers {need.browser_gib:,.0f}, servers {need.server_gib:,.0f}"
    table.add_row("host memory, GiB", f"{need.host_gib:,.0f}", of)
    each = f"{scale.session_bytes / 2**30:.2f} for each agent at the end of its task"
    table.add_row("sessions, GiB", f"{need.device_gib:,.0f}", each)
    table.add_row("entrances", f"{need.entrances:,}", f"{scale.entrance_steps:,.0f} steps a second each")
    table.add_row(
        "network, Gbit/s", f"{need.gbit:,.1f}", "screenshots into the entrances; as much from there to the replicas"
    )
    table.add_row("recorded, TB a day", f"{need.tb_per_day:,.1f}", f"{measured.PICTURE_SIZE.value} MB a step")
    table.add_row("lost GPUs a day", f"{need.stops_per_day:,.2f}", "unexpected stops")
    parts = ", ".join(f"{name} {value:,.2f}" for name, value in need.cost.items())
    table.add_row("USD a million steps", f"{sum(need.cost.values()):,.2f}", parts)
    console.print(table)
    limits = Table(box=box.SIMPLE_HEAD, title="What breaks first", title_justify="left")
    for name in ("enough for agents", "what", "because", "then"):
        limits.add_column(name, justify="right" if name == "enough for agents" else "left")
    for limit in scale.limits():
        style = "red" if limit.agents < need.agents else None
        limits.add_row(f"{limit.agents:,}", limit.what, limit.why, limit.then, style=style)
    console.print(limits)
    console.print("[bold]Measured[/bold] (docs/lab/ledger.md)")
    for figure in (scale.rate.measured, *measured.ALL):
        by = ", ".join(part for part in (figure.hardware, figure.commit, figure.date, figure.command) if part)
        console.print(f"  {figure.value:g} {figure.unit}: {figure.what} ({by})")
    console.print("[bold]Assumed[/bold] (--assume NAME=VALUE)")
    for name, value, why in scale.given.listed():
        console.print(f"  {name}={value:g}" + (f": {why}" if why else ""))


def draw(scale: Scale, need: Need, path: Path, title: str) -> None:
    """What is needed against the number of agents, with what breaks where; the price of patience beside it."""
    try:
        import matplotlib
    except ImportError:
        raise MissingDependency.extra("matplotlib", "plot") from None
    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, (axes, beside) = pyplot.subplots(1, 2, figsize=(13, 5.5), layout="constrained", width_ratios=(2, 1))
    counts = [int(10 ** (n / 4)) for n in range(8, 25)]  # 100 to a million
    needs = [scale.need(count) for count in counts]
    lines = {
        "GPUs": [one.gpus for one in needs],
        "cores": [one.cores for one in needs],
        "host memory (GiB)": [one.host_gib for one in needs],
        "network (Gbit/s)": [one.gbit for one in needs],
        "entrances": [one.entrances for one in needs],
    }
    for name, values in lines.items():
        axes.plot(counts, values, marker="o", markersize=2.5, label=name)
    for limit in scale.limits():
        axes.axvline(limit.agents, color="grey", linewidth=0.7, linestyle=":")
        axes.text(limit.agents, 0.99, f" {limit.what}", rotation=90, fontsize=7, va="top", ha="right", color="grey",
                  transform=axes.get_xaxis_transform())  # fmt: skip
    axes.axvline(need.agents, color="black", linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlabel="agents", ylabel="needed", title=title)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    _draw_prices(scale, beside)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def _draw_prices(scale: Scale, axes: Any) -> None:
    """The same model at other numbers of sessions on a GPU: fewer are faster for each agent, and dearer."""
    same = next((rates for rates in measured.RATES.values() if scale.rate in rates), (scale.rate,))
    points = [
        Scale(rate, scale.given, scale.session_bytes, scale.free_bytes)
        for rate in same
        if rate.steps == scale.rate.steps
    ]
    points.sort(key=lambda point: point.rate.sessions)
    seconds = [point.step_seconds for point in points]
    dollars = [sum(point.need(1_000_000).cost.values()) for point in points]
    axes.plot(seconds, dollars, marker="o")
    for point, x, y in zip(points, seconds, dollars, strict=True):
        axes.annotate(f" {point.rate.sessions}", (x, y), fontsize=8)
    axes.set(xlabel="seconds between an agent's steps", ylabel="USD for a million steps")
    axes.set(title="sessions on one GPU", ylim=(0, max(dollars) * 1.15), xlim=(0, max(seconds) * 1.15))
    axes.grid(alpha=0.3)
