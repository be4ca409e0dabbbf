"""A rollout whose workers and driver are killed at random moments, until it gets through; and what must hold then.

Used by the suite for a few kills, by `benchmarks/rollout_chaos.py` and `benchmarks/soak.py` for many. Processes are
known by the folder for temporary files that they share, so whoever else runs browsers on this machine is left in peace.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from holotron.rollouts.store import RunReader, picture_check
from holotron.rollouts.tables import TABLES
from holotron.storage.verify import verify


@dataclass
class Chaos:
    out: Path
    folder: Path  # for temporary files, of all processes that take part
    machines: Sequence[str]  # options of the command: where it plays
    environment: dict[str, str]
    policy: str = "scripted"
    tasks: str = "click-button,enter-text"
    seeds: int = 10
    sessions: int = 4
    dice: random.Random = field(default_factory=random.Random)
    kills: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    errors: str = ""

    @property
    def episodes(self) -> set[str]:
        return {f"miniwob/{name}/{seed}" for name in self.tasks.split(",") for seed in range(self.seeds)}

    def run(self, targets: Sequence[str], moment: tuple[float, float] = (0.0, 1.5)) -> None:
        """Kill one target after the other, each some time after the run has made progress; then let it finish."""
        began = time.monotonic()
        driver = self._start()
        try:
            for target in targets:
                self._progress(driver)
                time.sleep(self.dice.uniform(*moment))
                if driver.poll() is not None:
                    break
                if target == "driver":
                    driver.kill()
                    driver.wait()
                    self.kills["driver"] += 1
                    driver = self._start()
                elif players := self.players():
                    os.kill(self.dice.choice(players), signal.SIGKILL)
                    self.kills["worker"] += 1
            _, said = driver.communicate(timeout=180)
            self.errors = said
            assert driver.returncode == 0, said
        finally:
            driver.kill()
            driver.wait()
        self.seconds = time.monotonic() - began

    def check(self) -> None:
        """Nothing lost, nothing doubled, nothing broken, nothing left behind."""
        recorded = Counter(row["id"] for row in RunReader(self.out).episodes())
        assert set(recorded) == self.episodes, sorted(self.episodes - set(recorded))
        assert set(recorded.values()) == {1}
        assert {row["outcome"] for row in RunReader(self.out).episodes()} == {"success"}
        report = verify(self.out, TABLES, picture_check(self.out))
        assert report.findings == [] and report.records == len(self.episodes)
        end = time.monotonic() + 20
        while (left := self.left_behind()) and time.monotonic() < end:
            time.sleep(0.1)
        assert not left, left

    def players(self) -> list[int]:
        """Processes that play, by the folders they have."""
        found = [re.fullmatch(r"holotron-player-(\d+)-\d+", path.name) for path in self.folder.iterdir()]
        return sorted(pid for match in found if match and _alive(pid := int(match[1])))

    def left_behind(self) -> list[str]:
        """Browsers and drivers that still run, and folders of players that do not."""
        players = {f"holotron-player-{pid}-" for pid in self.players()}
        folders = [p.name for p in self.folder.iterdir() if p.name.startswith("holotron-player-")]
        found = [name for name in folders if not any(name.startswith(player) for player in players)]
        mark = f"HOLOTRON_SCRATCH={self.folder}".encode()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if mark in (entry / "environ").read_bytes():
                        found.append(f"{entry.name} {(entry / 'cmdline').read_bytes()[:60]!r}")
                except OSError:
                    continue
        return found + [str(pid) for pid in self.players()]

    def _start(self, errors: int | IO[str] = subprocess.PIPE) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "holotron", "rollout", "--policy", self.policy, "--tasks", self.tasks]
        command += ["--seeds", f"0:{self.seeds}", "--sessions", str(self.sessions), "--out", str(self.out)]
        environment = os.environ | {"TMPDIR": str(self.folder)} | self.environment
        return subprocess.Popen(
            [*command, *self.machines],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            text=True,
        )

    def _progress(self, driver: subprocess.Popen[str]) -> None:
        """Wait until there is one more episode on record than now."""
        before = self._recorded()
        while driver.poll() is None and self._recorded() <= before:
            time.sleep(0.02)

    def _recorded(self) -> int:
        try:
            return len(RunReader(self.out).episodes())
        except Exception:  # it has not begun
            return 0


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
