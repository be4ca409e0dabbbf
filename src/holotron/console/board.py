"""What viewers follow: documents with version numbers. A session is one (its summary), each of its steps another (a
card).

    board.put("web/task/0", state="thinking")
    board.put_card("web/task/0", 3, card)
    board.changes(since=1041, session="web/task/0")       # whatever is newer, each document once, as it is now

There is no queue between agents and viewers. A viewer says up to which version it knows everything, and gets the
documents that have changed since: the latest of each, however often it changed. So viewers that are slow, asleep or
reloaded cost nothing but their next answer, and a position to resume at is one number. Documents are written as JSON
once, for all viewers.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Document = Mapping[str, Any]


@dataclass(slots=True)
class _Kept:
    data: dict[str, Any]
    version: int
    written: str = ""

    def json(self) -> str:
        if not self.written:
            self.written = json.dumps(self.data, ensure_ascii=False, separators=(",", ":"))
        return self.written


@dataclass(slots=True)
class _Session:
    summary: _Kept
    cards: dict[int, _Kept] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Changes:
    version: int
    sessions: list[str]  # JSON texts
    cards: list[str]
    run: str | None  # about the run as a whole, if that has changed

    def __bool__(self) -> bool:
        return bool(self.sessions or self.cards or self.run)

    def json(self) -> str:
        run = "" if self.run is None else f',"run":{self.run}'
        return f'{{"sessions":[{",".join(self.sessions)}],"cards":[{",".join(self.cards)}]{run}}}'


class Board:
    """May be written and read from any thread."""

    def __init__(self) -> None:
        self.epoch = secrets.token_hex(4)  # version numbers mean something within one life of the board only
        self.version = 0
        self._lock = threading.Lock()
        self._run = _Kept({}, 0)
        self._sessions: dict[str, _Session] = {}

    def put_run(self, **entries: Any) -> None:
        with self._lock:
            self._change(self._run, entries)

    def put(self, id: str, **entries: Any) -> None:
        """Change some entries of a session's summary, or begin one."""
        with self._lock:
            session = self._sessions.get(id)
            if session is None:
                session = self._sessions[id] = _Session(_Kept({"id": id}, 0))
            self._change(session.summary, entries)

    def put_card(self, id: str, index: int, card: Document) -> None:
        """A step of a session, as it stands now."""
        with self._lock:
            self.version += 1
            data = {"session": id, "index": index, **card}
            self._sessions[id].cards[index] = _Kept(data, self.version)

    def drop_cards(self, id: str) -> None:
        """Forget the steps of a session; they are on record, or a new attempt begins."""
        with self._lock:
            self._sessions[id].cards.clear()

    def _change(self, kept: _Kept, entries: Mapping[str, Any]) -> None:
        if any(kept.data.get(key, _Kept) != value for key, value in entries.items()):
            self.version += 1
            kept.data.update(entries)
            kept.version, kept.written = self.version, ""

    # -------------------------------------------------------------------------------------------------------- reading

    def __contains__(self, id: str) -> bool:
        return id in self._sessions

    def summary(self, id: str) -> dict[str, Any]:
        with self._lock:
            return dict(self._sessions[id].summary.data)

    def column(self, *entries: str) -> list[tuple[Any, ...]]:
        """Some entries of every summary, in the order of its sessions."""
        with self._lock:
            return [tuple(map(session.summary.data.get, entries)) for session in self._sessions.values()]

    def cards(self, id: str) -> list[dict[str, Any]]:
        with self._lock:
            return [kept.data for _, kept in sorted(self._sessions[id].cards.items())]

    def changes(self, since: int = 0, session: str | None = None) -> Changes:
        """Everything newer than version `since`: of summaries all, of cards those of one session."""
        with self._lock:
            chosen = self._sessions.get(session) if session is not None else None
            cards = [] if chosen is None else [kept for _, kept in sorted(chosen.cards.items()) if kept.version > since]
            return Changes(
                self.version,
                [one.summary.json() for one in self._sessions.values() if one.summary.version > since],
                [kept.json() for kept in cards],
                self._run.json() if self._run.version > since else None,
            )
