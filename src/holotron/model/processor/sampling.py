"""How a checkpoint's publishers sample from it: what `generation_config.json` says for requests that do not say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from holotron.errors import ConfigError
from holotron.model.hf_json import read_json


@dataclass(frozen=True, slots=True)
class SamplingDefaults:
    """None: the file does not say."""

    temperature: float | None = None  # 0: greedy
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None

    def __post_init__(self) -> None:
        for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty"):
            most = 1.0 if name in ("top_p", "min_p") else math.inf
            value = getattr(self, name)
            least = 1e-9 if name in ("top_p", "repetition_penalty") else 0
            good = isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most
            if value is not None and not good:
                raise ConfigError(f"generation_config.json: {name} must be between 0 and {most}, found {value!r}")

    @classmethod
    def of_folder(cls, folder: Path) -> SamplingDefaults:
        """Of a checkpoint, without the rest of it."""
        file = folder / "generation_config.json"
        return cls.from_hf(read_json(file)) if file.is_file() else cls()

    @classmethod
    def from_hf(cls, generation: Mapping[str, Any]) -> SamplingDefaults:
        """`do_sample: false` means greedy, whatever else the file says but a penalty; a file that is silent about it
        and has no temperature leaves the choice to whoever asks."""
        if generation.get("do_sample") is False:
            return cls(temperature=0.0, repetition_penalty=generation.get("repetition_penalty"))
        top_k = generation.get("top_k")
        return cls(
            temperature=generation.get("temperature"),
            top_p=generation.get("top_p"),
            top_k=int(top_k) if isinstance(top_k, float) and top_k.is_integer() else top_k,
            min_p=generation.get("min_p"),
            repetition_penalty=generation.get("repetition_penalty"),
        )

    def to_hf(self) -> dict[str, Any]:
        values = {key: value for key, value in asdict(self).items() if value is not None}
        if self.temperature == 0:
            penalty = {"repetition_penalty": self.repetition_penalty} if self.repetition_penalty is not None else {}
            return {"do_sample": False, **penalty}
        return values | ({"do_sample": True} if values else {})
