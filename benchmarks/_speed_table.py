"""The rows of `speed_rows.py`: what each measures, what it should reach, and how long it takes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

NANO, QWEN, HOLO2 = "nemotron-3-nano-30b-a3b", "holo3.1-35b-a3b", "holo2-8b-text"
FP8 = ("weight_dtype=float8_e4m3fn",)
HOST = ("host_bytes=90000000000",)  # of 128 GiB
MIDDLE = {"begun": 16, "steps": 4}  # of steps 13 to 24: contexts have the mean of all twelve


@dataclass(frozen=True)
class Row:
    what: str
    preset: str
    required: float
    aim: float
    model: str = "holotron-12b"
    engine: tuple[str, ...] = ()
    changes: dict[str, int] = field(default_factory=dict)  # of the preset
    figure: str = "steps/s"  # steps/s, seconds (the median step), over ideal, first token, milliseconds
    expected: float = 100.0  # seconds it takes with everything
    on: str = "holotron"  # or "vllm": the same there
    starts: float = 0.0  # seconds until what it shares with its neighbours has started
    ratio: tuple[float, float] | None = None  # to the same row on vLLM: required, aimed at

    @property
    def place(self) -> str:
        """What it needs: a model in this process, a server, a checkpoint on disk, or nothing but a core."""
        if self.on == "vllm":
            return "vllm server" if self.shows_pictures else "vllm"
        named = {"first-token": "disk", "host": "core"}
        return "server" if self.preset.startswith("http") else named.get(self.preset, "engine")

    @property
    def shows_pictures(self) -> bool:
        from holotron.bench.presets import PRESETS

        return self.preset in PRESETS and "picture" in PRESETS[self.preset].options


def both(name: str, row: Row, fp8: tuple[float, float], faster: float = 1.45) -> dict[str, Row]:
    """In bf16, and with 8-bit products."""
    eight = replace(
        row, what=f"{row.what}, fp8", required=fp8[0], aim=fp8[1], engine=(*FP8, *row.engine),
        expected=20 + (row.expected - 20) / faster,
    )  # fmt: skip
    return {f"{name}-bf16": replace(row, what=f"{row.what}, bf16"), f"{name}-fp8": eight}


ROWS = {
    # As ratios to vLLM 0.26, which did 6.16 and 8.43 on such a machine.
    **both("1", Row("append", "append", 8.50, 8.81), (12.48, 13.49)),
    **both("2", Row("window-3, four steps", "window-3", 5.8, 6.3, changes={"steps": 4}), (8.4, 9.3)),
    "3": Row("window-3, eight steps: computed over ideal", "window-3", 1.01, 1.0, figure="over ideal", expected=190),
    **both("4", Row("Nemotron-3-Nano shape, append", "append", 15, 18, NANO, expected=65), (19, 24)),
    **both("5", Row("Qwen3.5-35B-A3B shape, append", "append", 0, 0, QWEN, expected=70), (0, 0)),
    "6": Row(
        "Holo2-8B, text shape: more sessions than device and host hold", "append", 5.8, 7.0, HOLO2, HOST, expected=150
    ),
    **both("7", Row("pictures, append", "pictures", 6.8, 7.2, engine=("workers=4",), expected=120), (10, 11.2)),
    "8": Row("pictures, fp8, deltas", "deltas", 12.5, 14.5, engine=(*FP8, "workers=4"), expected=80),
    "9": Row("row 7 in fp8 over HTTP, whole histories", "http", 9.5, 9.8, engine=FP8, expected=130),
    "9-sessions": Row("row 7 in fp8 over HTTP, session_id", "http-sessions", 9.5, 9.8, engine=FP8, expected=120),
    "10": Row("host CPU for one PNG, ms", "host", 60, 30, figure="milliseconds", expected=15),
    "11": Row("steps 17 to 20 of 24, bf16", "long", 5.5, 6.2, engine=HOST, changes=MIDDLE, expected=110),
    "11-whole": Row("steps 13 to 24, bf16", "long", 5.5, 6.2, engine=HOST, expected=270),
    "12": Row(
        "one session, 128 tokens after a screenshot, fp8", "one", 0.62, 0.52, engine=FP8, figure="seconds", expected=25
    ),
    "13": Row("checkpoint on disk to first token", "first-token", 12, 6, figure="first token", expected=150),
}
RATIOS = {"1-bf16": (1.38, 1.43), "1-fp8": (1.48, 1.60), "5-bf16": (1.15, 1.35), "9-tower": (1.5, 2.0)}
for _tower in ("7-fp8", "8", "9", "9-sessions", "12"):  # the same with the tower in 8 bits
    ROWS[f"{_tower}-tower"] = replace(ROWS[_tower], engine=(*ROWS[_tower].engine, "vision_dtype=float8_e4m3fn"))

# On vLLM 0.26: with states in fp32, and prefixes cached at the blocks that it recommends for such models.
_MAMBA = ('mamba_cache_mode="align"', 'mamba_ssm_cache_dtype="float32"')
_DELTA = ('mamba_cache_mode="align"', 'gdn_prefill_backend="triton"', "language_model_only=true")
_THERE = {"1-bf16": (_MAMBA, 105), "2-bf16": (_MAMBA, 95), "11": (_MAMBA, 330), "5-bf16": (_DELTA, 55),
          "1-fp8": (_MAMBA, 80), "9-tower": (_MAMBA, 130), "12-tower": (_MAMBA, 10)}  # fmt: skip
for _name, (_options, _seconds) in _THERE.items():
    _eight = ('quantization="fp8"',) if "weight_dtype=float8_e4m3fn" in ROWS[_name].engine else ()
    ROWS[_name] = replace(ROWS[_name], ratio=RATIOS.get(_name))
    ROWS[f"{_name}-vllm"] = replace(
        ROWS[_name], what=f"{ROWS[_name].what}, on vLLM", required=0, aim=0, engine=(*_options, *_eight), on="vllm",
        expected=_seconds, starts=250, ratio=None,
    )  # fmt: skip
