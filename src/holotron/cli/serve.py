"""`holotron serve`: a model behind an OpenAI-compatible API with sessions."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from holotron.errors import ConfigError, MissingDependency

app = typer.Typer()


class Weights(StrEnum):
    """In which numbers the large matrices are kept; files of any kind are turned into them as they are read."""

    BF16 = "bf16"
    FP8 = "fp8"


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def serve(
    context: typer.Context,
    host: Annotated[str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")] = None,
    port: Annotated[int | None, typer.Option(help="0 takes a free one.", show_default="8000")] = None,
    device: Annotated[
        str | None, typer.Option(help="cuda, cuda:1, cpu.", show_default="the GPU if there is one")
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="float32, bfloat16, float16.", show_default="the checkpoint's")
    ] = None,
    weights: Annotated[
        Weights | None,
        typer.Option(help="fp8 keeps most matrices in 8 bits: half the memory.", show_default="bf16"),
    ] = None,
    sessions: Annotated[int | None, typer.Option(help="Sessions to hold on the device at once.")] = None,
    context_length: Annotated[
        int | None, typer.Option("--context", help="Tokens per session to plan for.", show_default="16384")
    ] = None,
    replicas: Annotated[
        str | None,
        typer.Option(
            metavar="N", help="Several engines behind one address: one per GPU, or CPU processes. Or their addresses."
        ),
    ] = None,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Start the replicas on this Ray cluster; auto finds one.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="Settings in a TOML file.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print all settings, resolved, and stop.")] = False,
) -> None:
    """Serve a model: OpenAI-compatible API with sessions.

    The model is a hub id such as Hcompany/Holotron-12B, a folder, or a preset with random weights such as tiny; without
    one, the small model that comes with the package.

    Every setting can be given in a TOML file (--config), in the environment (HOLOTRON_SERVER__PORT=8001) and as a flag
    (--server.port 8001); later ones win. --dry-run lists them all.

      holotron serve                                                  the small model, on http://127.0.0.1:8000/v1
      holotron serve Hcompany/Holotron-12B --weights fp8 --context 32768
      holotron serve runs/mine/model --port 8001 --dry-run > server.toml
      holotron serve Hcompany/Holotron-12B --replicas 8               one engine on each of eight GPUs
    """
    from holotron.agent.computer import ComputerUser
    from holotron.agent.policies.registry import announced_profile
    from holotron.model.bundled import BUNDLED

    try:
        from holotron.server import layers
        from holotron.server.run import serve as run
    except ImportError as error:
        raise MissingDependency.extra(error.name or "fastapi", "serve") from None

    # The model is not declared as an argument: the parser would take the value of a setting it does not know for it.
    flags, others = layers.from_flags(context.args)
    if len(others) > 1:
        raise ConfigError(f"one model at a time, please: {', '.join(others)}")
    short = {
        "model.source": others[0] if others else None,
        "server.host": host,
        "server.port": port,
        "model.device": device,
        "model.dtype": dtype,
        "engine.weight_dtype": "float8_e4m3fn" if weights is Weights.FP8 else None,
        "memory.sessions": sessions,
        "memory.context": context_length,
    }
    given = (
        layers.from_file(config) if config is not None else {},
        layers.from_environment(os.environ),
        {key: layers.Value(value, "command line") for key, value in short.items() if value is not None},
        flags,
    )
    profile = announced_profile(layers.resolve(*given).settings.model.source or BUNDLED)
    declared = {} if profile.deltas is None else {"sessions.deltas": layers.Value(profile.deltas, "the model")}
    resolved = layers.resolve(declared, *given)
    if weights is Weights.BF16 and resolved.settings.engine_values().get("weight_dtype"):
        raise ConfigError("--weights bf16 contradicts engine.weight_dtype, which is set elsewhere; take one away")
    listing = _listing(resolved)  # also finds out, before a port is taken, whether there is such a model and device
    if dry_run:
        print(listing)
        return
    if replicas is None and ray is None:
        run(resolved.settings, agent=profile.to_json(), computer=ComputerUser(profile))
        return
    from holotron.fleet.serving import serve_fleet

    serve_fleet(resolved.settings, profile.to_json(), _replicas(replicas or "1"), ray=ray, said=list(resolved.origins))


def _replicas(text: str) -> int | list[str]:
    """How many, or where."""
    if text.isdecimal():
        return int(text)
    if ":" not in text:
        raise ConfigError(f"--replicas {text}: say how many, or the addresses of those that run, with commas between")
    return [part.strip() for part in text.split(",") if part.strip()]


def _listing(resolved: Any) -> str:
    """The settings as TOML that could be saved and used, with the origin of what is not a default."""
    from holotron.server.run import planned_engine

    tree = resolved.settings.model_dump(mode="json")
    engine = planned_engine(resolved.settings)
    tree["engine"] = {name: getattr(engine, name) for name in tree["engine"]}
    lines: list[str] = []
    for section, values in tree.items():
        lines += ["", f"[{section}]"]
        for name, value in values.items():
            origin = resolved.origins.get(f"{section}.{name}")
            text = f"# {name} = none" if value is None else f"{name} = {_toml(value)}"
            lines.append(text + (f"  # {origin}" if origin else ""))
    return "\n".join(lines).strip()


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return (
        str(value)
        if isinstance(value, int | float)
        else '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'
    )
