"""Which setting suits a GPU: the most exact one that holds what is wanted.

    best = recommend(Planner(config), usable_bytes, context=32_768, sessions=2, fp8=True)
    best.flags, best.sessions                       # for `holotron serve`; None if nothing fits

Everything here is planned, not run; `engine.plan` says how such plans compare with what was measured.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from holotron.engine.api import EngineConfig
from holotron.engine.plan import GPUS, MemoryPlan, Planner
from holotron.model.config import ModelConfig

NO_FP8 = frozenset({"A100-80", "A100-40", "A10G"})  # of `GPUS`: older than 8-bit floats
MEASURED = frozenset({"H200"})  # where plans were compared with a running engine

# From the most exact to the most frugal: what changes in the engine's settings, and how `holotron serve` is told.
_SMALL_CACHE = 64 << 20
_LADDER: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("bf16", {"weight_dtype": None}, ""),
    ("fp8", {"weight_dtype": "float8_e4m3fn"}, "--weights fp8"),
    (
        "fp8",
        {"weight_dtype": "float8_e4m3fn", "kv_dtype": "float8_e4m3fn", "vision_cache_bytes": _SMALL_CACHE},
        f"--weights fp8 --engine.kv_dtype float8_e4m3fn --engine.vision_cache_bytes {_SMALL_CACHE}",
    ),
    (
        "fp8",
        {
            "weight_dtype": "float8_e4m3fn",
            "kv_dtype": "float8_e4m3fn",
            "vision_cache_bytes": _SMALL_CACHE,
            "token_budget": 512,
            "vision_batch": 4,
        },
        f"--weights fp8 --engine.kv_dtype float8_e4m3fn --engine.vision_cache_bytes {_SMALL_CACHE} "
        "--engine.token_budget 512 --engine.vision_batch 4",
    ),
)


@dataclass(frozen=True)
class Setting:
    weights: str  # "bf16" or "fp8"
    flags: str  # for `holotron serve`; empty: none are needed
    sessions: int  # that fit, of the context asked for
    plan: MemoryPlan  # of that many


def recommend(planner: Planner, usable: int, context: int, sessions: int = 2, fp8: bool = True) -> Setting | None:
    """The first setting that holds this many sessions of this length, else the one that holds the most; None where not
    even one fits. `fp8`: whether the GPU has 8-bit floats."""
    best: Setting | None = None
    for weights, changes, flags in _LADDER:
        if weights == "fp8" and not fp8:
            continue
        each = replace(planner, engine=replace(planner.engine, **changes))
        fits = each.sessions(usable, context)
        if fits and (best is None or fits > best.sessions):
            best = Setting(weights, flags, fits, each.plan(fits, context))
        if best is not None and best.sessions >= sessions:
            break
    return best


def has_fp8(gpu: str) -> bool:
    return gpu not in NO_FP8


CARDS = {"24 GB": "RTX-4090", "48 GB": "L40S", "80 GB": "H100", "141 GB": "H200"}  # one for each size people have
FRACTION = 0.92  # of a card's memory to plan with


class Fit(NamedTuple):
    card: str
    weights: str  # "bf16" or "fp8"
    weight_bytes: int
    sessions: int  # of the context asked for; 0: not even one


def by_card(model: ModelConfig, context: int) -> list[Fit]:
    """What fits on the usual cards, in both kinds of weights. Planned, not run."""
    fits = []
    for weights, kind in (("bf16", None), ("fp8", "float8_e4m3fn")):
        planner = Planner(model, engine=EngineConfig(weight_dtype=kind))
        for size, gpu in CARDS.items():
            count = planner.sessions(int(GPUS[gpu] * FRACTION), context)
            fits.append(Fit(size, weights, planner.weight_bytes, count))
    return fits
