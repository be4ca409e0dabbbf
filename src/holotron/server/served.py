"""Sessions as clients of the server know them: turns over the engine's token log.

The engine's session is a log of tokens. A served session adds what HTTP clients need: a name (known only to the key
that opened it), the places where turns begin and end, and turns that happen completely or not at all (see `turns`).

Nothing is ever rendered twice: what a new turn adds to the log is up to its `Transcript`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from holotron.engine import (
    AsyncSession,
    Engine,
    ExportedSession,
    Part,
    Result,
    SessionBusy,
    SessionInfo,
    Span,
    UnknownSession,
)
from holotron.errors import InputError
from holotron.model.processor import Prompt, Transcript
from holotron.server.errors import ApiError
from holotron.server.pictures import SentPicture
from holotron.server.quotas import Quotas
from holotron.server.routed import current, new_hex
from holotron.server.settings import QuotaSettings
from holotron.server.turn_records import LastReply, ServedTurn, turns_of

Kind = Literal["chat", "text"]


@dataclass
class ServedSession:
    """Whoever changes it holds it: see `hold`."""

    id: str
    engine_session: AsyncSession
    max_marks: int  # snapshots it may hold
    kind: Kind | None = None  # decided by the first turn
    tools: list[dict[str, Any]] | None = None  # likewise: they stand at the beginning of the log
    turns: list[ServedTurn] = field(default_factory=list)
    begins: Transcript = field(default_factory=Transcript)  # before the first turn
    held: bool = False
    leaving: bool = False  # held because it is on its way to another server
    cached_tokens: int = 0  # of all its prompts: remembered, computed
    computed_tokens: int = 0
    generated_tokens: int = 0
    refused: int = 0  # requests that found it busy
    last: LastReply | None = None  # that a router asked for

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
    def said(self) -> Transcript:
        return self.turns[-1].said if self.turns else self.begins

    def hold(self) -> None:
        """Nobody queues: two writers of one session are a mistake of the client's."""
        self.check_free("is busy with another request")
        self.held = True

    def check_here(self) -> None:
        if self.leaving:
            message = f"session {self.id!r} is on its way to another server"
            raise ApiError(409, message, code="session_moving", param="session_id")

    def check_free(self, busy: str) -> None:
        self.check_here()
        if self.held:
            self.refused += 1
            raise SessionBusy(f"session {self.id!r} {busy}")

    def release(self) -> None:
        self.held = self.leaving = False

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

    async def add_prompt(
        self, prompt: Prompt | list[int], kind: Kind, *, thinking: bool = False, mark: bool = False
    ) -> None:
        """Begin a turn. If the engine refuses the prompt, nothing has changed."""
        start, said = self.length, self.said
        added = await self.engine_session.append(prompt, confirm=True)
        turn = ServedTurn(start, start + added)
        if isinstance(prompt, Prompt):
            turn = replace(turn, said=said.asked(prompt), opens_reasoning=prompt.opens_reasoning, thinking=thinking)
        self.kind = kind
        self.turns.append(turn)
        if mark and self.max_marks:
            self.turns[-1] = replace(turn, mark=await self.engine_session.mark())
            await self._limit_marks()

    def replied(self, result: Result) -> None:
        self.cached_tokens += result.cached_tokens
        self.computed_tokens += result.computed_tokens
        self.generated_tokens += len(result.tokens)
        turn = self.turns[-1]
        end = turn.prompt + len(result.tokens)
        self.turns[-1] = replace(turn, end=end, said=turn.said.replied(result.tokens))

    async def rewind(self, to: int | Literal["prompt"]) -> None:
        if to == "prompt":
            if not self.turns:
                raise _no_such_turn(f"session {self.id!r} has no turns: there is no reply to drop")
            turn = self.turns[-1]
            if turn.end is not None:
                await self.engine_session.rewind(turn.mark or turn.prompt)
                self.turns[-1] = replace(turn, end=None)
        elif to > len(self.turns):
            raise _no_such_turn(f"session {self.id!r} has {len(self.turns)} turns; it cannot keep {to}")
        elif to < len(self.turns):
            await self.engine_session.rewind(self.turns[to].start)
            self._truncate(to)
            await self.look_again()

    async def look_again(self) -> None:
        """Which screen the next screenshot is told as changes to: what the log shows says it."""
        if self.turns and self.begins.deltas is not None:
            screen = await self.engine_session.screen()
            said = replace(self.turns[-1].said, deltas=replace(self.begins.deltas, screen=screen))
            self.turns[-1] = replace(self.turns[-1], said=said)

    def _truncate(self, turns: int) -> None:
        del self.turns[turns:]
        if not self.turns:
            self.kind = self.tools = None

    async def take_back_prompt(self) -> None:
        await self.engine_session.rewind(self.turns[-1].start)
        self._truncate(len(self.turns) - 1)

    async def take_back_reply(self) -> None:
        turn = self.turns[-1]
        await self.engine_session.rewind(turn.mark or turn.prompt)

    def answered(self, turns: int, made: bool) -> None:
        """A request has changed it; `turns` and `made` as in `LastReply`."""
        routed = current.get()
        self.last = LastReply(routed.reply, turns, made) if routed is not None else None

    async def _limit_marks(self) -> None:
        """Keep the newest snapshots. Rewinding to where an older one was still works, by computing again."""
        marked = [n for n, turn in enumerate(self.turns) if turn.mark is not None]
        for n in marked[: max(0, len(marked) - self.max_marks)]:
            mark = self.turns[n].mark
            assert mark is not None
            await self.engine_session.unmark(mark)
            self.turns[n] = replace(self.turns[n], mark=None)

    async def compact(self, first: int, last: int, closing: Sequence[int], skip: int) -> None:
        """Forget the turns between the first and the last ones. `closing` are tokens to insert at the seam, `skip` how
        many to leave out there (see `continuation.seam`)."""
        cut, rest = self.turns[first - 1], self.turns[len(self.turns) - last :]
        assert cut.end is not None
        keep: list[Span | Part] = [Span(0, cut.end), Span(rest[0].start + skip, self.length)]
        if closing:
            keep.insert(1, list(closing))
        await self.engine_session.compact(keep)
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


