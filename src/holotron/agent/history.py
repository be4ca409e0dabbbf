"""What a model is reminded of. A history policy has a name, and its cost is visible.

    append          never drop anything. Every request extends the one before, so a server that keeps sessions (or a
                    prefix cache) computes each token once. The context grows by one screenshot a step.
    epoch:N,K       append for N turns, then start over once: the turns so far become a few lines of text and only the
                    last K screenshots are shown again. Bounded context, and still append-only between restarts.
    window:K        all text, the last K screenshots; older ones become a line of text. What most agents do. Every
                    request rewrites history, so servers compute most of it again.

A history policy only *selects* (`view`); dialects turn the selection into messages. `view` is a pure function of the
turns, so an interrupted episode or an offline export renders exactly what the live one did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from holotron.agent.coordinates import Screen
from holotron.agent.images import Image
from holotron.errors import ConfigError
from holotron.types import Observation, Reply


@dataclass(frozen=True, slots=True)
class Turn:
    """One exchange: what the model was shown and told, and what it replied."""

    index: int
    observation: Observation
    image: Image | None  # None: the screen is the one of the turn before (the last reply could not be carried out)
    screen: Screen
    feedback: str = ""  # about the previous reply: why it was refused, that it leads nowhere
    must_answer: bool = False
    reply: Reply | None = None
    said: str = ""  # the reply as it stands in the conversation
    instruction: str = ""  # what the user said before this turn


@dataclass(frozen=True, slots=True)
class Shown:
    """A turn as it appears in a request."""

    turn: Turn
    image: Image | None  # None where the turn had none or the history policy drops it


@dataclass(frozen=True, slots=True)
class Selection:
    """What one request shows: early turns folded into text, then turns in full."""

    folded: tuple[Turn, ...]
    shown: tuple[Shown, ...]

    @property
    def images(self) -> int:
        return sum(1 for item in self.shown if item.image is not None)


class History(Protocol):
    @property
    def name(self) -> str: ...

    def view(self, turns: Sequence[Turn]) -> Selection: ...


def _in_full(turns: Sequence[Turn]) -> tuple[Shown, ...]:
    return tuple(Shown(turn, turn.image) for turn in turns)


@dataclass(frozen=True, slots=True)
class Append:
    @property
    def name(self) -> str:
        return "append"

    def view(self, turns: Sequence[Turn]) -> Selection:
        return Selection((), _in_full(turns))


@dataclass(frozen=True, slots=True)
class Epoch:
    turns: int = 16
    keep: int = 2

    def __post_init__(self) -> None:
        if not 1 <= self.keep <= self.turns:
            raise ConfigError(f"history epoch:{self.turns},{self.keep}: keep must be between 1 and the epoch's turns")

    @property
    def name(self) -> str:
        return f"epoch:{self.turns},{self.keep}"

    def view(self, turns: Sequence[Turn]) -> Selection:
        start = 0
        if len(turns) > self.turns:
            # A restart happens when one more turn would make turns + 1; it leaves `keep`, so starts are evenly spaced.
            stride = self.turns + 1 - self.keep
            start = -(-(len(turns) - self.turns) // stride) * stride
        shown = _in_full(turns[start:])
        first = shown[0].turn
        if start and first.image is None:  # its screenshot belongs to a folded turn: show it, or the model sees nothing
            source = next((turn.image for turn in reversed(turns[:start]) if turn.image is not None), None)
            shown = (Shown(first, source), *shown[1:])
        return Selection(tuple(turns[:start]), shown)


@dataclass(frozen=True, slots=True)
class Window:
    images: int = 3

    def __post_init__(self) -> None:
        if self.images < 1:
            raise ConfigError("history window:K needs K of at least 1")

    @property
    def name(self) -> str:
        return f"window:{self.images}"

    def view(self, turns: Sequence[Turn]) -> Selection:
        with_image = [turn.index for turn in turns if turn.image is not None]
        kept = set(with_image[-self.images :])
        return Selection((), tuple(Shown(turn, turn.image if turn.index in kept else None) for turn in turns))


def parse_history(text: str) -> History:
    """`append`, `epoch:16,2` or `window:3` (numbers optional)."""
    name, _, rest = text.partition(":")
    try:
        numbers = [int(piece) for piece in rest.split(",")] if rest else []
        if name == "append" and not numbers:
            return Append()
        if name == "epoch" and len(numbers) <= 2:
            return Epoch(*numbers)
        if name == "window" and len(numbers) <= 1:
            return Window(*numbers)
    except ValueError:
        pass
    raise ConfigError(f"there is no history {text!r}; write append, epoch:TURNS,KEEP or window:IMAGES")
