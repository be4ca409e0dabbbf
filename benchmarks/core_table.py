"""The figures this engine is held to on one H200, in one command of about ten minutes.

    python benchmarks/core_table.py                                    # everything, into benchmarks/results/core.json
    python benchmarks/core_table.py --rows decode-bf16,tiles --again   # some rows, measured anew
    python benchmarks/core_table.py --model tiny --sessions 4 --steps 2 --context 256   # does it run? (CPU too)

Every row is written to the file as soon as it is there, and a row that is there is not measured again: a run that was
interrupted goes on where it stopped. Rows share one loaded model; those that round its weights come last. At the end
the table is printed as Markdown, ready for `ledger.md`.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from holotron.bench import agreement, inprocess, iterations, tiles
from holotron.bench.command import engine_settings
from holotron.bench.workload import Workload
from holotron.model.loading import Loaded, load_model

FP8 = {"weight_dtype": "float8_e4m3fn"}
ALL = {**FP8, "kv_dtype": "float8_e4m3fn", "replay": True}


@dataclass(frozen=True)
class Row:
    title: str
    measure: Callable[[Loaded, argparse.Namespace], dict[str, Any]]
    figure: str  # of what is measured, the one that counts
    unit: str
    required: str = "recorded"
    aim: str = ""
    floor: str = ""


def agent(**options: Any) -> Callable[[Loaded, argparse.Namespace], dict[str, Any]]:
    """agent-100, with settings of the workload and of the engine."""

    def run(loaded: Loaded, args: argparse.Namespace) -> dict[str, Any]:
        known = {key: options[key] for key in ("history", "picture", "unchanged", "deltas", "begun") if key in options}
        steps = min(args.steps, options.get("steps", args.steps))
        if args.each is not None and args.each < steps and "picture" not in known:
            known["begun"] = known.get("begun", 0) + (steps - args.each) // 2
            steps = args.each
        workload = Workload(sessions=args.sessions, steps=steps, **known)
        if args.model == "tiny":  # to see that it runs
            known.pop("picture", None)
            workload = Workload(args.sessions, steps, 32, 64, 8, 8, **known)
        engine = {"token_budget": args.token_budget, **options.get("engine", {}), **engine_settings(args.engine)}
        return inprocess.measure_loaded(loaded, workload, engine=engine).as_dict()

    return run


def decode(**engine: Any) -> Callable[[Loaded, argparse.Namespace], dict[str, Any]]:
    def run(loaded: Loaded, args: argparse.Namespace) -> dict[str, Any]:
        options = {**engine, **engine_settings(args.engine)}
        return iterations.decode(
            loaded.model, args.sessions, args.context, args.tokens, options, args.profile
        ).as_dict()

    return run


def host(loaded: Loaded, args: argparse.Namespace) -> dict[str, Any]:
    """The host's own time per iteration; short contexts, because it does not depend on them, of all lengths modulo a
    page, because on that it does."""
    sessions, context = (128, 4096) if args.sessions >= 100 else (args.sessions, args.context)
    return iterations.decode(
        loaded.model, sessions, context, args.tokens, engine_settings(args.engine), False, spread=64
    ).as_dict()


def mixed(**engine: Any) -> Callable[[Loaded, argparse.Namespace], dict[str, Any]]:
    def run(loaded: Loaded, args: argparse.Namespace) -> dict[str, Any]:
        prompt = 2400 if args.context > 2400 else args.context
        options = {"token_budget": args.token_budget, **engine, **engine_settings(args.engine)}
        return iterations.mixed(
            loaded.model, args.sessions, args.context // 2, prompt, 16, options, args.profile
        ).as_dict()

    return run


ROWS = {
    "tiles": Row(
        "nine 512-px tiles", lambda loaded, args: tiles.measure(loaded.model), "9 tiles", "ms", "25", "", "16.7"
    ),
    "decode-bf16": Row(
        "decode, 100 sequences at 16k, fp32 state, bf16 weights and KV", decode(), "generated_tokens_per_second",
        "tok/s", "3,800", "4,300", "4,608",
    ),
    "host": Row("host work per iteration, 128 sessions", host, "host_ms", "ms", "1"),
    "agent-bf16": Row(
        "agent-100, bf16, fp32 state, exact", agent(), "agent_steps_per_second", "steps/s", "7.6", "8.5", "9.2"
    ),
    "agent-vision": Row(
        "agent-100 with the vision tower, 1920x1080 screenshots (9 tiles), bf16, 2 steps",
        agent(picture=(1920, 1080), steps=2, engine={"workers": 4}),
        "agent_steps_per_second", "steps/s", "recorded", "6",
    ),
    "agent-window": Row(
        "agent-100 with window-3 history, bf16, the fourth step (the first that drops a screenshot)",
        agent(history="window", begun=3, steps=1), "agent_steps_per_second", "steps/s",
    ),
    "mixed-bf16": Row(
        "an iteration of 50 decodes and prompts, 8k contexts, bf16", mixed(), "prompt_tokens_per_second", "prompt tok/s"
    ),
    "agreement": Row(
        "8-bit projections: share of tokens with the same favourite",
        lambda loaded, args: agreement.measure(loaded.model), "8-bit projections", "",
    ),
    "decode-fp8": Row(
        "decode, 100 sequences at 16k, fp8 weights and KV, replay", decode(**ALL), "generated_tokens_per_second",
        "tok/s", "6,000", "7,500", "8,769",
    ),
    "agent-fp8": Row(
        "agent-100, fp8 GEMMs", agent(engine=FP8), "agent_steps_per_second", "steps/s", "10.5", "12.6", "14.3"
    ),
    "agent-deltas": Row(
        "agent-100, 42 % of each screenshot unchanged, screenshot deltas, fp8 GEMMs",
        agent(unchanged=0.42, deltas=True, engine=FP8), "agent_steps_per_second", "steps/s", "14", "20",
    ),
    "agent-all": Row(
        "agent-100, fp8 GEMMs and KV, replay", agent(engine=ALL), "agent_steps_per_second", "steps/s"
    ),
    "mixed-fp8": Row(
        "an iteration of 50 decodes and prompts, 8k contexts, fp8 GEMMs", mixed(**FP8), "prompt_tokens_per_second",
        "prompt tok/s",
    ),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="holotron-12b")
    parser.add_argument("--rows", default=",".join(ROWS), help="which (%(default)s)")
    parser.add_argument("--again", action="store_true", help="measure rows that are there already")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/core.json"))
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--steps", type=int, default=6, help="of agent rows (%(default)s)")
    parser.add_argument("--each", type=int, metavar="N", help="measure N of these, in the middle, from a made-up past")
    parser.add_argument("--context", type=int, default=16_384, help="of decode rows (%(default)s)")
    parser.add_argument("--tokens", type=int, default=64, help="decoded per session (%(default)s)")
    parser.add_argument("--token-budget", type=int, default=2048)
    parser.add_argument("--engine", action="append", default=[], metavar="KEY=VALUE", help="for all rows")
    parser.add_argument("--profile", action="store_true", help="list the kernels of decode and mixed iterations")
    args = parser.parse_args()
    names = args.rows.split(",")
    if unknown := [name for name in names if name not in ROWS]:
        parser.error(f"no such rows: {', '.join(unknown)}; there are {', '.join(ROWS)}")
    done: dict[str, Any] = json.loads(args.out.read_text()) if args.out.exists() else {}
    wanted = [name for name in ROWS if name in names and (args.again or name not in done)]
    if wanted:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        loaded = load_model(args.model)
        for name in wanted:
            done[name] = attempt(name, loaded, args)
            args.out.write_text(json.dumps(done, indent=1) + "\n")
    print(markdown(done))


def attempt(name: str, loaded: Loaded, args: argparse.Namespace) -> dict[str, Any]:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    started = time.perf_counter()
    head = {"commit": commit(), "device": device(), "date": time.strftime("%Y-%m-%d"), "steps": args.steps}
    try:
        found = ROWS[name].measure(loaded, args)
    except Exception as error:
        traceback.print_exc()
        found = {"error": f"{type(error).__name__}: {error}"}
    head["seconds_taken"] = f"{time.perf_counter() - started:.1f}"
    print(f"{name}: {json.dumps(found)[:2500]} ({head['seconds_taken']} s)", flush=True)
    return {**head, **found}


def commit() -> str:
    try:
        return subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    except OSError:
        return ""


def device() -> str:
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"


def markdown(done: dict[str, Any]) -> str:
    lines = ["| figure | measured | required | aim | floor |", "|---|---|---|---|---|"]
    for name, row in ROWS.items():
        if name in done:
            lines.append(f"| {row.title} | {figure(row, done[name])} | {row.required} | {row.aim} | {row.floor} |")
    return "\n".join(lines)


def figure(row: Row, found: dict[str, Any]) -> str:
    if "error" in found:
        return f"failed: {found['error']}"
    value = found.get(row.figure)
    if isinstance(value, dict):
        value = value["same_favourite"]
    return "?" if value is None else f"{value:,.0f} {row.unit}" if value >= 100 else f"{value:.3g} {row.unit}"


if __name__ == "__main__":
    main()
