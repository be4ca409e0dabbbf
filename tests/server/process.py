"""A real server in a process of its own, as a user starts it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests import warm

SOURCE = Path(__file__).parents[2] / "src"


class ServerProcess:
    def __init__(
        self, *flags: str, environment: dict[str, str] | None = None, files: int | None = None, cold: bool = False
    ) -> None:
        """`files`: how many it may have open. `cold`: with a Python of its own from the start, for measurements."""
        self.lines: list[dict[str, Any]] = []
        self.noise: list[str] = []
        started = time.monotonic()
        program = [sys.executable, "-m", "holotron.cli.main"] if cold else [warm.holotron()]
        command = [*program, "serve", "--server.port", "0", *flags]
        if files is not None:
            command = ["bash", "-c", f'ulimit -n {files} && exec "$@"', "limited", *command]
        self._process = subprocess.Popen(
            command,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1", **(environment or {})},
        )
        threading.Thread(target=self._read, daemon=True).start()
        try:
            self.wait_for("ready")
        except BaseException:
            self.stop()
            raise
        self.seconds_to_ready = time.monotonic() - started
        self.port: int = self.wait_for("listening")["port"]
        self.url = f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Of the server itself."""
        (said,) = [line["message"] for line in self.lines if line["message"].startswith("Started server process")]
        return int(said.partition("[")[2].rstrip("]"))

    def wait_for(self, message: str, seconds: float = 120.0) -> dict[str, Any]:
        """The log line with this message."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for line in list(self.lines):
                if line["message"] == message:
                    return line
            assert self._process.poll() is None, f"the server died: {self.noise} {self.lines}"
            time.sleep(0.02)
        raise AssertionError(f"no line {message!r} in {self.lines}")

    def metrics(self) -> dict[str, float]:
        text = httpx.get(f"{self.url}/metrics", timeout=60).text
        rows = (line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))
        return {name: float(value) for name, value in rows}

    def settled(self, seconds: float = 30.0) -> dict[str, float]:
        """Metrics as soon as nothing runs or waits any more."""
        until = time.monotonic() + seconds
        while True:
            metrics = self.metrics()
            if metrics["holotron_requests_running"] + metrics["holotron_requests_waiting"] == 0:
                return metrics
            assert time.monotonic() < until, "requests are still running"
            time.sleep(0.02)

    def signal(self, number: int = signal.SIGTERM) -> None:
        self._process.send_signal(number)

    def wait(self, seconds: float = 60.0) -> int:
        return self._process.wait(seconds)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            try:
                self.lines.append(json.loads(line))
            except ValueError:
                self.noise.append(line)


@contextmanager
def running(
    *flags: str, environment: dict[str, str] | None = None, files: int | None = None, cold: bool = False
) -> Iterator[ServerProcess]:
    server = ServerProcess(*flags, environment=environment, files=files, cold=cold)
    try:
        yield server
    finally:
        server.stop()
