"""What a person is asked, and what may be answered.

    async def approver(question: Question) -> Decision:
        print(question)                                     # plain text; no page can imitate its structure
        return ALLOW_ONCE                                   # or ALLOW_SITE, or refuse("not on a Sunday")

A terminal, a function of one's own and a web page all serve the same interface. Whoever does not answer has refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from holotron.quoting import one_line, quoted

LONGEST_THOUGHT = 400  # characters
LONGEST_ADDRESS = 200


class Kind(StrEnum):
    FORM = "form"  # a form is sent
    REQUEST = "request"  # a script sends something that may change something
    NAVIGATION = "navigation"  # an address is opened that carries typed text, or whose name says that it does something
    BEACON = "beacon"  # something is sent behind the page's back, without an answer
    SOCKET = "socket"  # a message goes over an open connection
    DOWNLOAD = "download"
    DIALOG = "dialog"  # the page asks "are you sure?"
    FIELD = "field"  # a password or payment data is typed
    SECRET = "secret"  # something would take a secret of the user's to a site to which it does not belong
    ACTION = "action"  # any action at all, where everything is asked about


REQUESTS = (Kind.FORM, Kind.REQUEST, Kind.NAVIGATION, Kind.BEACON, Kind.SOCKET)


def group_of(kind: Kind) -> str:
    """What rules and answers for a whole site are about: requests of all kinds together, the rest one by one."""
    return "request" if kind in REQUESTS else str(kind)


@dataclass(frozen=True, slots=True)
class Question:
    """May this be done? `summary` says what, on one line, in our words; what others have said stands in quotes."""

    kind: Kind
    summary: str
    origin: str = ""  # where it goes, such as https://shop.example
    method: str = ""
    address: str = ""  # where it goes exactly, without the query
    page: str = ""  # the page in front
    sends: str = ""  # the beginning of what is sent, secrets masked
    control: str = ""  # what the page calls the thing that was pressed
    action: str = ""  # what the agent does, in words
    thought: str = ""  # what the agent thought
    screenshot: bytes = b""  # what the agent saw when it decided
    mime: str = ""

    def lines(self) -> list[tuple[str, str]]:
        """What stands beside the summary: our word for it, and what it is. Everybody else's words are quoted."""
        told = (
            ("address", one_line(self.address, LONGEST_ADDRESS)),
            ("page", one_line(self.page, LONGEST_ADDRESS)),
            ("sends", self.sends and quoted(self.sends, 300)),
            ("pressed", self.control and quoted(self.control, 80)),
            ("action", one_line(self.action, 200)),
            ("thought", self.thought and quoted(self.thought, LONGEST_THOUGHT)),
        )
        return [(label, text) for label, text in told if text]

    def __str__(self) -> str:
        return "\n".join([self.summary, *(f"  {label:<8} {text}" for label, text in self.lines())])

    def __contains__(self, text: str) -> bool:
        return text in str(self)


@dataclass(frozen=True, slots=True)
class Decision:
    """`site`: from now on, everything of this kind that goes to the same origin, in this session."""

    allow: bool
    scope: Literal["once", "site"] = "once"
    reason: str = ""  # of a refusal; the agent is told


ALLOW_ONCE = Decision(True)
ALLOW_SITE = Decision(True, "site")
REFUSE = Decision(False)


def refuse(reason: str = "", scope: Literal["once", "site"] = "once") -> Decision:
    return Decision(False, scope, reason)


Approver = Callable[[Question], Awaitable[Decision]]
