"""What a step costs, as it was measured: the figures that `bench.scale` reckons with. Each of them stands in
docs/lab/ledger.md below the same commit, and `tests/bench/test_scale.py` looks there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

H200 = "one H200 (torch 2.11, triton 3.6)"
TWO_CORES = "2 cores (virtual machine)"


@dataclass(frozen=True)
class Measured:
    value: float
    unit: str
    what: str
    command: str
    commit: str  # empty: not on record
    hardware: str
    date: str


class Rate(NamedTuple):
    """Steps per second of one GPU that always has this many sessions to work on, over tasks of so many steps. A step is
    that of agent-100: 2,304 screenshot tokens and 96 of text are added, 128 generated; the vision tower is apart."""

    sessions: int
    steps: int
    measured: Measured


GPU = "H200"  # where all rates were measured
SYSTEM_TOKENS, STEP_TOKENS = 1024, 2304 + 96 + 128  # of agent-100


def _rate(sessions: int, steps: int, value: float, command: str, commit: str, date: str) -> Rate:
    what = f"agent-steps per second, {sessions} sessions, tasks of {steps} steps"
    return Rate(sessions, steps, Measured(value, "steps/s", what, command, commit, H200, date))


_CURVE = "python benchmarks/grid.py --only curve --each 1"
_GRID = "python benchmarks/grid.py --only grid --each 1"
_WIDE = "python benchmarks/grid.py --only grid --each 1 --sessions 200 --steps 6,12"
_TABLE = "python benchmarks/core_table.py --each 2 --tokens 48"
_NANO = "python -m holotron.bench sessions nemotron-3-nano-30b-a3b --steps 6"

# By model and by the numbers its large matrices are kept in.
RATES: dict[tuple[str, str], tuple[Rate, ...]] = {
    ("holotron-12b", "bf16"): (
        _rate(1, 6, 0.96, _CURVE, "88eca11", "2026-11-15"),
        _rate(10, 6, 4.67, _CURVE, "88eca11", "2026-11-15"),
        _rate(25, 6, 6.48, _CURVE, "88eca11", "2026-11-15"),
        _rate(50, 6, 7.26, _CURVE, "88eca11", "2026-11-15"),
        _rate(100, 6, 8.07, _TABLE, "88eca11", "2026-11-15"),
        _rate(200, 6, 8.02, _WIDE, "5d76b2c", "2026-11-15"),
        _rate(25, 12, 6.09, _GRID, "0876bb9", "2026-11-15"),
        _rate(50, 12, 6.69, _GRID, "0876bb9", "2026-11-15"),
        _rate(100, 12, 7.26, _GRID, "0876bb9", "2026-11-15"),
        _rate(200, 12, 6.72, _WIDE, "5d76b2c", "2026-11-15"),
        _rate(25, 24, 5.36, _GRID, "0876bb9", "2026-11-15"),
        _rate(50, 24, 5.84, _GRID, "0876bb9", "2026-11-15"),
        _rate(100, 24, 5.22, _GRID, "0876bb9", "2026-11-15"),
    ),
    ("holotron-12b", "fp8"): (_rate(100, 6, 11.9, _TABLE, "88eca11", "2026-11-15"),),
    ("nemotron-3-nano-30b-a3b", "bf16"): (_rate(100, 6, 16.8, _NANO, "431030b", "2026-11-16"),),
    ("nemotron-3-nano-30b-a3b", "fp8"): (
        _rate(100, 6, 22.5, f"{_NANO} --engine weight_dtype=float8_e4m3fn", "431030b", "2026-11-16"),
    ),
}

TOWER = Measured(
    26.6,
    "ms",
    "the vision tower on a 1920x1080 screenshot (nine tiles), pass after pass at the power limit",
    "python benchmarks/core_table.py --rows tiles",
    "5d76b2c",
    H200,
    "2026-11-15",
)
PICTURE = Measured(
    58.2,
    "ms",
    "processor time of the server to decode, cut and hash a 1920x1080 screenshot of text",
    "OMP_NUM_THREADS=1 python benchmarks/pictures_cpu.py",
    "",
    "2 cores (AMD EPYC, virtual machine)",
    "2026-11-16",
)
PICTURE_SIZE = Measured(
    0.58, "MB", "that screenshot as PNG", PICTURE.command, PICTURE.commit, PICTURE.hardware, PICTURE.date
)
REQUEST = Measured(
    26.1,
    "ms",
    "processor time of the server for a chat request besides its picture (with a tiny model, whose own time is in it)",
    "/proc/PID/stat",
    "fb42fda",
    TWO_CORES,
    "2026-11-16",
)
BROWSER = Measured(
    60,
    "ms",
    "processor time of Chromium for a step on a light page",
    "python benchmarks/browser_sessions.py --sessions 100 --think 4 --seconds 45",
    "e7c85b1",
    "2 cores (Intel Xeon 2.8 GHz, virtual machine)",
    "2026-11-15",
)
BROWSERS = Measured(
    3.45,
    "GB",
    "memory of 100 browser sessions on light pages",
    BROWSER.command,
    BROWSER.commit,
    BROWSER.hardware,
    BROWSER.date,
)
ENTRANCE = Measured(
    649.4,
    "requests/s",
    "requests of 300 KB in sessions that one entrance passes on, eight clients",
    "python benchmarks/router.py",
    "fc3cabb",
    "2 cores (virtual machine), which clients and stubs shared, a load of 9 to 11 beside it",
    "2026-11-17",
)
ENTRANCE_MB = 0.3  # of each of these requests

# Beside a step's rate.
ALL = (TOWER, PICTURE, PICTURE_SIZE, REQUEST, BROWSER, BROWSERS, ENTRANCE)
