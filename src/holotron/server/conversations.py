"""Sessions as clients of the server know them: turns over the engine's token log.

The engine's session is a log of tokens. A conversation adds what HTTP clients need: a name (known only to the key that
opened it), the places where turns begin and end, and turns that happen completely or not at all (see `turns`).

Nothing is ever rendered twice: the first turn is rendered whole, each later one by `Processor.bridge`, which asks the
template only for what comes after a reply.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from holotron.engine.aio import AsyncSession
from holotron.engine.api import Mark, Result, SessionBusy, Span, UnknownSession
from holotron.engine.engine import Engine
from holotron.engine.log import Log
from holotron.engine.sequence import Sequence as Stream
from holotron.errors import InputError
from holotron.server.errors import ApiError

TAIL = 32  # tokens of a reply's end that a bridge may need to see

Kind = Literal["chat", "text"]


@dataclass(frozen=True)
class Turn:
    start: int  # length of the log before it
    prompt: int  # ... before the reply
    opens_reasoning: bool = False
    thinking: bool = False
    end: int | None = None  # ... after the reply; None: not replied to yet
    tail: tuple[int, ...] = ()  # the log's last tokens after the reply
    mark: Mark | None = None  # a snapshot before the reply


@dataclass
class Conversation:
    """Whoever changes it holds it: see `hold`."""

    id: str
    handle: AsyncSession
    kind: Kind | None = None  # decided by the first turn
    tools: list[dict[str, Any]] | None = None  # likewise: they stand at the beginning of the log
    turns: list[Turn] = field(default_factory=list)
    held: bool = False

    @property
    def length(self) -> int:
        if not self.turns:
            return 0
        last = self.turns[-1]
        return last.prompt if last.end is None else last.end

    @property
    def awaits_reply(self) -> bool:
        return bool(self.turns) and self.turns[-1].end is None

    @property
    def tail(self) -> tuple[int, ...]:
        return self.turns[-1].tail if self.turns else ()

    def hold(self) -> None:
        """Nobody queues: two writers of one conversation are a mistake of the client's."""
        if self.held:
            raise SessionBusy(f"session {self.id!r} is busy with another request")
        self.held = True

    def release(self) -> None:
        self.held = False

    @contextlib.asynccontextmanager
    async def holding(self) -> AsyncIterator[None]:
        self.hold()
        try:
            yield
        finally:
            self.release()

    def of_kind(self, kind: Kind) -> None:
        if self.kind not in (None, kind):
            raise InputError(f"session {self.id!r} holds a {self.kind} conversation; it cannot be continued as {kind}")

    # --------------------------------------------------------------------------------------- what happens to a turn

    async def add_prompt(self, content: Log, turn: Turn, kind: Kind, *, mark: bool, max_marks: int) -> None:
        """Begin a turn. If the engine refuses the content, nothing has changed."""
        engine = self.handle.session.engine

        def append(stream: Stream) -> None:
            engine.core.sessions.append(stream, content)
            if engine.config.prefetch and not mark:
                engine.core.prefetch(stream)

        await asyncio.wrap_future(self.handle.session.do(append))
        self.kind = kind
        self.turns.append(turn)
        if mark and max_marks:
            self.turns[-1] = replace(turn, mark=await self.handle.mark())
            await self._limit_marks(max_marks)

    def replied(self, result: Result) -> None:
        turn = self.turns[-1]
        self.turns[-1] = replace(turn, end=turn.prompt + len(result.tokens), tail=result.tokens[-TAIL:])

    async def rewind(self, to: int | Literal["prompt"]) -> None:
        if to == "prompt":
            if not self.turns:
                raise _no_such_turn(f"session {self.id!r} has no turns: there is no reply to drop")
            turn = self.turns[-1]
            if turn.end is not None:
                await self.handle.rewind(turn.mark or turn.prompt)
                self.turns[-1] = replace(turn, end=None, tail=())
        elif to > len(self.turns):
            raise _no_such_turn(f"session {self.id!r} has {len(self.turns)} turns; it cannot keep {to}")
        elif to < len(self.turns):
            await self.handle.rewind(self.turns[to].start)
            self._truncate(to)

    def _truncate(self, turns: int) -> None:
        del self.turns[turns:]
        if not self.turns:
            self.kind = self.tools = None

    async def take_back_prompt(self) -> None:
        await self.handle.rewind(self.turns[-1].start)
        self._truncate(len(self.turns) - 1)

    async def take_back_reply(self) -> None:
        turn = self.turns[-1]
        await self.handle.rewind(turn.mark or turn.prompt)

    async def _limit_marks(self, count: int) -> None:
        """Keep the newest snapshots. Rewinding to where an older one was still works, by computing again."""
        marked = [n for n, turn in enumerate(self.turns) if turn.mark is not None]
        for n in marked[: max(0, len(marked) - count)]:
            mark = self.turns[n].mark
            assert mark is not None
            await self.handle.unmark(mark)
            self.turns[n] = replace(self.turns[n], mark=None)

    async def compact(self, first: int, last: int, closing: Sequence[int], skip: int) -> None:
        """Forget the turns between the first and the last ones. Two replies may have ended differently (by their end
        token, or cut off), so what closes the one has to be put before what followed the other: `closing` are tokens
        to insert there, `skip` how many to leave out."""
        cut, rest = self.turns[first - 1], self.turns[len(self.turns) - last :]
        assert cut.end is not None
        keep: list[Span | Log] = [Span(0, cut.end), Span(rest[0].start + skip, self.length)]
        if closing:
            keep.insert(1, Log(closing))
        await asyncio.wrap_future(self.handle.session.compact_later(keep))
        move = cut.end + len(closing) - skip - rest[0].start
        moved = [
            replace(
                turn, start=turn.start + move, prompt=turn.prompt + move, end=turn.end and turn.end + move, mark=None
            )
            for turn in rest
        ]
        moved[0] = replace(moved[0], start=cut.end)
        self.turns = [*self.turns[:first], *moved]

    def describe(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "session",
            "turns": len(self.turns),
            "tokens": self.length,
            "awaits_reply": self.awaits_reply,
        }


