"""Half an hour of everything that can die, dying: nothing lost, nothing doubled, no orphan, memory level.

    python benchmarks/soak.py                                   # 40 sessions for 30 minutes, a kill every 20 s
    python benchmarks/soak.py --minutes 3 --every 8

A server with holotron-mini and a rollout against it in two processes, with real browsers. At random moments kill -9
hits a process of Chromium, a Playwright driver, a player, the server or the coordinator; the last two are started again
with the same command, as systemd would do it. The run and all temporary files are on a small disk, which is full for a
while twice. (Mounting one takes root; elsewhere that part is left out, and said.) Then the run is stopped as by Ctrl-C.
What may not be:

* lost: an episode was seen on record at some moment, and at the end it is not, or not the same one;
* doubled: an episode is on record more than once;
* no verdict: something broke (a browser, the server, the disk), and it is on record in the episode's stead;
* broken: `verify` finds something, also in pictures; or the run could not be read at some moment;
* orphan: a process lives 30 s after the browser, driver or player it belonged to; or anything is left at the end;
* memory: processes of a kind, once they are a minute old, have more in the last third of the time than in the first.

One line of JSON for each event, the last one says what came of it. Status 1 if anything was found.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from _small_disk import Filler, small_disk

from holotron.rollouts.records import NO_VERDICT
from holotron.rollouts.store import RunReader, picture_check
from holotron.rollouts.tables import TABLES
from holotron.storage.verify import verify

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.envs.processes import alive, eventually
from tests.fleet.playing import Serving, commit
from tests.rollouts.chaos import Chaos

WEIGHTS = {"browser": 8, "driver": 4, "player": 3, "server": 2, "coordinator": 2}  # how often each is hit
TASKS = "click-test,click-button,click-link,click-dialog,focus-text,enter-text"
SEEDS = 5000  # more than can be played
DISK = "400m"
FULL_SECONDS = 25.0
AGAIN_SECONDS = 2.0  # until what died is started again
SAMPLE_SECONDS = 10.0
ORPHAN_SECONDS = 30.0
SETTLED_SECONDS = 60.0  # a process of that age has what it needs
GROWTH, NOISE = 1.15, 32 * 2**20  # from the first third to the last, a factor and bytes: more is a leak


@dataclass
class Soak:
    chaos: Chaos
    filler: Filler | None
    logs: Path
    minutes: float
    every: float
    dice: random.Random
    began: float = field(default_factory=time.monotonic)
    server: Serving | None = None
    coordinator: subprocess.Popen[str] | None = None
    again_at: float = 0.0
    starting: threading.Timer | None = None  # a server
    starts: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)  # of coordinators that nobody killed: what they said
    recorded: dict[str, float] = field(default_factory=dict)  # episode -> when it was begun
    seen: dict[psutil.Process, psutil.Process] = field(default_factory=dict)  # what a player started: whose it is
    sizes: dict[str, list[tuple[float, int]]] = field(default_factory=lambda: defaultdict(list))
    most: Counter[str] = field(default_factory=Counter)  # processes of a kind at once
    strays: dict[psutil.Process, float] = field(default_factory=dict)  # whose owner is gone; since when
    faults: list[str] = field(default_factory=list)

    def told(self, event: str, **what: Any) -> None:
        print(json.dumps({"at": round(time.monotonic() - self.began, 1), "event": event, **what}), flush=True)

    def fault(self, what: str) -> None:
        self.faults.append(what)
        self.told("FAULT", what=what)

    # ------------------------------------------------------------------------------------------------------ processes

    def serve(self, port: int = 0) -> None:
        # Small caches, so that they are full, and memory level, soon.
        sizes = "--memory.sessions 40 --memory.context 4096 --engine.prefix_cache_bytes 8000000"
        flags = ("holotron-mini", *sizes.split(), "--engine.vision_cache_bytes", "8000000", "--server.port", str(port))
        self.starts["server"] += 1
        self.server = Serving(*flags, folder=str(self.logs))

    def coordinate(self) -> None:
        self.starts["coordinator"] += 1
        with self._said().open("w") as errors:
            self.coordinator = self.chaos._start(errors)

    def _said(self) -> Path:
        return self.logs / f"coordinator-{self.starts['coordinator']}"

    def mind(self) -> None:
        """Start again what is gone."""
        now = time.monotonic()
        if self.coordinator is not None and (status := self.coordinator.poll()) is not None:
            if status != -signal.SIGKILL:
                lines = self._said().read_text(errors="replace").strip().splitlines() or [""]
                full = self.filler is not None and self.filler.full
                self.ends[f"{'full disk: ' if full else ''}{status} {lines[-1][:160]}"] += 1
                self.told("coordinator ended", status=status, full=full, said=lines[-1][:300])
                if status < 0:
                    self.fault(f"the coordinator ended with {status}")
            self._heed("coordinator", self._said().read_text(errors="replace").splitlines())
            self.coordinator, self.again_at = None, now + AGAIN_SECONDS
        if self.coordinator is None and now >= self.again_at:
            self.coordinate()
        if self.server is not None and (status := self.server.process.poll()) is not None:
            if status != -signal.SIGKILL:
                self.fault(f"the server ended with {status}: {''.join(self.server.lines[-3:])}")
            self._heed("server", self.server.lines)
            port, self.server = self.server.port, None
            self.starting = threading.Timer(AGAIN_SECONDS, self.serve, (port,))
            self.starting.start()

    def _heed(self, who: str, lines: list[str]) -> None:
        """A traceback is a bug, whatever came of it."""
        if found := [number for number, line in enumerate(lines) if "Traceback" in line]:
            told = " ".join(line.strip() for line in lines[found[0] : found[0] + 60] if "^^^" not in line)
            self.fault(f"the {who} said {len(found)} tracebacks, the first: {told[-600:]}")

    def kinds(self) -> dict[str, list[psutil.Process]]:
        found: dict[str, list[psutil.Process]] = {kind: [] for kind in WEIGHTS}
        for kind, process in (("server", self.server and self.server.process), ("coordinator", self.coordinator)):
            if process is not None:
                with suppress(psutil.NoSuchProcess):
                    found[kind].append(psutil.Process(process.pid))
        for pid in self.chaos.players():
            with suppress(psutil.NoSuchProcess):
                found["player"].append(player := psutil.Process(pid))
                for process in alive(player.children(recursive=True)):
                    with suppress(psutil.NoSuchProcess):
                        if process not in self.seen:
                            self.seen[process] = _owner(process)
                        if "chrom" in process.name():
                            found["browser"].append(process)
                        elif "run-driver" in process.cmdline():
                            found["driver"].append(process)
        return found

    def kill(self) -> None:
        kind = self.dice.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        if targets := self.kinds()[kind]:
            target = self.dice.choice(targets)
            with suppress(psutil.NoSuchProcess):
                what = " ".join(word for word in target.cmdline() if word.startswith("--type="))
                target.kill()
                self.chaos.kills[kind] += 1
                self.told("killed", kind=kind, what=what, of=len(targets))

    # -------------------------------------------------------------------------------------------------------- looking

    def sample(self) -> None:
        now, kinds = time.monotonic(), self.kinds()
        sizes = {kind: [_size(process) for process in found] for kind, found in kinds.items()}
        for kind, found in kinds.items():
            self.most[kind] = max(self.most[kind], len(found))
            if kind != "browser":
                settled = [process for process in found if _age(process) > SETTLED_SECONDS]
                self.sizes[kind] += [(now, _size(process)) for process in settled]
        if kinds["browser"]:
            self.sizes["browser"].append((now, sum(sizes["browser"]) // len(sizes["browser"])))
        strays = [process for process in alive(list(self.seen)) if not alive([self.seen[process]])]
        self.strays = {process: self.strays.get(process, now) for process in strays}
        for process, since in self.strays.items():
            if now - since > ORPHAN_SECONDS:
                self.fault(f"orphan: {process}")
        rows = self.records()
        self.told(
            "sample", episodes=len(rows), processes={kind: len(found) for kind, found in kinds.items()},
            mib={kind: round(sum(found) / 2**20) for kind, found in sizes.items()}, strays=len(strays),
        )  # fmt: skip

    def records(self) -> list[dict[str, Any]]:
        """What is on record, compared with what was."""
        try:
            rows = RunReader(self.chaos.out).episodes()
        except Exception as error:
            if self.recorded:
                self.fault(f"broken: the run cannot be read: {error!r}")
            return []
        times = {row["id"]: row["started_at"] for row in rows}
        for id, count in Counter(row["id"] for row in rows).items():
            if count > 1:
                self.fault(f"doubled: {id}")
        for id in [id for id, began in self.recorded.items() if times.get(id) != began]:
            self.fault(f"lost: {id}")
        self.recorded = times
        return rows

    # ---------------------------------------------------------------------------------------------------- all of it

    def run(self) -> None:
        self.serve()
        assert self.server is not None
        self.chaos.policy = f"{self.server.url}/v1"
        self.coordinate()
        end = self.began + 60 * self.minutes
        fills = [self.began + 20 * self.minutes * third for third in (1, 2)] if self.filler else []
        next_kill = time.monotonic() + 2 * self.every
        next_sample = 0.0
        while (now := time.monotonic()) < end:
            self.mind()
            if self.filler is not None:
                if fills and now >= fills[0]:
                    fills.pop(0)
                    self.filler.until, self.filler.times = now + FULL_SECONDS, self.filler.times + 1
                    self.told("the disk is full")
                if self.filler.full and now >= self.filler.until:
                    self.filler.free()
                    self.told("there is room again")
                elif self.filler.full:
                    self.filler.fill()
            if now >= next_kill:
                next_kill = now + self.dice.expovariate(1 / self.every)
                self.kill()
            if now >= next_sample:
                next_sample = now + SAMPLE_SECONDS
                self.sample()
            time.sleep(0.25)
        self.stop()

    def stop(self) -> None:
        """It still works: some more episodes; then stop it as a person would."""
        if self.filler is not None:
            self.filler.free()
        before, until = len(self.recorded), time.monotonic() + 240
        while len(self.records()) <= before or self.coordinator is None or self.server is None:
            self.mind()
            if time.monotonic() > until:
                self.fault("nothing was recorded any more")
                break
            time.sleep(1)
        self.sample()
        if self.coordinator is not None:
            self.coordinator.send_signal(signal.SIGINT)
            if (status := self.coordinator.wait(120)) != 130:
                self.fault(f"the coordinator was interrupted and ended with {status}")
            self._heed("coordinator", self._said().read_text(errors="replace").splitlines())
        if self.server is not None:
            self.server.process.terminate()
            if (status := self.server.process.wait(60)) != 0:
                self.fault(f"the server was terminated and ended with {status}")
            self._heed("server", self.server.lines)

    def close(self) -> None:
        if self.starting is not None:
            self.starting.join()
        for process in (self.coordinator, self.server and self.server.process):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()

    def verdict(self) -> dict[str, Any]:
        rows = self.records()
        outcomes = Counter(row["outcome"] for row in rows)
        for row in rows:
            if row["outcome"] in NO_VERDICT:
                self.fault(f"no verdict: {row['id']}: {row['error'][:200]}")
        report = verify(self.chaos.out, TABLES, picture_check(self.chaos.out))
        for finding in report.findings:
            self.fault(f"broken: {finding}")
        eventually(lambda: not self.chaos.left_behind() and not alive(list(self.seen)))
        left = [*self.chaos.left_behind(), *map(str, alive(list(self.seen)))]
        left += [path.name for path in self.chaos.folder.iterdir() if path.name not in left]
        for what in left:
            self.fault(f"orphan, at the end: {what}")
        return {
            "commit": commit(), "minutes": self.minutes, "sessions": self.chaos.sessions, "kills": self.chaos.kills,
            "disk filled": self.filler.times if self.filler else 0, "starts": self.starts, "ended by itself": self.ends,
            "episodes": len(rows), "outcomes": outcomes, "spoiled attempts": len(RunReader(self.chaos.out).spoiled()),
            "most processes": self.most, "memory": {kind: self._level(kind) for kind in self.sizes},
            "faults": len(self.faults), "first faults": self.faults[:10],
        }  # fmt: skip

    def _level(self, kind: str) -> dict[str, Any]:
        third = 20 * self.minutes
        early = [size for at, size in self.sizes[kind] if at - self.began < third]
        late = [size for at, size in self.sizes[kind] if at - self.began > 2 * third]
        if not early or not late:
            return {"samples": [len(early), len(late)]}
        first, last = statistics.mean(early), statistics.mean(late)
        if last > GROWTH * first + NOISE:
            self.fault(f"memory: {kind} had {first / 2**20:.0f} MiB and has {last / 2**20:.0f}")
        mean = {"first third": round(first / 2**20), "last third": round(last / 2**20)}
        return {**mean, "samples": [len(early), len(late)]}


def _size(process: psutil.Process) -> int:
    """Pages that many share are counted once in all: of browsers, resident sizes would be several times as much."""
    with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        return int(process.memory_full_info().pss)
    return 0


def _owner(process: psutil.Process) -> psutil.Process:
    """Without which it may not live: of a page the browser, as the zygote between them may die without harm; of a
    browser the driver, of a driver the player."""
    return next(above for above in process.parents() if not any(word.startswith("--type=") for word in above.cmdline()))


def _age(process: psutil.Process) -> float:
    with suppress(psutil.NoSuchProcess):
        return time.time() - float(process.create_time())
    return 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--sessions", type=int, default=40)
    parser.add_argument("--every", type=float, default=20.0, help="seconds between kills, on average")
    parser.add_argument("--seed", type=int, default=0)
    wanted = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells have it ignored by what runs in the background
    dice = random.Random(wanted.seed)
    logs = Path(tempfile.mkdtemp(prefix="soak-"))
    logs.chmod(0o711)
    disk = logs / "disk"
    disk.mkdir()
    with small_disk(disk, DISK) as refused:
        scratch = disk / "tmp"
        scratch.mkdir()
        options = ["--workers", "2", "--steps", "6", "--seconds", "900", "--attempts", "10", "--shuffled"]
        chaos = Chaos(disk / "run", scratch, options, {}, tasks=TASKS, seeds=SEEDS, sessions=wanted.sessions)
        soak = Soak(chaos, None if refused else Filler(disk), logs, wanted.minutes, wanted.every, dice)
        soak.told("begin", logs=str(logs), disk=refused or DISK)
        try:
            soak.run()
        finally:
            soak.close()
        print(json.dumps(soak.verdict()), flush=True)
    if soak.faults:
        raise SystemExit(1)
    shutil.rmtree(logs)  # of a failure they are kept


if __name__ == "__main__":
    main()
