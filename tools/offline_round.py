#!/usr/bin/env python3
"""A round of training on a GPU machine that has no network: play, train, play again, and bring the results back.

    python3 tools/offline_round.py recipes/holotron-mini-2/worlds.plan --store round --results out --seconds 590

A plan is a TOML file of stages, one after the other. A stage is a time box around jobs that run side by side; a job is
a command of `holotron`, in several copies if it says so (the plan above is one to read). After its seconds, or when all
jobs have ended that are not in the background, a stage is stopped wherever it is: rollouts, evaluations and training
runs of this package can be stopped at any time.

The store is a folder outside the working tree with what the machine lacks, carried there in one call or in several:
archives (NAME.tar.xz, or NAME.tar.xz.aa, .ab ... that `split` made), which are unpacked there once:

    browser/     of tools/pack_browser.sh            library/    Python packages (unzipped wheels)
    the rest     whatever the plan names, as {store}/...

`--rehearse 60` goes through a plan on any machine: every stage for at most that long with one copy of each job,
training one step of two samples and measuring one sample of each suite. What a plan gets wrong shows there.

Call it again on the same machine and it goes on after the last stage that is over. Whatever goes wrong, there are
results: RESULTS/round.tar.aa, .ab ... (cat them together) hold the files that the plan names, and the logs.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
import tomllib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

PART_BYTES = 15_000_000
MOST_BYTES = 62_000_000  # of all parts: what is named first in the plan has precedence
PATIENCE = 6.0  # seconds that a job has to end after it was told to
FAILURES = 3  # of the same kind, one after the other: then a job is given up
RESERVE = 12.0  # seconds kept for packing the results


class Chain:
    """Several files read one after the other, as one."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths = iter(paths)
        self._file: BinaryIO | None = None

    def read(self, size: int = -1) -> bytes:
        while True:
            if self._file is None:
                path = next(self._paths, None)
                if path is None:
                    return b""
                self._file = path.open("rb")
            if data := self._file.read(size):
                return data
            self._file.close()
            self._file = None


def unpack(store: Path) -> None:
    """Every archive in the store, side by side; those that were unpacked before are left alone."""
    archives: dict[str, list[Path]] = {}
    for path in sorted(store.glob("*.tar.xz*")):
        archives.setdefault(path.name.partition(".tar.xz")[0], []).append(path)

    def one(name: str) -> None:
        done = store / f".{name}.unpacked"
        if not done.exists():
            with tarfile.open(fileobj=Chain(archives[name]), mode="r|xz") as archive:  # type: ignore[call-overload]
                if hasattr(tarfile, "tar_filter"):  # since Python 3.11.4
                    archive.extraction_filter = tarfile.tar_filter
                archive.extractall(store)
            done.touch()

    with ThreadPoolExecutor() as pool:
        for name, made in [(name, pool.submit(one, name)) for name in archives]:
            if error := made.exception():
                say(f"the archive {name} cannot be unpacked: {error!r}")


def environment(store: Path) -> dict[str, str]:
    found = dict(os.environ, OMP_NUM_THREADS="1", PYTHONUNBUFFERED="1", TERM="dumb", COLUMNS="160")
    found["PYTHONPATH"] = os.pathsep.join(["src", str(store / "library")])
    browser = store / "browser"
    if browser.exists():
        found["HOLOTRON_CHROMIUM"] = str(browser / "chromium-headless-shell")
        found["PATH"] = f"{found.get('PATH', os.defpath)}:{browser}"  # fc-list, where the machine has none
        before = found.get("LD_LIBRARY_PATH")
        found["LD_LIBRARY_PATH"] = str(browser / "lib") + (f":{before}" if before else "")
        found["FONTCONFIG_FILE"] = str(browser / "fontconfig/fonts.conf")
        found["FONTCONFIG_PATH"] = str(browser / "fontconfig")
    return found


