"""`holotron plan`: what fits on a GPU, to the byte, before anything runs; with --agents, what a cluster needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holotron.errors import ConfigError, MissingDependency

if TYPE_CHECKING:
    from holotron.engine.plan import Planner

app = typer.Typer()


@app.command()
def plan(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            help="Presets, folders (config.json suffices) or hub ids.", show_default="holotron-12b holo2-8b"
        ),
    ] = None,
    gpu: Annotated[str, typer.Option(help="B200, H200, H100, A100-80, A100-40, L40S, RTX-4090, ...")] = "H200",
    memory: Annotated[float | None, typer.Option(min=0.1, help="GiB, instead of a named GPU.")] = None,
    fraction: Annotated[float, typer.Option(min=0.01, max=1.0, help="Share of the memory to plan with.")] = 0.92,
    context: Annotated[str, typer.Option(help="Tokens per session; several with commas.")] = "4k,16k,32k,64k,128k",
    sessions: Annotated[
        int | None, typer.Option(min=1, help="Sessions at once.", show_default="as many as fit")
    ] = None,
    dtype: Annotated[str, typer.Option(help="Of weights and activations.")] = "bfloat16",
    state_dtype: Annotated[str, typer.Option(help="Of the recurrent state: float32, bfloat16, float16.")] = "float32",
    kv_dtype: Annotated[
        str | None, typer.Option(help="Of keys and values: bfloat16, float8_e4m3fn.", show_default="dtype")
    ] = None,
    weights: Annotated[
        str | None, typer.Option(help="Of Mamba, MLP and expert matrices: bf16, fp8.", show_default="dtype")
    ] = None,
    weight_dtype: Annotated[
        str | None, typer.Option(help="The same by its full name: float8_e4m3fn.", show_default="dtype")
    ] = None,
    replay: Annotated[bool, typer.Option(help="Decodes write the state every 16th time only.")] = False,
    token_budget: Annotated[
        int | None, typer.Option(min=1, help="Tokens in one iteration.", show_default="the server's")
    ] = None,
    vision_cache: Annotated[
        float | None,
        typer.Option(help="GiB for encoded image tiles.", show_default="three large screenshots a session"),
    ] = None,
    agents: Annotated[
        int | None, typer.Option(min=1, help="Agents at once: GPUs, cores, memory, network and cost for them.")
    ] = None,
    assume: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="With --agents: what was not measured, said otherwise. Repeatable."),
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON, in bytes.")] = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw sessions by context length, or needs by agents (PNG, SVG).")
    ] = None,
) -> None:
    """Say what fits: weights, states, keys and values, vision cache, workspace; sessions by context length.

    holotron plan holotron-12b --gpu H100
    holotron plan runs/mine/model --memory 22 --weights fp8 --context 16k,64k
    holotron plan holo2-8b --json
    holotron plan --agents 10000 --weights fp8 --assume gpu_hour=2.5
    """
    import torch

    from holotron.engine.api import EngineConfig
    from holotron.engine.plan import GiB, Planner, gpu_bytes, gpu_name
    from holotron.engine.sizes import dtype_of
    from holotron.model.loading import model_config

    contexts = [_tokens(text) for text in context.split(",")]
    if plot is not None and plot.suffix.lower() not in ("", ".png", ".svg", ".pdf"):
        raise ConfigError(f"--plot {plot}: a picture is a .png, .svg or .pdf")
    if weights not in (None, "bf16", "fp8"):
        raise ConfigError(f"--weights can be bf16 or fp8, not {weights!r}")
    weight_dtype = "float8_e4m3fn" if weights == "fp8" else weight_dtype
    engine = EngineConfig(
        state_dtype=state_dtype,
        kv_dtype=kv_dtype,
        weight_dtype=weight_dtype,
        replay=replay,
        token_budget=token_budget or EngineConfig().token_budget,
        vision_cache_bytes=None if vision_cache is None else int(vision_cache * GiB),
    )
    planners = [
        Planner(model_config(name), dtype_of(dtype) or torch.bfloat16, engine)
        for name in models or ["holotron-12b", "holo2-8b"]
    ]
    total = int(memory * GiB) if memory is not None else gpu_bytes(gpu)
    usable = int(total * fraction)
    device = f"{memory:g} GiB" if memory is not None else gpu
    if agents is not None:
        if len(planners) > 1 and models:
            raise ConfigError("--agents plans for one model at a time")
        if sessions is not None:
            raise ConfigError("with --agents, say how many sessions a GPU works on with --assume sessions_per_gpu=N")
        kind = "fp8" if weight_dtype == "float8_e4m3fn" else "bf16"
        _for_agents(
            agents, assume or [], planners[0], kind, None if memory else gpu_name(gpu), usable, json_output, plot
        )
        return
    if assume:
        raise ConfigError("--assume belongs to --agents N")
    rows = [_row(planner, length, usable, sessions) for planner in planners for length in contexts]
    card = gpu_name(gpu) if memory is None else None
    asked = models or ["holotron-12b", "holo2-8b"]
    best = [_best(planner, name, usable, card, sessions) for planner, name in zip(planners, asked, strict=True)]
    if json_output:
        head = {"device": device, "memory": total, "usable": usable, "token_budget": engine.token_budget}
        kinds = {"dtype": dtype, "state_dtype": state_dtype, "kv_dtype": kv_dtype or dtype}
        kinds |= {"weight_dtype": weight_dtype or dtype, "replay": str(replay)}
        print(json.dumps(head | kinds | {"plans": rows, "best": best}, indent=2))
    else:
        _print(device, total, usable, planners, rows)
        _print_best(device, best)
    if plot is not None:
        _draw(planners, usable, plot, f"{device}, {fraction:.0%} of {total / GiB:.1f} GiB, {state_dtype} state")


def _for_agents(
    agents: int,
    assume: list[str],
    planner: Planner,
    kind: str,
    gpu: str | None,
    usable: int,
    json_output: bool,
    plot: Path | None,
) -> None:
    from holotron.cli import plan_agents

    scale = plan_agents.scale_for(planner, kind, gpu, usable, plan_agents.assumptions(assume))
    need = scale.need(agents)
    title = f"{planner.model.name} in {kind}, {gpu or f'{usable / 2**30:.0f} GiB'}"
    if json_output:
        print(plan_agents.as_json(scale, need, {"model": planner.model.name, "weights": kind, "gpu": gpu}))
    else:
        plan_agents.show(scale, need, f"{title}, tasks of {scale.rate.steps} steps")
    if plot is not None:
        plan_agents.draw(scale, need, plot, f"{title}, tasks of {scale.rate.steps} steps")


def _tokens(text: str) -> int:
    """16384, 16k or 1M."""
    scale = {"k": 1024, "m": 1024**2}.get(text.strip()[-1:].lower(), 1)
    number = text.strip().rstrip("kKmM")
    if not number.isdecimal() or not int(number):
        raise ConfigError(f"--context {text!r} is not a number of tokens; write 16384, 16k or several with commas")
    return int(number) * scale


def _row(planner: Planner, context: int, usable: int, sessions: int | None) -> dict[str, Any]:
    fits = planner.sessions(usable, context)
    count = sessions or fits
    plan = planner.plan(max(1, count), context)  # when nothing fits, what one would have needed
    return {
        "model": planner.model.name,
        "context": context,
        "sessions_that_fit": fits,
        "sessions": count,
        "session_bytes": planner.session_bytes(context),
        "weights": planner.weight_bytes,
        "state": plan.state,
        "kv": plan.kv,
        "vision_cache": plan.vision_cache,
        "graphs": plan.graphs,
        "workspace": plan.workspace,
        "runtime": plan.runtime,
        "total": plan.total,
        "fits": plan.total <= usable and context <= planner.model.decoder.max_positions,
    }


_BEST_CONTEXT = 32_768  # tokens: some tens of screenshots, what a task of the web takes


def _best(planner: Planner, source: str, usable: int, card: str | None, sessions: int | None) -> dict[str, Any]:
    """The setting to start with, and whether anybody ran it."""
    from holotron.engine.recommend import MEASURED, has_fp8, recommend

    context = min(_BEST_CONTEXT, planner.model.decoder.max_positions)
    found = recommend(planner, usable, context, sessions or 2, fp8=card is None or has_fp8(card))
    head = {"model": planner.model.name or source, "context": context}
    if found is None:
        return head | {"command": None, "sessions": 0}
    command = " ".join(["holotron serve", source, *found.flags.split(), f"--context {context}"])
    checked = (
        "planned, as on the H200 where plans were checked" if card in MEASURED else "planned, not run on this card"
    )
    return head | {
        "command": command,
        "weights": found.weights,
        "sessions": found.sessions,
        "total": found.plan.total,
        "status": checked,
    }


def _print_best(device: str, best: list[dict[str, Any]]) -> None:
    from holotron.engine.plan import GiB

    for found in best:
        if found["command"] is None:
            print(f"{found['model']}: does not fit on {device}, not even one session of {found['context']:,} tokens")
        else:
            print(
                f"best on {device}: {found['command']}\n  {found['sessions']:,} sessions of {found['context']:,} "
                f"tokens, {found['total'] / GiB:.1f} GiB ({found['status']})"
            )


def _print(device: str, total: int, usable: int, planners: list[Planner], rows: list[dict[str, Any]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table

    from holotron.engine.plan import GiB

    console = Console()
    title = f"{device}: {total / GiB:.1f} GiB, {usable / GiB:.1f} GiB to plan with (sizes in GiB)"
    table = Table(
        box=box.SIMPLE_HEAD,
        title=title,
        caption="workspace, runtime and most of graphs are estimates, everything else is exact",
        title_justify="left",
    )
    for name in ("model", "context", "that fit", "sessions", "each"):
        table.add_column(name, justify="left" if name == "model" else "right")
    parts = ("weights", "state", "kv", "vision_cache", "graphs", "workspace", "runtime", "total")
    for name in parts:
        table.add_column(name.replace("_", " "), justify="right")
    last = ""
    for row in rows:
        if last and row["model"] != last:
            table.add_section()
        last = row["model"]
        sizes = [f"{row[part] / GiB:.2f}" for part in parts]
        style = None if row["fits"] else "red"
        counts = [f"{row['context']:,}", f"{row['sessions_that_fit']:,}", f"{row['sessions']:,}"]
        table.add_row(row["model"], *counts, f"{row['session_bytes'] / GiB:.3f}", *sizes, style=style)
    # A table cut to pieces helps nobody; terminals scroll.
    console.width = max(console.width, Measurement.get(console, console.options.update(width=1000), table).maximum)
    console.print(table)
    for planner in planners:
        per_token = planner.page_bytes / planner.engine.page_size
        state = f"{planner.row_bytes:,} B of state and " if planner.row_bytes else ""
        console.print(f"{planner.model.name}: a session holds {state}{per_token:,.0f} B per token", highlight=False)


def _draw(planners: list[Planner], usable: int, path: Path, title: str) -> None:
    try:
        import matplotlib
    except ImportError:
        raise MissingDependency.extra("matplotlib", "plot") from None
    matplotlib.use("agg")
    from matplotlib import pyplot

    lengths = [1024 * 2 ** (n / 2) for n in range(15)]  # 1k to 128k
    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    for planner in planners:
        kind = "hybrid" if planner.row_bytes else "transformer"
        fits = [planner.sessions(usable, int(length)) for length in lengths]
        axes.plot(lengths, fits, marker="o", markersize=3, label=f"{planner.model.name} ({kind})")
    axes.set(xscale="log", yscale="log", xlabel="context (tokens)", ylabel="sessions that fit", title=title)
    axes.set_xticks([1024 * 2**n for n in range(8)], [f"{2**n}k" for n in range(8)])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
