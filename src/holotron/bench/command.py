"""The command line of the benchmark, with the standard library alone: it also runs where little else is installed.

holotron bench sessions holotron-12b                                       # agent-100, in this process
holotron bench sessions holotron-12b --preset window-3                     # another workload with a name
holotron bench sessions --url http://127.0.0.1:8000/v1 --api sessions      # against a server
holotron bench sessions holotron-12b --against holo2-8b-text --sweep 1,10,25,50,100 --plot curve.png
holotron bench sessions holotron-12b --unchanged 0.42 --deltas             # screenshot deltas
holotron bench sessions tiny --sessions 8 --steps 3 --screenshot 64 --system 32 --generate 16
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

from holotron.bench.presets import PRESETS, listed
from holotron.bench.remote import Api
from holotron.bench.report import BenchReport, table
from holotron.bench.screens import picture_size
from holotron.bench.workload import History, Workload
from holotron.engine.api import EngineConfig
from holotron.errors import ConfigError
from holotron.registry import did_you_mean
from holotron.storage.files import replace_file


def parser() -> argparse.ArgumentParser:
    default = Workload()
    top = argparse.ArgumentParser("holotron bench", description="Measure agent sessions.")
    commands = top.add_subparsers(dest="command", required=True)
    sessions = commands.add_parser(
        "sessions",
        description="Many agents at once: each step shows a screenshot and gets a short reply.",
        epilog=f"{__doc__}\npresets:\n{listed()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = sessions.add_argument
    add("model", nargs="?", help="preset, folder or hub id, in this process; with --url, the name it is served under")
    add("--preset", choices=list(PRESETS), help="a workload with a name; see below")
    add("--against", help="a second model for the same workload, such as holo2-8b-text (the decoder alone)")
    add("--url", help="an OpenAI-compatible server instead of this process, such as http://127.0.0.1:8000/v1")
    add("--api", choices=list(get_args(Api)), default="completions", help="how to talk to --url")
    add("--picture", metavar="WxH", help="a real picture of this size per step; with --url only for --api chat")
    add("--screens", type=Path, metavar="FOLDER", help="keep these pictures there, and use those that are there")
    add("--vocabulary", metavar="LOW:HIGH", help="token ids to draw from, with --url; else what the server says it has")
    add("--cold", action="store_true", help="drop the model's files from the page cache before they are read")
    add("--no-ignore-eos", action="store_true", help="with --url: for servers that do not know ignore_eos")

    add("--sessions", type=int, default=default.sessions, help="at once (%(default)s)")
    add("--steps", type=int, default=default.steps, help="per session (%(default)s)")
    add(
        "--begun",
        type=int,
        default=default.begun,
        help="steps of every session that are skipped: its memory is filled with random numbers",
    )
    add("--system", type=int, default=default.system_tokens, help="tokens of the shared prompt (%(default)s)")
    add("--screenshot", type=int, default=default.screenshot_tokens, help="tokens per step (%(default)s)")
    add("--text", type=int, default=default.text_tokens, help="tokens per step (%(default)s)")
    add("--generate", type=int, default=default.generate_tokens, help="tokens per reply (%(default)s)")
    add("--history", choices=get_args(History), default=default.history, help="what is sent (%(default)s)")
    add("--window", type=int, default=default.window, help="screenshots or steps that are kept (%(default)s)")
    add("--epoch", type=int, default=default.epoch_steps, help="steps until an epoch starts over (%(default)s)")
    add("--summary", type=int, default=default.summary_tokens, help="tokens an epoch starts with (%(default)s)")
    add("--unchanged", type=float, default=default.unchanged, help="share of later screenshots that is as before")
    add("--deltas", action="store_true", help="send only what has changed of a screenshot")
    add("--temperature", type=float, default=default.temperature)
    add("--seed", type=int, default=default.seed)

    add("--sweep", metavar="1,10,100", help="run with each of these numbers of sessions")
    add("--plot", type=Path, metavar="PNG", help="draw the curve of the sweep")
    add("--json", type=Path, metavar="FILE", help="write all numbers; - for standard output")
    add("--device")
    add("--dtype", choices=["float32", "bfloat16", "float16"])
    add(
        "--engine",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of the engine, e.g. token_budget=4096",
    )
    return top


def options() -> list[argparse.Action]:
    """Of `sessions`, for those who show them in another way."""
    (commands,) = (action for action in parser()._actions if isinstance(action, argparse._SubParsersAction))
    return [action for action in commands.choices["sessions"]._actions if action.dest != "help"]


_LEAST = {"sessions": 1, "steps": 1, "generate": 1, "window": 1, "epoch": 1, "begun": 0, "system": 0, "screenshot": 0,
          "text": 0, "summary": 0, "unchanged": 0, "temperature": 0}  # fmt: skip


def workload_of(args: argparse.Namespace) -> Workload:
    for name, least in _LEAST.items():
        if getattr(args, name) < least:
            raise ConfigError(f"--{name} must be at least {least}")
    if args.unchanged > 1:
        raise ConfigError("--unchanged is a share, from 0 to 1")
    if args.begun and args.url:
        raise ConfigError("--begun needs an engine in this process: what was never computed cannot be sent")
    if args.url and args.picture and not args.api.startswith("chat"):
        raise ConfigError(f"--picture with --url needs --api chat: --api {args.api} sends token ids, and no pictures")
    if args.url and args.cold:
        raise ConfigError("--cold needs a model in this process: what a server has read is its own business")
    if args.vocabulary and not args.url:
        raise ConfigError("--vocabulary is for --url: a model in this process says itself which tokens it has")
    return Workload(
        sessions=args.sessions,
        steps=args.steps,
        system_tokens=args.system,
        screenshot_tokens=args.screenshot,
        text_tokens=args.text,
        generate_tokens=args.generate,
        history=args.history,
        window=args.window,
        epoch_steps=args.epoch,
        summary_tokens=args.summary,
        unchanged=args.unchanged,
        deltas=args.deltas,
        picture=picture_size(args.picture) if args.picture else None,
        begun=args.begun,
        temperature=args.temperature,
        seed=args.seed,
    )


def engine_settings(pairs: Sequence[str]) -> dict[str, Any]:
    known = {field.name: field.type for field in fields(EngineConfig)}
    values: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or key not in known:
            raise ConfigError(f"--engine {pair}: write KEY=VALUE; of keys, {did_you_mean(key, known)}")
        try:
            values[key] = text if "str" in str(known[key]) else json.loads(text)
        except ValueError:
            raise ConfigError(f"--engine {pair}: {text!r} is not a {known[key]}") from None
    return values


def measure(args: argparse.Namespace, model: str | None, workload: Workload) -> BenchReport:
    if args.url:
        from holotron.bench import remote

        target = remote.connect(
            args.url.rstrip("/"),
            model,
            args.api,
            vocabulary=token_range(args.vocabulary),
            ignore_eos=not args.no_ignore_eos,
        )
        return remote.measure(target, workload, args.screens)
    import torch

    from holotron.bench import inprocess, process

    if args.cold:
        process.forget_files(Path(model or ""))
    dtype = getattr(torch, args.dtype) if args.dtype else None
    engine = engine_settings(args.engine)
    return inprocess.measure(
        model or "tiny", workload, device=args.device, dtype=dtype, engine=engine, screens=args.screens
    )


def parse(words: Sequence[str]) -> argparse.Namespace:
    return with_preset(parser().parse_args(words))


def with_preset(given: argparse.Namespace) -> argparse.Namespace:
    """A preset's options stand in for those that are not given."""
    if given.preset is None:
        return given
    base = parser().parse_args(["sessions"])
    for name, value in PRESETS[given.preset].options.items():
        if getattr(given, name) == getattr(base, name):
            setattr(given, name, value)
    return given


