"""`holotron model`: look at a checkpoint or preset without loading it; make one with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holotron.cli.model_check import check

app = typer.Typer(no_args_is_help=True, help="Look at a checkpoint: shape, parameters, memory; would it load?")
app.command()(check)

Source = Annotated[str, typer.Argument(help="A checkpoint folder, a hub id, or a preset such as holotron-12b.")]


@app.command()
def show(source: Source) -> None:
    """Print a model's shape, its parameters by part, and what one session costs.

    holotron model show holotron-12b
    holotron model show runs/mine/model
    """
    import torch
    from rich.console import Console
    from rich.table import Table

    from holotron.model.cache import Cache
    from holotron.model.config import ModelConfig
    from holotron.model.families import load_config
    from holotron.model.loading import resolve
    from holotron.model.model import Holotron
    from holotron.model.weights.hub import licence_notice

    found = resolve(source)
    config = found if isinstance(found, ModelConfig) else load_config(found)
    with torch.device("meta"):
        model = Holotron(config)

    def parameters(module: torch.nn.Module | None) -> str:
        count = sum(p.numel() for p in module.parameters()) if module is not None else 0
        return f"{count / 1e9:.3f} B" if count >= 1e8 else f"{count / 1e6:.3f} M" if count else "none"

    def size(count: float) -> str:
        return f"{count / 2**20:.1f} MiB" if count >= 2**20 else f"{count / 2**10:.2f} KiB"

    d = config.decoder
    table = Table(title=config.name or source, show_header=False)
    table.add_row("family", config.family)
    table.add_row("layers", f"{len(d.pattern)}: " + ", ".join(_kinds(d.pattern)))
    table.add_row("pattern", d.pattern)
    table.add_row("hidden, vocabulary, context", f"{d.hidden:,}, {d.vocab:,}, {d.max_positions:,}")
    table.add_row("decoder", parameters(model.language_model))
    table.add_row("vision tower", parameters(model.vision_model))
    table.add_row("projector", parameters(model.mlp1))
    if d.recurrent:
        state = Cache.allocate(d, rows=1, pages=0, page_size=1, dtype=torch.bfloat16, device="meta").nbytes
        table.add_row("state per session", f"{size(state)} (fp32 state, bf16 convolution)")
    if d.attention:
        kv = len(d.layers("*")) * 2 * d.attention.kv_heads * d.attention.head_dim * 2
        table.add_row("keys and values per token", f"{size(kv)} (bf16)")
    if not isinstance(found, ModelConfig):
        table.add_row("licence", licence_notice(found))
    Console().print(table)


def _kinds(pattern: str) -> list[str]:
    names = {"M": "Mamba-2", "-": "MLP", "*": "attention", "E": "mixture of experts", "G": "Gated DeltaNet"}
    return [f"{pattern.count(letter)} {name}" for letter, name in names.items() if letter in pattern]


@app.command()
def init(
    source: Annotated[str, typer.Argument(help="A preset.")],
    out: Annotated[Path, typer.Argument(help="Folder to write.")],
    seed: Annotated[int, typer.Option(help="Seed of the random weights.")] = 0,
) -> None:
    """Write a checkpoint with random weights, complete with tokenizer: something to serve, train or test with.

    holotron model init tiny runs/tiny
    """
    from holotron.model.loading import load_model
    from holotron.model.weights import save_checkpoint
    from holotron.model.weights.card import ModelCard

    model, processor = load_model(source, device="cpu", seed=seed)
    save_checkpoint(model, out, card=ModelCard(out.name, recipe=f"Random weights of the preset {source}, seed {seed}."))
    processor.save(out)
    print(f"wrote {out}")
