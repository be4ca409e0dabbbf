"""How a screen is shown to a policy: one set of words from a checkpoint's `agent.json` to the report.

    View(scale=2, crop=True, format="png")
    View.from_json({"width": 1280, "height": 720})
    wish.over(declared).over(default)          # what the user says, else what the model declares, else the suite's own

None means "not said". A suite fills what is left open, refuses what it cannot do, and records the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from holotron.errors import ConfigError

Format = Literal["png", "jpeg"]


@dataclass(frozen=True, slots=True)
class View:
    width: int | None = None  # of the page, CSS pixels
    height: int | None = None
    scale: float | None = None  # image pixels drawn per CSS pixel
    crop: bool | None = None  # only the part that the task is played in (MiniWoB++: without the instruction bar)
    format: Format | None = None  # of the screenshot

    def __post_init__(self) -> None:
        for name in ("width", "height", "scale"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or value <= 0):
                raise ConfigError(f"a view's {name} is a number above 0, not {value!r}")
        if self.format not in (None, "png", "jpeg"):
            raise ConfigError(f"a view's format is png or jpeg, not {self.format!r}")

    def over(self, other: View) -> View:
        """This view, with what it leaves open taken from the other."""
        return View(**{**other.to_json(), **self.to_json()})

    def refuse(self, names: tuple[str, ...], why: str) -> None:
        """For suites: an error if somebody asked for what they cannot do."""
        asked = [name for name in names if getattr(self, name) is not None]
        if asked:
            raise ConfigError(f"{why}: {' and '.join(asked)} cannot be chosen there")

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_json(cls, value: Any) -> View:
        known = [field.name for field in fields(cls)]
        if not isinstance(value, Mapping) or any(name not in known for name in value):
            raise ConfigError(f"a view is an object with some of {', '.join(known)}; found {value!r}")
        return cls(**value)

    def __str__(self) -> str:
        """For people: `1280x720@2, cropped, png`."""
        size = "" if self.width is None and self.height is None else f"{self.width or '-'}x{self.height or '-'}"
        scale = "" if self.scale is None else f"@{self.scale:g}"
        words = [f"{size}{scale}", "cropped" if self.crop else "", self.format or ""]
        return ", ".join(filter(None, words)) or "the suite's own"
