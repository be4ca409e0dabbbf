"""Rows of `speed_rows.py`, measured one after the other in a process of their own."""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from _speed_table import ROWS, Row
from _speed_vllm import against_vllm, in_vllm

HERE = Path(__file__).resolve().parent
SMALL = ["--sessions", "3", "--system", "24", "--screenshot", "32", "--text", "8", "--generate", "4"]


def words_of(row: Row, args: argparse.Namespace) -> list[str]:
    """The row as a command line of `holotron bench`."""
    changes = dict(row.changes)
    if row.preset not in ("one", "first-token"):  # which are short as they are
        if args.steps is not None:
            changes["steps"] = min(args.steps, changes.get("steps", args.steps))
        if args.sessions is not None:
            changes["sessions"] = args.sessions
    words = ["sessions", "tiny" if args.small else row.model, "--preset", row.preset]
    for key, value in changes.items():
        words += [f"--{key}", str(value)]
    if args.screens is not None:
        words += ["--screens", str(args.screens)]
    for pair in (*row.engine, *args.engine) if row.on == "holotron" else ():
        words += ["--engine", pair]
    if args.small:
        words += [*SMALL, *([] if "steps" in changes else ["--steps", "2"])]
        words += ["--picture", "128x64"] if row.shows_pictures else []
    return words


def told(row: Row, found: dict[str, Any]) -> dict[str, Any]:
    """Of a whole report, what one looks at."""
    engine = found.get("engine") or {}
    values = {
        "steps/s": found["agent_steps_per_second"],
        "over ideal": found["computed_over_ideal"],
        "seconds": found["step_seconds"]["p50"],
    }
    short = {
        "figure": values[row.figure],
        "p50": found["step_seconds"]["p50"],
        "p95": found["step_seconds"]["p95"],
        "first_token_p50": found["first_token_seconds"],
        "computed_per_second": found["computed_tokens_per_second"],
        "cached_share": found["cached_share"],
        "over_ideal": found["computed_over_ideal"],
        "failures": found["failures"],
        "steps": found["steps"],
        "peak_gib": round((found["peak_device_bytes"] or 0) / 2**30, 1),
        "host_gib": round((found["peak_host_bytes"] or 0) / 2**30, 1),
    }
    for name in ("iterations", "host_seconds", "wait_seconds", "blocks_to_host", "blocks_to_device", "preemptions",
                 "forgotten_sessions", "recomputed_tokens", "tiles_encoded", "evicted_sessions"):  # fmt: skip
        if name in engine:
            short[name] = engine[name]
    return {key: round(value, 4) if isinstance(value, float) else value for key, value in short.items()}


def in_engine(row: Row, args: argparse.Namespace, kept: dict[str, Any]) -> dict[str, Any]:
    """With a model in this process, which is loaded once."""
    import torch

    from holotron.bench import command, inprocess
    from holotron.model.loading import load_model

    asked = command.parse(words_of(row, args))
    if kept.get("model") != asked.model:
        kept.pop("loaded", None)
        started = time.monotonic()
        kept.update(model=asked.model, loaded=load_model(asked.model))
        kept["seconds"] = time.monotonic() - started
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    settings = command.engine_settings(asked.engine)
    report = inprocess.measure_loaded(
        kept["loaded"], command.workload_of(asked), engine=settings, screens=asked.screens
    )
    return {**told(row, report.as_dict()), "load_seconds": round(kept["seconds"], 1)}


def against_server(row: Row, args: argparse.Namespace, kept: dict[str, Any]) -> dict[str, Any]:
    from holotron.bench import command

    asked = command.parse(words_of(row, args))
    work = command.workload_of(replace_url(asked, "http://127.0.0.1:1/v1"))
    with serving(asked.model, server_flags(asked, work)) as url:
        report = command.measure(replace_url(asked, url), None, work)
    return told(row, report.as_dict())


def replace_url(asked: argparse.Namespace, url: str) -> argparse.Namespace:
    return argparse.Namespace(**{**vars(asked), "url": url})


def server_flags(asked: argparse.Namespace, work: Any) -> list[str]:
    """Room for what stateless clients leave behind: three states each, and one at work."""
    context = work.longest_context + 512
    flags = ["--memory.sessions", str(work.sessions + 8), "--memory.context", str(context)]
    flags += ["--engine.state_rows", str(4 * work.sessions + 8), "--engine.max_running", str(work.sessions + 8)]
    flags += ["--server.max_buffered_bytes", str(8 << 30), "--limits.workers", "4", "--engine.workers", "4"]
    if "weight_dtype=float8_e4m3fn" in asked.engine:  # a large model, on a GPU
        flags += ["--engine.token_budget", "2048"]
    for pair in asked.engine:
        key, _, value = pair.partition("=")
        flags += [f"--engine.{key}", value]
    return flags


