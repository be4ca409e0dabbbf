"""The languages of models: one file each, found by name, or as `module:Class`. Other packages offer theirs through
entry points (`holotron.dialects`)."""

from __future__ import annotations

from collections.abc import Sequence

from holotron.agent.coordinates import Frame
from holotron.agent.dialects.base import Dialect, Output
from holotron.agent.images import Resize
from holotron.errors import ConfigError
from holotron.registry import Registry, did_you_mean

dialects: Registry[type[Dialect]] = Registry(
    "dialect",
    "holotron.dialects",
    {name: f"holotron.agent.dialects.{name}" for name in ("holotron", "desktop", "surfer", "tools", "compact")},
)


def make_dialect(
    name: str,
    *,
    frame: str | None = None,
    actions: Sequence[str] | None = None,
    resize: Resize | None = None,
) -> Dialect:
    """A dialect by name; its frame can be overridden, because checkpoints of one family differ."""
    try:
        chosen = Frame(frame) if frame else None
    except ValueError:
        raise ConfigError(f"there is no coordinate frame {frame!r}: {did_you_mean(str(frame), Frame)}") from None
    return dialects.get(name)(frame=chosen, actions=actions, resize=resize)


__all__ = ["Dialect", "Output", "dialects", "make_dialect"]