def described(served: ServedSession, owner: str, *, marks: bool = True) -> dict[str, Any]:
    """A served session as plain data, but for its log. Without `marks` its snapshots are left out."""
    return {
        "owner": owner,
        "id": served.id,
        "scope": served.engine_session.scope.hex(),
        "kind": served.kind,
        "tools": served.tools,
        "last": [served.last.reply, served.last.turns, served.last.made] if served.last is not None else None,
        "turns": [
            {
                "start": turn.start,
                "prompt": turn.prompt,
                "end": turn.end,
                "opens_reasoning": turn.opens_reasoning,
                "thinking": turn.thinking,
                "mark": [turn.mark.id, turn.mark.position] if marks and turn.mark is not None else None,
                "begun": turn.said.begun,
                "tail": turn.said.tail,
            }
            for turn in served.turns
        ],
    }


class Keeper(Protocol):
    """Keeps sessions for the case that this process dies; see `journal`."""

    async def save(self, owner: str, served: ServedSession, pictures: Sequence[SentPicture] = ()) -> None: ...

    async def drop(self, owner: str, id: str) -> None: ...


def _no_such_turn(message: str) -> ApiError:
    return ApiError(409, message, code="no_such_turn", param="rewind")


class ServedSessions:
    """All of them, by the key they belong to and their name."""

    def __init__(self, engine: Engine, max_marks: int, begins: Transcript = Transcript()) -> None:
        """`begins`: how every session's conversation begins."""
        self._engine = engine
        self._max_marks = max_marks
        self.begins = begins
        self._known: dict[tuple[str, str], ServedSession] = {}
        self._opening: Counter[str] = Counter()  # sessions that the engine is just making, by owner
        self.quotas = Quotas(QuotaSettings())
        self.keeper: Keeper | None = None

    async def saved(self, owner: str, served: ServedSession, pictures: Sequence[SentPicture] = ()) -> None:
        """It has changed, and the client is about to hear of it."""
        if self.keeper is not None and not served.engine_session.closed:
            try:
                await self.keeper.save(owner, served, pictures)
            except UnknownSession:
                await self.close(owner, served, moved=True)
                raise

    def get(self, owner: str, id: str) -> ServedSession:
        found = self._known.get((owner, id))
        if found is None or found.engine_session.closed:
            self._known.pop((owner, id), None)
            raise UnknownSession(f"there is no session {id!r}; it was never opened, was closed, or expired")
        return found

    def all(self, owner: str) -> list[ServedSession]:
        self._forget_closed()
        return [served for (key, _), served in self._known.items() if key == owner]

    def everybodys(self) -> list[tuple[str, ServedSession]]:
        self._forget_closed()
        return [(owner, served) for (owner, _), served in self._known.items()]

    async def check_memory(self, owner: str) -> None:
        """Refuse more for an owner whose sessions hold too much already."""
        if self.quotas.memory_bytes is None:
            return
        asked = [served.engine_session.info() for served in self.all(owner)]
        infos = await asyncio.gather(*asked, return_exceptions=True)  # one may be closed meanwhile
        self.quotas.check_memory(sum(info.bytes for info in infos if isinstance(info, SessionInfo)))

    @contextlib.contextmanager
    def _room(self, owner: str, more: int) -> Iterator[None]:
        """Around making sessions: the owner may have so many more."""
        now = len(self.all(owner)) + self._opening[owner]
        self.quotas.check_sessions(owner, now, more, self._engine.config.max_sessions)
        self._opening[owner] += more
        try:
            yield
        finally:
            self._opening[owner] -= more

    async def open(self, owner: str, id: str | None, scope: bytes = b"") -> ServedSession:
        name = self._free_name(owner, id)
        with self._room(owner, 1):
            # The engine has the last word on names, so two requests at once cannot take the same one.
            session = await self._engine.aio.open(f"{owner}/{name}", scope=scope)
        return self._add(owner, ServedSession(name, session, self._max_marks, begins=self.begins))

    async def adopt(
        self,
        owner: str,
        id: str,
        exported: ExportedSession,
        told: dict[str, Any],
    ) -> ServedSession:
        """A session that was served elsewhere until now; `told` is what it was `described` as there."""
        name, scope = self._free_name(owner, id), bytes.fromhex(told["scope"])
        with self._room(owner, 1):
            session = await self._engine.aio.restore(exported, f"{owner}/{name}", scope=scope)
        turns = turns_of(told, self.begins)
        served = ServedSession(name, session, self._max_marks, told["kind"], told["tools"], turns, begins=self.begins)
        served.last = LastReply(*told["last"]) if told.get("last") is not None else None
        await served.look_again()
        return self._add(owner, served)

    async def undo(self, owner: str, id: str, reply: str) -> None:
        """Its answer was lost, and it is about to be asked for again: the session is as if it had not been. Without
        such a session, or if its last reply was another one, there is nothing to undo."""
        served = self._known.get((owner, id))
        if served is None or served.engine_session.closed or served.last is None or served.last.reply != reply:
            return
        if served.last.made:
            await self.close(owner, served)
        elif len(served.turns) > served.last.turns:
            await served.take_back_prompt()
        else:
            await served.rewind("prompt")
        served.last = None

    async def fork(self, owner: str, parent: ServedSession, ids: Sequence[str | None]) -> list[ServedSession]:
        parent.check_free("is busy with another request; fork it when that is done")
        names = [self._free_name(owner, id) for id in ids]
        if len(set(names)) != len(names):
            raise InputError("two forks cannot have the same name")
        turns, kind, tools = list(parent.turns), parent.kind, parent.tools
        with self._room(owner, len(names)):
            forks = await parent.engine_session.fork(len(names), ids=[f"{owner}/{name}" for name in names])
        return [
            self._add(owner, ServedSession(name, fork, self._max_marks, kind, tools, list(turns), self.begins))
            for name, fork in zip(names, forks, strict=True)
        ]

    async def close(self, owner: str, served: ServedSession, *, moved: bool = False) -> None:
        """`moved`: it goes on elsewhere."""
        if self._known.get((owner, served.id)) is served:
            del self._known[owner, served.id]
            if self.keeper is not None and not moved:
                await self.keeper.drop(owner, served.id)
        with contextlib.suppress(UnknownSession):
            await served.engine_session.close()

    def _add(self, owner: str, served: ServedSession) -> ServedSession:
        self._forget_closed()
        self._known[owner, served.id] = served
        return served

    def _free_name(self, owner: str, id: str | None) -> str:
        if id is None:
            return f"session-{new_hex(8)}"
        if (owner, id) in self._known and not self._known[owner, id].engine_session.closed:
            raise ApiError(409, f"there is already a session {id!r}", code="session_exists", param="session_id")
        return id

    def _forget_closed(self) -> None:
        for key in [key for key, served in self._known.items() if served.engine_session.closed]:
            del self._known[key]
