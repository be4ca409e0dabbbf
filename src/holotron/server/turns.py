"""One turn of a session, from the request to its end.

A turn happens completely or not at all. If the prompt is refused, the generation fails or the client goes away, the
session is put back to where it was; one that was opened or forked for this turn disappears again. So a client may send
the same request again after any failure. (Put back means rewound: without a snapshot near, the next turn has to compute
the history again. Failures are rare; snapshots for all turns would not be.)
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holotron.engine import EngineStopped, Result, UnknownSession
from holotron.errors import HolotronError
from holotron.server.errors import ApiError
from holotron.server.pictures import SentPicture
from holotron.server.served import ServedSession, ServedSessions
from holotron.server.wire import SessionFields

log = logging.getLogger(__name__)


@dataclass
class TurnTransaction:
    """Holds its session from `begin` until `commit` or `undo`."""

    sessions: ServedSessions
    owner: str
    session: ServedSession
    made_here: bool  # opened or forked by this very request
    turns: int = 0  # that the session had before this one
    over: bool = False
    pictures: Sequence[SentPicture] = ()  # that the turn brought

    async def saved(self) -> None:
        """After the commit, before the client hears of it: the turn survives this process."""
        await self.sessions.saved(self.owner, self.session, self.pictures)

    def commit(self, result: Result) -> None:
        self.over = True
        self.session.replied(result)
        self.session.answered(self.turns, self.made_here)
        self.session.release()

    def keep_prompt(self) -> None:
        """The turn waits for its reply."""
        self.over = True
        self.session.answered(self.turns, self.made_here)
        self.session.release()

    async def undo(self) -> None:
        """The engine was told to cancel before this, and obeys in order."""
        if self.over:
            return
        self.over = True
        try:
            if self.made_here:
                await self.sessions.close(self.owner, self.session)
            elif len(self.session.turns) > self.turns:
                await self.session.take_back_prompt()
            elif self.session.awaits_reply:
                await self.session.take_back_reply()
        except (UnknownSession, EngineStopped):
            pass  # closed in the meantime, or with everything else
        except HolotronError:
            # What the session holds now is not what its turns say; better gone than wrong.
            log.exception("session %r cannot be put back and is closed", self.session.id)
            with contextlib.suppress(HolotronError):
                await self.sessions.close(self.owner, self.session)
        finally:
            self.session.release()


async def begin(sessions: ServedSessions, request: SessionFields, owner: str, scope: bytes) -> TurnTransaction:
    """Find or make the session a request names, and hold it. Not to be cancelled half-way (`running.unbroken`)."""
    if request.session_open:
        session = await sessions.open(owner, request.session_id, scope)
    else:
        assert request.session_id is not None
        session = sessions.get(owner, request.session_id)
        if request.fork is not False:
            name = request.fork if isinstance(request.fork, str) else None
            (session,) = await sessions.fork(owner, session, [name])
    made_here = bool(request.session_open) or request.fork is not False
    session.hold()
    turn = TurnTransaction(sessions, owner, session, made_here, len(session.turns))
    try:
        if request.rewind is not None:
            await session.rewind(request.rewind)
            turn.turns = len(session.turns)
    except BaseException:
        await turn.undo()
        raise
    return turn


def check_new_messages(session: ServedSession, messages: list[dict[str, Any]], tools: list[Any] | None) -> None:
    """Catch the client that sends its whole history into a session that already has it."""

    def refuse(message: str, param: str = "messages") -> None:
        raise ApiError(400, message, param=param)

    if session.awaits_reply:
        if messages:
            refuse(f"session {session.id!r} has a prompt without a reply: send no messages to get one, or rewind")
        return
    if not messages:
        refuse("messages must hold at least one message: there is nothing to reply to")
    if not session.turns:
        return
    if messages[0]["role"] in ("system", "developer"):
        refuse(
            f"session {session.id!r} has {len(session.turns)} turns already; send only the new messages "
            "(or rewind: 0 to start over)"
        )
    if any(message["role"] == "assistant" for message in messages):
        refuse("the session remembers its own replies; send only what is new")
    if tools is not None and tools != session.tools:
        refuse("tools belong to the first turn of a session and cannot change later", "tools")