def _no_such_turn(message: str) -> ApiError:
    return ApiError(409, message, code="no_such_turn", param="rewind")


class Conversations:
    """All of them, by the key they belong to and their name."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[tuple[str, str], Conversation] = {}

    def get(self, owner: str, id: str) -> Conversation:
        found = self._known.get((owner, id))
        if found is None or found.handle.closed:
            self._known.pop((owner, id), None)
            raise UnknownSession(f"there is no session {id!r}; it was never opened, was closed, or expired")
        return found

    def all(self, owner: str) -> list[Conversation]:
        self._forget_closed()
        return [conversation for (key, _), conversation in self._known.items() if key == owner]

    async def open(self, owner: str, id: str | None) -> Conversation:
        name = self._free_name(owner, id)
        # The engine has the last word on names, so two requests at once cannot take the same one.
        return self._add(owner, Conversation(name, await self._engine.aio.open(f"{owner}/{name}")))

    async def fork(self, owner: str, parent: Conversation, ids: Sequence[str | None]) -> list[Conversation]:
        if parent.held:
            raise SessionBusy(f"session {parent.id!r} is busy with another request; fork it when that is done")
        names = [self._free_name(owner, id) for id in ids]
        if len(set(names)) != len(names):
            raise InputError("two forks cannot have the same name")
        turns, kind, tools = list(parent.turns), parent.kind, parent.tools
        handles = await parent.handle.fork(len(names), ids=[f"{owner}/{name}" for name in names])
        return [
            self._add(owner, Conversation(name, handle, kind, tools, list(turns)))
            for name, handle in zip(names, handles, strict=True)
        ]

    async def close(self, owner: str, conversation: Conversation) -> None:
        if self._known.get((owner, conversation.id)) is conversation:
            del self._known[owner, conversation.id]
        with contextlib.suppress(UnknownSession):
            await conversation.handle.close()

    def _add(self, owner: str, conversation: Conversation) -> Conversation:
        self._forget_closed()
        self._known[owner, conversation.id] = conversation
        return conversation

    def _free_name(self, owner: str, id: str | None) -> str:
        if id is None:
            return f"session-{secrets.token_hex(8)}"
        if (owner, id) in self._known and not self._known[owner, id].handle.closed:
            raise ApiError(409, f"there is already a session {id!r}", code="session_exists", param="session_id")
        return id

    def _forget_closed(self) -> None:
        for key in [key for key, conversation in self._known.items() if conversation.handle.closed]:
            del self._known[key]
