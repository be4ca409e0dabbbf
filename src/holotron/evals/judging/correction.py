"""From what a judge measured to what is likely true, given how often it errs.

    corrected(rate, read_error_rates(Path("calibration.json"), "webvoyager, gpt-4o"))

A judge that passes the share p of failures and fails the share n of successes measures m = t (1 - n) + (1 - t) p of a
true rate t. Solved for t, this is the estimate of Rogan and Gladen (1978). Its interval comes from drawing m, p and n
from what their counts allow, so few labels make it wide. It holds as far as the labelled episodes are like the measured
ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from holotron.errors import InputError
from holotron.evals.calibration import Share
from holotron.evals.files import read_json
from holotron.evals.judging.figures import Rate

_DRAWS = 20_000


@dataclass(frozen=True, slots=True)
class ErrorRates:
    false_positive: Share
    false_negative: Share


@dataclass(frozen=True, slots=True)
class Estimate:
    rate: float
    low: float  # 95 % interval
    high: float

    def __str__(self) -> str:
        return f"{100 * self.rate:.1f} % ({100 * self.low:.1f} – {100 * self.high:.1f})"

    def to_json(self) -> dict[str, float]:
        return asdict(self)


def corrected(measured: Rate, errors: ErrorRates) -> Estimate | None:
    """None where nothing was decided, or where the judge tells successes from failures no better than chance."""
    p, n = errors.false_positive.rate, errors.false_negative.rate
    if measured.rate is None or 1 - n - p <= 0:
        return None
    random = np.random.default_rng(0)

    def draws(count: int, of: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        return random.beta(count + 0.5, of - count + 0.5, _DRAWS)  # Jeffreys

    m = draws(measured.successes, measured.decided)
    ps = draws(errors.false_positive.count, errors.false_positive.of)
    ns = draws(errors.false_negative.count, errors.false_negative.of)
    able = 1 - ns - ps > 0.01
    likely = np.clip((m - ps)[able] / (1 - ns - ps)[able], 0.0, 1.0)
    low, high = np.quantile(likely, (0.025, 0.975))
    rate = min(max((measured.rate - p) / (1 - n - p), 0.0), 1.0)
    return Estimate(rate, min(float(low), rate), max(float(high), rate))


def read_error_rates(file: Path, judge: str) -> ErrorRates:
    """What `holotron judge calibrate --json` wrote; of this judge, or of the only one in it."""
    found = read_json(file)
    if not isinstance(found, Mapping) or not found:
        raise InputError(f"{file} is no result of `holotron judge calibrate --json`")
    if judge not in found and len(found) > 1:
        raise InputError(f"{file} has no calibration of {judge!r}; it has {', '.join(map(str, found))}")
    said = found.get(judge) or next(iter(found.values()))
    try:
        return ErrorRates(*(_share(said[name]) for name in ("false_positive", "false_negative")))
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{file} is no result of `holotron judge calibrate --json`") from None


def _share(said: Mapping[str, Any]) -> Share:
    count, of = int(said["count"]), int(said["of"])
    if not 0 <= count <= of or of == 0:
        raise ValueError("no such share")
    return Share(count, of)
