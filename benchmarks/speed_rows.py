"""The workloads people have, one row each, on one GPU: a line of JSON per row as soon as it is there.

    python benchmarks/speed_rows.py --rows 2-fp8,7-bf16,7-fp8 --minutes 8 --out rows.jsonl
    python benchmarks/speed_rows.py --list
    python benchmarks/speed_rows.py --small                                # does it run? (CPU, tiny shapes)

Rows are measured in the order given. Neighbours of one model share a process that loads it once (bf16 before fp8: what
was rounded stays so); a row that fails or takes too long ends with that process, is told as failed, and the next one
starts a fresh one. Nothing begins that is not expected to end within `--minutes`. Rows with pictures find them in
`--screens`, painted in the background from the start.

Rows are presets of `holotron bench sessions` (docs/lab/ledger.md has the figures); `--steps` shortens them.

Rows whose names end in `-vllm` are the same on vLLM, which lies in the folder `--vllm` or is installed. Once both are
there, measured on one machine within an hour, their ratio is a line of its own, also of lines that `--out` has had
before. With `--engine` rows on vLLM get settings of vLLM.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from _speed_child import child
from _speed_table import ROWS, Row

HERE = Path(__file__).resolve()


def groups(names: Sequence[str]) -> list[list[str]]:
    """Neighbours that can share a process: one model, and nothing rounded that is wanted whole again."""
    found: list[list[str]] = []
    for name in names:
        row, last = ROWS[name], ROWS[found[-1][-1]] if found else None
        if last is not None and _shares(last, row):
            found[-1].append(name)
        else:
            found.append([name])
    return found


def _shares(last: Row, row: Row) -> bool:
    if row.place != last.place or row.model != last.model:
        return False
    return _rounded(last) <= _rounded(row) if row.place == "engine" else row.on == "vllm" and row.engine == last.engine


def _rounded(row: Row) -> set[str]:
    return {pair for pair in row.engine if pair.startswith(("weight_dtype", "vision_dtype"))}


class Run:
    def __init__(self, args: argparse.Namespace, words: list[str]) -> None:
        self._args = args
        self._words = words
        self._until = time.monotonic() + 60 * args.minutes
        self._lines: list[dict[str, Any]] = []
        if args.out is not None and args.out.exists():
            self._lines = [json.loads(line) for line in args.out.read_text().splitlines() if line.strip()]
        self._compiled = False  # by vLLM, for its next start
        self.failed = False

    def all(self, names: list[str]) -> None:
        waiting = list(names)
        while waiting:
            (group, *_) = groups(waiting)
            done = self._some(group)
            waiting = waiting[done:]

    def _some(self, names: list[str]) -> int:
        """In one process; how many rows are dealt with."""
        if time.monotonic() + self._seconds(names[0], first=True) > self._until:
            self._tell(names[0], {"error": "left out: it would not end in time"})
            return 1
        command = [sys.executable, str(HERE), *self._words, "--child", "--rows", ",".join(names)]
        environment = dict(os.environ)
        if ROWS[names[0]].on == "vllm" and self._args.vllm is not None:
            places = (str(self._args.vllm.resolve()), environment.get("PYTHONPATH", ""))
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, places))
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True, env=environment)
        lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=_forward, args=(process.stdout, lines), daemon=True).start()
        done = 0
        try:
            while done < len(names):
                name = names[done]
                if done and time.monotonic() + self._seconds(name) > self._until:
                    break
                found = self._wait(lines, name, first=not done)
                self._tell(name, found)
                done += 1
                if "error" in found:
                    break
        finally:
            _end(process)
        self._compiled |= ROWS[names[0]].on == "vllm"
        return done

    def _wait(self, lines: queue.SimpleQueue[str | None], name: str, *, first: bool) -> dict[str, Any]:
        limit = min(self._until, time.monotonic() + 2 * self._seconds(name, first=first) + 60)
        while True:
            try:
                line = lines.get(timeout=max(0.0, limit - time.monotonic()))
            except queue.Empty:
                return {"error": "it took too long, and was ended"}
            if line is None:
                return {"error": "its process died"}
            if line.startswith("{") and (found := json.loads(line)).get("row") == name:
                del found["row"]
                return dict(found)
            if not line.startswith('{"begins"'):
                print(line, file=sys.stderr, end="", flush=True)

    def _seconds(self, name: str, *, first: bool = False) -> float:
        row, steps = ROWS[name], self._args.steps
        starts = row.starts / (1 + self._compiled) if first else 0.0
        never = {"one": 0, "first-token": 0, "host": 0}  # shorter than they are
        whole = {"window-3": 8, "long": 12, **never}.get(row.preset, 6)
        mine = row.changes.get("steps", whole)
        share = 1.0 if steps is None or mine <= steps else steps / mine
        return starts + 20 + max(0.0, row.expected - 20) * share if not self._args.small else 10.0

    def _tell(self, name: str, found: dict[str, Any]) -> None:
        row = ROWS[name]
        self.failed |= "error" in found
        target: dict[str, Any] = {}
        if row.required and not self._args.small:
            target = {"required": row.required, "aim": row.aim}
        if target and found.get("figure") is not None:
            less = row.figure != "steps/s"
            target["met"] = found["figure"] <= row.required if less else found["figure"] >= row.required
        now = round(time.time())
        line = {"row": name, "what": row.what, "unit": row.figure, **target, **found, **self._args.where, "at": now}
        self._say(line)
        self._lines.append(line)
        if (compared := ratio(self._lines, name)) is not None:
            self._say(compared)

    def _say(self, line: dict[str, Any]) -> None:
        text = json.dumps(line)
        print(text, flush=True)
        if self._args.out is not None:
            with self._args.out.open("a") as file:
                file.write(text + "\n")


def ratio(lines: list[dict[str, Any]], name: str) -> dict[str, Any] | None:
    """The last line beside the newest of the same row on vLLM, or the other way round, if they are of one machine and
    one hour, and as long."""
    ours = name.removesuffix("-vllm")
    other = ours if name != ours else f"{ours}-vllm"
    now = lines[-1]
    there = next((line for line in reversed(lines) if line.get("row") == other and "figure" in line), None)
    if there is None or "figure" not in now or (there["on"], there.get("steps")) != (now["on"], now.get("steps")):
        return None
    if now["at"] - there["at"] > 3600:
        return None
    mine, theirs = (now, there) if name == ours else (there, now)
    row = ROWS[ours]
    found = theirs["figure"] / mine["figure"] if row.figure == "seconds" else mine["figure"] / theirs["figure"]
    line: dict[str, Any] = {"ratio": ours, "what": row.what, "figure": round(found, 3), "holotron": mine["figure"]}
    line |= {"vllm": theirs["figure"], "commit": mine["commit"], "on": mine["on"]}
    if row.ratio is not None:
        line |= {"required": row.ratio[0], "aim": row.ratio[1], "met": found >= row.ratio[0]}
    return line


def _forward(stream: Any, lines: queue.SimpleQueue[str | None]) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def _end(process: subprocess.Popen[str]) -> None:
    """With all that it has started, which is a group of its own."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(5)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def painting(names: list[str], args: argparse.Namespace) -> Iterator[None]:
    """Pictures for the rows that show any, in the background."""
    looks = {row.preset == "deltas" for row in map(ROWS.__getitem__, names) if row.shows_pictures}
    if not looks or args.small:
        yield
        return
    count = str(args.sessions or 100)
    steps = str(min(args.steps or 6, 6))
    painters = []
    for deltas in sorted(looks):
        words = [str(args.screens), "--sessions", count, "--steps", steps, "--unchanged", "0.42" if deltas else "0"]
        painters.append(subprocess.Popen([sys.executable, "-m", "holotron.bench.screens", *words], stdout=sys.stderr))
    try:
        yield
    finally:
        for painter in painters:
            painter.terminate()
            painter.wait()


