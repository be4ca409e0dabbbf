"""The state of one episode: a SQLite database in memory, and what has changed in it since the start.

    state = State(SCHEMA)
    state.run("insert into cart (variant, quantity) values (?, ?)", 7, 2)
    state.one("select * from cart where variant = ?", 7)["quantity"]
    state.mark()                         # the start of the episode
    ...
    for change in state.changes(): ...   # Change("cart", 3, before=None, after={...})

Every table has an integer primary key `id`. The server's thread writes while the environment's reads, so each call
holds the lock; `with state.lock:` makes several calls one.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """One row that is not as it was. Added: no `before`. Removed: no `after`."""

    table: str
    id: int
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None

    @property
    def columns(self) -> frozenset[str]:
        """What is different in a row that was there before and still is."""
        if self.before is None or self.after is None:
            return frozenset()
        return frozenset(name for name, value in self.after.items() if self.before[name] != value)

    def __str__(self) -> str:
        if self.before is None:
            return f"a row was added to {self.table}"
        if self.after is None:
            return f"{self.table} {self.id} was removed"
        return f"{self.table} {self.id} was changed ({', '.join(sorted(self.columns))})"


class State:
    def __init__(self, schema: str, *, ignored: frozenset[str] = frozenset()) -> None:
        """`ignored`: tables whose rows come and go with ordinary browsing."""
        self.lock = threading.RLock()
        self._database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self._database.row_factory = lambda cursor, row: dict(zip((c[0] for c in cursor.description), row, strict=True))
        self._database.executescript(f"pragma synchronous=off; pragma journal_mode=off; {schema}")
        names = self.all("select name from sqlite_schema where type = 'table' and name not like 'sqlite_%'")
        self._tables = sorted({row["name"] for row in names} - ignored)
        self._start: dict[str, dict[int, Row]] = {}

    def run(self, sql: str, *values: Any) -> int:
        """Execute one statement; the id of the row it inserted, if it did."""
        with self.lock:
            return self._database.execute(sql, values).lastrowid or 0

    def add(self, table: str, **values: Any) -> int:
        """Insert one row and return its id."""
        marks = ", ".join("?" * len(values))
        return self.run(f"insert into {table} ({', '.join(values)}) values ({marks})", *values.values())

    def all(self, sql: str, *values: Any) -> list[Row]:
        with self.lock:
            return self._database.execute(sql, values).fetchall()

    def one(self, sql: str, *values: Any) -> Row | None:
        with self.lock:
            row: Row | None = self._database.execute(sql, values).fetchone()
            return row

    def get(self, sql: str, *values: Any) -> Row:
        """The row that must be there."""
        row = self.one(sql, *values)
        if row is None:
            raise LookupError(f"no row for {sql} with {values}")
        return row

    def value(self, sql: str, *values: Any) -> Any:
        """The only value of the only row."""
        return next(iter(self.get(sql, *values).values()))

    @property
    def writes(self) -> int:
        """Rows written so far: equal numbers mean that nothing can have changed in between."""
        with self.lock:
            return self._database.total_changes

    def mark(self) -> None:
        """Remember everything as it is now: the start that `changes` compares with."""
        self._start = self.dump()

    def dump(self) -> dict[str, dict[int, Row]]:
        with self.lock:
            return {table: {row["id"]: row for row in self.all(f"select * from {table}")} for table in self._tables}

    def changes(self) -> list[Change]:
        found = []
        for table, now in self.dump().items():
            then = self._start[table]
            for id in sorted(then.keys() | now.keys()):
                if then.get(id) != now.get(id):
                    found.append(Change(table, id, then.get(id), now.get(id)))
        return found

    def close(self) -> None:
        with self.lock:
            self._database.close()
