"""The questions that `gate.js` asks for sockets: whether one may be opened, whether a message may leave.

They are requests, held like all others and answered here; what belongs to them stands in a header:

    X-Holotron: <what only our scripts know> message ws://shop.example/socket
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from holotron.envs.effects.judging import Sent

ASIDE = "&holotron-asks"  # how their addresses end: nothing that a page waits for
ANYWHERE = [{"name": f"Access-Control-Allow-{name}", "value": "*"} for name in ("Origin", "Headers")]  # of answers
_HEADER = "x-holotron"


class SocketQuestion(NamedTuple):
    about: Literal["asking", "message", "opening"]
    url: str  # of the socket


def question_of_ours(sent: Sent, known: str) -> SocketQuestion | None:
    """None: it is none. A page that wrote one like it would not know what stands in its header. Before a question that
    goes to another site the browser asks whether it may be asked there."""
    if not sent.url.endswith(ASIDE):
        return None
    if sent.method == "OPTIONS" and _HEADER in sent.header("Access-Control-Request-Headers").lower():
        return SocketQuestion("asking", "")
    held, _, said = sent.header(_HEADER).partition(" ")
    about, _, url = said.partition(" ")
    if held != known:
        return None
    return SocketQuestion("message" if about == "message" else "opening", url)