def listing() -> str:
    def line(name: str, row: Row) -> str:
        target = f": required {row.required:g}, aim {row.aim:g}" if row.required else ""
        if row.ratio is not None:
            target += f"; {row.ratio[0]:g} and {row.ratio[1]:g} of vLLM"
        return f"{name:18} {row.what}{target} ({row.figure}); about {row.starts + row.expected:.0f} s"

    return "\n".join(line(name, row) for name, row in ROWS.items())


def where() -> dict[str, str]:
    """What was measured, and on what."""
    git = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, cwd=HERE.parent)
    gpu = subprocess.run("nvidia-smi --query-gpu=name --format=csv,noheader || true", shell=True, capture_output=True,
                         text=True).stdout.strip()  # fmt: skip
    return {"commit": git.stdout.strip(), "on": gpu or "CPU"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", help="which, in this order, with commas")
    parser.add_argument("--minutes", type=float, default=10.0, help="for all of them (%(default)s)")
    parser.add_argument("--steps", type=int, help="of each session, at most")
    parser.add_argument("--sessions", type=int, help="at once, of rows that have many")
    parser.add_argument("--engine", action="append", default=[], metavar="KEY=VALUE", help="for all rows")
    parser.add_argument("--screens", type=Path, help="folder for pictures (a temporary one)")
    parser.add_argument("--disk", type=Path, help="folder on the disk that a checkpoint is read from (a temporary one)")
    parser.add_argument("--out", type=Path, help="append the lines to this file too")
    parser.add_argument("--vllm", type=Path, help="folder that vLLM and what it needs were unpacked in")
    parser.add_argument("--small", action="store_true", help="a tiny model and few tokens: does it run?")
    parser.add_argument("--list", action="store_true", help="what rows there are")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.list:
        print(listing())
        return
    if args.child:
        child(args)
        return
    names = (
        args.rows.split(",")
        if args.rows
        else [name for name in ROWS if not name.endswith(("-tower", "-whole", "-vllm"))]
    )
    if unknown := [name for name in names if name not in ROWS]:
        parser.error(f"no such rows: {', '.join(unknown)}; there are {', '.join(ROWS)}")
    with tempfile.TemporaryDirectory() as scratch:
        args.where = where()
        args.screens = args.screens or Path(scratch)
        words = ["--screens", str(args.screens)]
        for option in ("steps", "sessions", "disk"):
            words += [f"--{option}", str(value)] if (value := getattr(args, option)) is not None else []
        for pair in args.engine:
            words += ["--engine", pair]
        words += ["--small"] if args.small else []
        with painting(names, args):
            run = Run(args, words)
            run.all(names)
    sys.exit(1 if run.failed else 0)


if __name__ == "__main__":
    main()