@contextmanager
def serving(model: str, flags: list[str]) -> Iterator[str]:
    """`holotron serve` in a process of its own; its address, as soon as it is ready."""
    words = [sys.executable, "-m", "holotron.cli.main", "serve", model, "--server.port", "0", *flags]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    last: list[str] = []
    url = ""
    try:
        for line in process.stderr:
            last = [*last[-5:], line]
            entry = json.loads(line) if line.startswith("{") else {}
            url = entry.get("url", url)
            if entry.get("message") == "ready":
                break
        else:
            raise RuntimeError("the server did not start: " + " ".join(last))
        threading.Thread(target=lambda: list(process.stderr or ()), daemon=True).start()  # a full pipe would stop it
        yield url
    finally:
        process.terminate()
        try:
            process.wait(40)
        except subprocess.TimeoutExpired:
            process.kill()


def from_disk(row: Row, args: argparse.Namespace, kept: dict[str, Any]) -> dict[str, Any]:
    """A checkpoint is written, dropped from memory, and read by a fresh process up to its first token. What the disk
    alone takes is read off a file that is read plainly, beside."""
    from holotron.bench.process import forget_files

    with tempfile.TemporaryDirectory(dir=args.disk) as scratch:
        folder = Path(scratch) / "model"
        writing = time.monotonic()
        script = [sys.executable, str(HERE / "small_card.py"), "--only", "write", "--folder", str(folder)]
        device = "cpu" if args.small else "cuda"
        subprocess.run([*script, "--model", "tiny" if args.small else row.model, "--device", device], check=True)
        writing = time.monotonic() - writing
        size = forget_files(folder)
        rate = disk_rate(sorted(folder.glob("*.safetensors"))[0])
        forget_files(folder)
        words = ["sessions", str(folder), "--preset", row.preset, "--cold", "--json", "-"]
        if args.small:
            words += ["--device", "cpu"]
        started = time.monotonic()
        child = subprocess.run(
            [sys.executable, "-m", "holotron.bench", *words], capture_output=True, text=True, check=True
        )
        whole = time.monotonic() - started
        report = json.loads(child.stdout[child.stdout.index("\n[") :])[0]
    first, alone = report["start_to_first_token_seconds"], size / rate
    return {
        "figure": round(first - alone, 2),
        "first_token_seconds": round(first, 2),
        "disk_seconds": round(alone, 2),
        "gigabytes": round(size / 1e9, 2),
        "gigabytes_per_second": round(rate / 1e9, 2),
        "written_in": round(writing, 1),
        "whole": round(whole, 1),
    }


def disk_rate(file: Path, most: int = 4 << 30) -> float:
    """Bytes per second of reading a file that nobody holds, from its beginning to its end."""
    buffer = bytearray(16 << 20)
    done, started = 0, time.perf_counter()
    with file.open("rb", buffering=0) as opened:
        while done < most and (count := opened.readinto(buffer)):
            done += count
    return done / (time.perf_counter() - started)


def on_core(row: Row, args: argparse.Namespace, kept: dict[str, Any]) -> dict[str, Any]:
    script = [sys.executable, str(HERE / "pictures_cpu.py")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    out = subprocess.run(script, capture_output=True, text=True, check=True, env=environment).stdout
    found = json.loads(out.splitlines()[-1])
    return {"figure": round(max(part["all"] for part in found["milliseconds"].values()), 1), **found}


PLACES: dict[str, Callable[[Row, argparse.Namespace, dict[str, Any]], dict[str, Any]]] = {
    "engine": in_engine,
    "server": against_server,
    "disk": from_disk,
    "core": on_core,
    "vllm": in_vllm,
    "vllm server": against_vllm,
}


def child(args: argparse.Namespace) -> None:
    """Rows one after the other, sharing what is loaded. Each is announced, and told when it is there."""
    kept: dict[str, Any] = {}
    with ExitStack() as stack:
        kept["stack"] = stack  # of what rows start for each other
        _rows(args, kept)


def _rows(args: argparse.Namespace, kept: dict[str, Any]) -> None:
    for name in args.rows.split(","):
        print(json.dumps({"begins": name}), flush=True)
        started, row = time.monotonic(), ROWS[name]
        try:
            found = PLACES[row.place](row, args, kept)
        except Exception as error:
            traceback.print_exc()
            found = {"error": f"{type(error).__name__}: {error}"[:2000]}
        print(json.dumps({"row": name, **found, "took": round(time.monotonic() - started, 1)}), flush=True)
        if "error" in found:
            sys.exit(1)  # who knows what is left of the GPU