def token_range(text: str | None) -> range | None:
    if text is None:
        return None
    low, _, high = text.partition(":")
    if not (low.isdecimal() and high.isdecimal() and int(low) < int(high)):
        raise ConfigError(f"--vocabulary {text}: write LOW:HIGH, such as 1000:100000")
    return range(int(low), int(high))


def session_counts(text: str) -> list[int]:
    counts = text.split(",")
    if not all(count.strip().isdecimal() and int(count) for count in counts):
        raise ConfigError(f"--sweep {text}: write numbers of sessions with commas, such as 1,10,100")
    return [int(count) for count in counts]


def main(words: Sequence[str]) -> int:
    return run(parse(words))


def run(args: argparse.Namespace) -> int:
    """Measure and print; 1 if a session failed."""
    workload = workload_of(args)
    counts = session_counts(args.sweep) if args.sweep else [workload.sessions]
    reports: list[BenchReport] = []
    for model in [args.model, *([args.against] if args.against else [])]:
        for count in counts:
            reports.append(measure(args, model, replace(workload, sessions=count)))
            if len(counts) > 1:
                print(f"{reports[-1].model}: {count} sessions done", file=sys.stderr, flush=True)
    print(table(reports))
    if args.json is not None:
        text = json.dumps([report.as_dict() for report in reports], indent=2)
        if str(args.json) == "-":
            print(text)
        else:
            replace_file(args.json, f"{text}\n".encode())
    if args.plot is not None:
        from holotron.bench.plot import draw

        draw(reports, args.plot)
    return 1 if any(report.failures for report in reports) else 0
