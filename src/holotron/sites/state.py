"""The state of one episode: a SQLite database in memory, and what has changed in it since the start.

    state = State(SCHEMA)
    state.run("insert into cart (variant, quantity) values (?, ?)", 7, 2)
    state.one("select * from cart where variant = ?", 7)["quantity"]
    state.mark()                         # the start of the episode
    ...
    for change in state.changes(): ...   # Change("cart", 3, before=None, after={...})

Every table begins with an integer primary key `id`. The server's thread writes while the environment's reads, so each
call holds the lock; `with state.lock:` makes several calls one.
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
    def __init__(self, schema: str) -> None:
        self.lock = threading.RLock()
        self._database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        # SQLite's own knows no letters but A to Z, so a search would never find Óscar.
        self._database.create_function("lower", 1, _lower, deterministic=True)
        self._database.executescript(f"pragma synchronous=off; pragma journal_mode=off; {schema}")
        names = self.all("select name from sqlite_schema where type = 'table' and name not like 'sqlite_%'")
        self._tables = sorted(row["name"] for row in names)
        self._start: dict[str, dict[int, tuple[Any, ...]]] = {}

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
            found = self._database.execute(sql, values)
            names = [column[0] for column in found.description or ()]
            return [dict(zip(names, row, strict=True)) for row in found]

    def one(self, sql: str, *values: Any) -> Row | None:
        """The first row, if there is any."""
        with self.lock:
            found = self._database.execute(sql, values)
            row = found.fetchone()
            return None if row is None else dict(zip((c[0] for c in found.description), row, strict=True))

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
        self._start = self._rows()

    def dump(self) -> dict[str, list[Row]]:
        """Everything that is there."""
        return {table: self.all(f"select * from {table} order by id") for table in self._tables}

    def changes(self) -> list[Change]:
        found = []
        with self.lock:
            for table, now in self._rows().items():
                then = self._start[table]
                if now == then:
                    continue
                names = [row["name"] for row in self.all(f"select name from pragma_table_info('{table}')")]
                for id in sorted(id for id in then.keys() | now.keys() if then.get(id) != now.get(id)):
                    before, after = (
                        dict(zip(names, rows[id], strict=True)) if id in rows else None for rows in (then, now)
                    )
                    found.append(Change(table, id, before, after))
        return found

    def _rows(self) -> dict[str, dict[int, tuple[Any, ...]]]:
        """Every row of every table by its id, which comes first."""
        with self.lock:
            return {
                table: {row[0]: row for row in self._database.execute(f"select * from {table}")}
                for table in self._tables
            }

    def close(self) -> None:
        with self.lock:
            self._database.close()


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value
