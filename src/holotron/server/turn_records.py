"""What a served session keeps of its turns; see `served`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from holotron.engine import Mark
from holotron.model.processor import Transcript


@dataclass(frozen=True)
class ServedTurn:
    start: int  # length of the log before it
    prompt: int  # ... before the reply
    said: Transcript = field(default_factory=Transcript)  # up to the prompt's end; up to the reply's, when there is one
    opens_reasoning: bool = False
    thinking: bool = False
    end: int | None = None  # length of the log after the reply; None: not replied to yet
    mark: Mark | None = None  # a snapshot before the reply


@dataclass(frozen=True)
class LastReply:
    """Whose answer may have been lost on its way: then the same request comes again, and this is to be undone first."""

    reply: str
    turns: int  # that the session had before
    made: bool  # the session was opened by it


def turns_of(told: dict[str, Any], begins: Transcript) -> list[ServedTurn]:
    """The turns in such a description."""
    return [
        ServedTurn(
            start=turn["start"],
            prompt=turn["prompt"],
            said=replace(begins, begun=turn["begun"], tail=tuple(turn["tail"])),
            opens_reasoning=turn["opens_reasoning"],
            thinking=turn["thinking"],
            end=turn["end"],
            mark=Mark(*turn["mark"]) if turn["mark"] is not None else None,
        )
        for turn in told["turns"]
    ]
