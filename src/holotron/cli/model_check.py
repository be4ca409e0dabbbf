"""`holotron model check`: would this model load and run here, from its small files alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from holotron.model.check import Report

_CONTEXT = 32_768  # tokens of the sessions that are counted


def check(
    source: Annotated[str, typer.Argument(help="A checkpoint folder, a hub id, or a preset such as holotron-12b.")],
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say whether a model loads and runs, from config, index, tokenizer and template alone. Exit status 0: yes; 1: no.

    Of a hub id only the small files are fetched, never the weights.

      holotron model check Hcompany/Holotron-12B
      holotron model check runs/mine/model --json
    """
    from holotron.engine.recommend import by_card
    from holotron.model.check import check as look

    report = look(source)
    memory: list[dict[str, Any]] = []
    if report.config is not None:
        context = min(_CONTEXT, report.config.decoder.max_positions)
        memory = [fit._asdict() | {"context": context} for fit in by_card(report.config, context)]
    if json_output:
        print(json.dumps(report.to_json() | {"memory": memory, "memory_is": "planned, not run"}, indent=2))
    else:
        _print(report, memory)
    raise typer.Exit(0 if report.loads else 1)


def _print(report: Report, memory: list[dict[str, Any]]) -> None:
    def line(name: str, value: object) -> None:
        if value:
            print(f"{name + ':':18}{value}")

    def named(tokens: dict[int, str]) -> str:
        return ", ".join(f"{index} {text!r}" for index, text in tokens.items())

    print(f"{report.source}: {'loads' if report.loads else 'does NOT load'}")
    line("family", report.family)
    line("parameters", f"{report.parameters / 1e9:.3f} B" if report.parameters else "")
    line("layers", f"{len(report.layers)}: {report.layers}" if report.layers else "")
    line("context", f"{report.context:,} tokens" if report.context else "")
    if report.layers:
        line("sees pictures", "yes" if report.sees else "no")
    line("tensors", report.tensors)
    line("quantised", report.quantised)
    line("stop tokens", named(report.stop_tokens))
    line("image tokens", named(report.image_tokens))
    line("template", report.template)
    if report.example:
        print(f"an example of {report.example_tokens} tokens:")
        print("\n".join(f"    | {text}" for text in report.example.splitlines()))
    if memory:
        context = memory[0]["context"]
        print(f"sessions of {context:,} tokens that fit (planned, not run):")
        for kind in ("bf16", "fp8"):
            fits = [fit for fit in memory if fit["weights"] == kind]
            counts = ", ".join(f"{fit['card']} {fit['sessions'] or 'none'}" for fit in fits)
            print(f"    weights in {kind:5} {fits[0]['weight_bytes'] / 2**30:6.1f} GiB: {counts}")
    for note in report.notes:
        line("note", note)
    for problem in report.problems:
        line("PROBLEM", problem)
