"""Rows of `speed_rows.py` on vLLM: the same workloads, the same shapes without weights, on the same machine.

States are fp32, as ours. Rows of tokens drive vLLM's engine in this process, those with pictures its server over HTTP,
with the client that drives ours. What is started stays for the neighbours of a row.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from _speed_table import ROWS, Row

sys.path.insert(0, str(Path(__file__).resolve().parent / "vllm"))  # its drivers; `import vllm` finds the library

MOST_PICTURES = 8  # in a prompt


def _shape(row: Row, args: argparse.Namespace, kept: dict[str, Any]) -> str:
    """A folder with the row's shape: the decoder alone where it sees no pictures."""
    import shapes

    from holotron.model.presets import preset

    if "scratch" not in kept:
        kept["scratch"] = kept["stack"].enter_context(tempfile.TemporaryDirectory())
    folder = Path(kept["scratch"]) / "shape"
    config = preset("tiny" if args.small else row.model)
    shapes.write(config if row.place == "vllm server" else shapes.text_of(config), folder)
    return str(folder)


def _options(row: Row, args: argparse.Namespace) -> dict[str, Any]:
    """Of vLLM's engine: those of the row, and what was asked for."""
    pairs = (pair.partition("=") for pair in (*row.engine, *args.engine))
    return {key: json.loads(text) for key, _, text in pairs}


def in_vllm(row: Row, args: argparse.Namespace, kept: dict[str, Any]) -> dict[str, Any]:
    """With vLLM's engine in this process, started once for all rows that share it."""
    import agents
    from _speed_child import words_of

    from holotron.bench import command

    names = args.rows.split(",")
    works = {name: command.workload_of(command.parse(words_of(ROWS[name], args))) for name in names}
    if "loop" not in kept:
        started = time.monotonic()
        kept["loop"] = kept["stack"].enter_context(asyncio.Runner())
        longest = max(work.longest_context for work in works.values())
        most = max(work.sessions for work in works.values())
        shape, options = _shape(row, args, kept), _options(row, args)

        async def start() -> Any:
            return agents.engine(shape, longest, most, **options)

        kept["engine"] = kept["loop"].run(start())
        kept["stack"].callback(kept["engine"].shutdown)
        kept["seconds"] = time.monotonic() - started
    name = next(name for name in names if ROWS[name] is row)
    work = replace(works[name], seed=names.index(name))  # nothing that it has seen in the row before
    found = kept["loop"].run(agents.Driver(kept["engine"], work).run())
    values = {"steps/s": found["agent_steps_per_second"], "over ideal": found["computed_over_ideal"]}
    found["steps"] = work.sessions * work.steps
    return {"figure": values[row.figure], **found, "start_seconds": round(kept["seconds"], 1)}


def against_vllm(row: Row, args: argparse.Namespace, kept: dict[str, Any]) -> dict[str, Any]:
    """vLLM's server and our client."""
    from _speed_child import replace_url, told, words_of

    from holotron.bench import command

    asked = command.parse(words_of(row, args))
    if "url" not in kept:
        started = time.monotonic()
        kept["url"] = kept["stack"].enter_context(_serving(_shape(row, args, kept), _options(row, args)))
        kept["seconds"] = time.monotonic() - started
    asked = argparse.Namespace(**{**vars(replace_url(asked, kept["url"])), "model": None})
    if not asked.api.startswith("chat"):
        asked.api = "chat"  # pictures come in messages
    report = command.measure(asked, None, command.workload_of(asked))
    return {**told(row, report.as_dict()), "start_seconds": round(kept["seconds"], 1)}


@contextmanager
def _serving(shape: str, options: dict[str, Any]) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", shape, "--port", str(port)]
    words += ["--host", "127.0.0.1", "--load-format", "dummy", "--trust-remote-code", "--enable-prompt-tokens-details"]
    words += ["--max-num-seqs", "100", "--max-model-len", "32768", "--gpu-memory-utilization", "0.92"]
    words += ["--limit-mm-per-prompt", json.dumps({"image": MOST_PICTURES, "video": 0}), "--enable-prefix-caching"]
    options = {"max_num_batched_tokens": options.pop("token_budget", 8192), **options}
    for key, value in options.items():
        words += [f"--{key.replace('_', '-')}", value if isinstance(value, str) else json.dumps(value)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    process = subprocess.Popen(words, stdout=sys.stderr, env=environment)
    url = f"http://127.0.0.1:{port}"
    try:
        while not _answers(f"{url}/health"):
            if process.poll() is not None:
                raise RuntimeError(f"vLLM's server ended with status {process.returncode} before it was ready")
            time.sleep(0.2)
        yield f"{url}/v1"
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()


def _answers(url: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
        return bool(answer.status == 200)
    return False