class Job:
    """One copy of a command: its processes are a group of their own, its words go to a log. With `seeds = [FIRST, END,
    STEP]` each start gets the next block of them that no copy has had; it is repeated while there are any."""

    def __init__(
        self, spec: dict[str, Any], stage: str, copy: int, facts: dict[str, str], where: dict[str, str]
    ) -> None:
        self._command: list[str] = spec["command"]
        self._nice: int = spec.get("nice", 0)
        self.background: bool = spec.get("background", False)  # the stage does not wait for it
        self._facts = {**facts, "copy": str(copy)}
        self._where = where
        self._seeds = iter([""])
        if "seeds" in spec:
            first, end, step = spec["seeds"]
            blocks = range(first + copy * step, end, step * spec.get("copies", 1))
            self._seeds = iter([f"{start}:{min(start + step, end)}" for start in blocks])
        self.name = f"{stage}-{spec.get('name', 'job')}-{copy}"
        self._log = Path("runs/logs") / f"{self.name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.codes: list[int] = []

    def running(self) -> bool:
        """Whether there is still something to do; starts what comes next."""
        if self._process is not None:
            code = self._process.poll()
            if code is None:
                return True
            self.codes.append(code)
            self._process = None
            if code != 0:  # its log says why; the others go on
                say(f"{self.name} ended with {code}:\n{self.tail()}")
                if self.codes[-FAILURES:] == [code] * FAILURES:
                    self._seeds = iter(())
        seeds = next(self._seeds, None)
        if seeds is None:
            return False
        command = [sys.executable, "-m", "holotron"] + [
            fill(word, {**self._facts, "seeds": seeds}) for word in self._command
        ]
        with self._log.open("ab") as log:
            log.write(f"$ {' '.join(command)}\n".encode())
            log.flush()
            self._process = subprocess.Popen(
                ["nice", "-n", str(self._nice), *command],
                env=self._where,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        return True

    def signal(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, number)

    def ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    @property
    def succeeded(self) -> bool:
        return bool(self.codes) and not any(self.codes)

    def tail(self, lines: int = 4) -> str:
        text = self._log.read_text(errors="replace") if self._log.exists() else ""
        return "\n".join(f"    {line}" for line in text.splitlines()[-lines:])


def fill(word: str, facts: dict[str, str]) -> str:
    """`{name}` becomes a fact; `{runs:PATTERN|PATTERN}` a TOML list of the runs there are, packed or not."""
    for name, value in facts.items():
        word = word.replace("{" + name + "}", value)
    while "{runs:" in word:
        before, _, rest = word.partition("{runs:")
        patterns, _, after = rest.partition("}")
        found = [path for pattern in patterns.split("|") for path in sorted(glob.glob(pattern))]
        found = [path for path in found if path.endswith(".zip") or (Path(path) / "manifest.json").exists()]
        word = before + json.dumps(found) + after
    return word


def rehearsal(stage: dict[str, Any], seconds: float) -> dict[str, Any]:
    """The same stage at its smallest."""

    def smallest(job: dict[str, Any]) -> dict[str, Any]:
        command = list(job["command"])
        if command[:2] == ["train", "sft"]:
            recipe = tomllib.loads(Path(command[2]).read_text())
            suites = recipe.get("evaluate", {}).get("suites", [])
            command += ["schedule.steps=1", "batch.samples=2", "batch.reuse=1", "batch.workers=0"]
            command += [f"data.{n}.steps=2" for n, data in enumerate(recipe["data"]) if data["kind"] == "episodes"]
            for n, suite in enumerate(suites):
                command += [f"evaluate.suites.{n}.samples=1"]
                command += [f"evaluate.suites.{n}.data.steps=2"] if suite["data"]["kind"] == "episodes" else []
        return {**job, "command": command, "copies": 1}

    return {**stage, "job": [smallest(job) for job in stage["job"]], "seconds": seconds, "least": 0, "margin": 0}


def play(stage: dict[str, Any], seconds: float, facts: dict[str, str], where: dict[str, str]) -> bool:
    """One stage, for at most `seconds`. Whether it is over: it had all its time, or all its jobs have ended well."""
    facts = {**facts, "minutes": f"{max(seconds - stage.get('margin', 0), 1) / 60:.3f}"}
    jobs = [
        Job(spec, stage["name"], copy, facts, where) for spec in stage["job"] for copy in range(spec.get("copies", 1))
    ]
    began = time.monotonic()
    try:
        while time.monotonic() - began < seconds:
            running = [job for job in jobs if job.running()]
            if all(job.background for job in running):
                break
            time.sleep(0.1)
    finally:
        stop(jobs)
    took = time.monotonic() - began
    for job in jobs:
        say(f"{job.name}: {job.codes or 'stopped'}; {job.tail(1).strip()[-150:]}")
    say(f"{stage['name']} took {took:.0f} s of {seconds:.0f}")
    return took >= stage["seconds"] - 1 or all(job.succeeded or job.background for job in jobs)


def stop(jobs: list[Job]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        for job in jobs:
            job.signal(number)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and not all(job.ended() for job in jobs):
            time.sleep(0.05)


def bring_back(paths: list[str], results: Path) -> None:
    """What the plan names, in parts; what would be too much is left out, and said."""
    results.mkdir(parents=True, exist_ok=True)
    whole, left = Path("runs/round.tar"), MOST_BYTES
    with tarfile.open(whole, "w") as archive:
        for path in (path for pattern in [*paths, "runs/logs"] for path in sorted(glob.glob(pattern))):
            files = [p for p in (Path(path), *Path(path).rglob("*")) if p.is_file() and "images" not in p.parts]
            size = sum(file.stat().st_size + 1024 for file in files)
            if size > left:
                say(f"{path} is left out: {size:,} bytes")
                continue
            left -= size
            for file in files:
                archive.add(file)
    for old in results.glob("round.tar.*"):
        old.unlink()
    with whole.open("rb") as file:
        number = 0
        while part := file.read(PART_BYTES):
            (results / f"round.tar.{chr(97 + number // 26)}{chr(97 + number % 26)}").write_bytes(part)
            number += 1


def say(text: str) -> None:
    print(f"[{time.monotonic() - STARTED:5.0f} s] {text}", flush=True)


STARTED = time.monotonic()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", type=Path)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=590.0, help="for everything")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a fact of the plan, changed")
    parser.add_argument("--stages", default="", help="only these, with commas, also those that are over")
    parser.add_argument("--rehearse", type=float, metavar="SECONDS", help="every stage at its smallest, this long")
    arguments = parser.parse_args()
    results, store = arguments.results.resolve(), arguments.store.resolve()
    plan_path = arguments.plan.resolve()
    os.chdir(Path(__file__).resolve().parents[1])
    Path("runs/logs").mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what follows `finally` still happens
    plan = tomllib.loads(plan_path.read_text(encoding="utf-8"))
    facts = {"store": str(store), **plan.get("facts", {}), **dict(change.split("=", 1) for change in arguments.set)}
    record = Path("runs") / f"{fill(plan['name'], facts)}.stages.json"
    over: list[str] = json.loads(record.read_text()) if record.exists() else []
    wanted = list(filter(None, arguments.stages.split(",")))
    jobs_failed = False
    try:
        unpack(store)
        where = environment(store)
        say(f"unpacked; {os.cpu_count()} cores; stages that are over: {', '.join(over) or 'none'}")
        for stage in plan["stage"]:
            if (wanted and stage["name"] not in wanted) or (not wanted and stage["name"] in over):
                continue
            if arguments.rehearse:
                stage = rehearsal(stage, arguments.rehearse)
            left = arguments.seconds - (time.monotonic() - STARTED) - RESERVE
            if left < stage.get("least", 10):
                say(f"no time for {stage['name']} ({left:.0f} s left); call again")
                break
            try:
                finished = play(stage, min(stage["seconds"], left), facts, where)
            except Exception as error:  # a stage may fail; the results of the others must not
                say(f"{stage['name']} failed: {error!r}")
                finished, jobs_failed = True, True
            if finished and stage["name"] not in over:
                over.append(stage["name"])
                record.write_text(json.dumps(over))
    finally:
        bring_back([fill(path, facts) for path in plan.get("results", [])], results)
        say(f"results: {', '.join(sorted(path.name for path in results.iterdir()))}")
    return int(jobs_failed)


if __name__ == "__main__":
    sys.exit(main())
