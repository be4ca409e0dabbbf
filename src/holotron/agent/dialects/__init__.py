"""The languages of models: one file each, one registry."""

from __future__ import annotations

from collections.abc import Sequence

from holotron.agent.coordinates import Frame
from holotron.agent.dialects.base import Dialect, Output
from holotron.agent.dialects.compact import CompactDialect
from holotron.agent.dialects.holotron import HolotronDialect
from holotron.agent.dialects.surfer import SurferDialect
from holotron.agent.dialects.tools import ToolsDialect
from holotron.agent.images import Resize
from holotron.errors import ConfigError

DIALECTS: dict[str, type[Dialect]] = {
    dialect.name: dialect for dialect in (HolotronDialect, SurferDialect, ToolsDialect, CompactDialect)
}


def make_dialect(
    name: str,
    *,
    frame: str | None = None,
    actions: Sequence[str] | None = None,
    resize: Resize | None = None,
) -> Dialect:
    """A dialect by name; its frame can be overridden, because checkpoints of one family differ."""
    if name not in DIALECTS:
        raise ConfigError(f"unknown dialect {name!r}; there are: {', '.join(DIALECTS)}")
    try:
        chosen = Frame(frame) if frame else None
    except ValueError:
        raise ConfigError(f"unknown coordinate frame {frame!r}; there are: {', '.join(Frame)}") from None
    return DIALECTS[name](frame=chosen, actions=actions, resize=resize)


__all__ = ["DIALECTS", "Dialect", "Output", "make_dialect"]
