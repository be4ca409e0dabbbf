"""What tasks on somebody else's application are made of.

    tasks = TaskList("trac")

    @tasks.add("close", "short")
    def close(world: World) -> Assignment:
        ticket = world.row("ticket", status="new")
        return Assignment(f"Close ticket #{ticket['id']}.", (world.changed("ticket", ticket["id"], status="closed"),))

The rows are those at the start; the dice are thrown by the seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holotron.errors import ConfigError
from holotron.registry import did_you_mean
from holotron.sites.checks import Changed, Removed, Wanted
from holotron.sites.state import Row
from holotron.sites.tasks import Length


class Numbers:
    """Checks know rows by number: rows that are known by a number keep it, the others, known by a name, get one."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], int] = {}

    def of(self, table: str, key: str) -> int:
        return int(key) if key.isdigit() else self._known.setdefault((table, key), len(self._known) + 1)


@dataclass(frozen=True, slots=True)
class World:
    """What a task has to work with."""

    rows: Mapping[str, Mapping[str, Row]]
    dice: random.Random
    numbers: Numbers = field(default_factory=Numbers)

    def those(self, table: str, **wanted: Any) -> list[Row]:
        """The rows with these values, in order."""
        rows = sorted(self.rows[table].items(), key=lambda item: (len(item[0]), item[0]))
        return [row for _, row in rows if all(row[name] == value for name, value in wanted.items())]

    def row(self, table: str, **wanted: Any) -> Row:
        """One of them."""
        return self.dice.choice(self.those(table, **wanted))

    def one(self, table: str) -> Row:
        return self.rows[table][self.dice.choice(sorted(self.rows[table]))]

    def other(self, values: Sequence[str], but: str) -> str:
        return self.dice.choice([value for value in sorted(values) if value != but])

    def changed(self, table: str, key: Any, **values: Any) -> Changed:
        return Changed(table, self.numbers.of(table, str(key)), **values)

    def removed(self, table: str, key: Any) -> Removed:
        return Removed(table, self.numbers.of(table, str(key)))


@dataclass(frozen=True, slots=True)
class Assignment:
    goal: str
    wanted: tuple[Wanted, ...]
    start: str = "/"


Make = Callable[[World], Assignment]


@dataclass(frozen=True, slots=True)
class TransferTask:
    name: str
    length: Length
    make: Make


class TaskList:
    def __init__(self, application: str) -> None:
        self._application = application
        self._tasks: dict[str, TransferTask] = {}

    def add(self, name: str, length: Length) -> Callable[[Make], Make]:
        def keep(make: Make) -> Make:
            assert name not in self._tasks, name
            self._tasks[name] = TransferTask(name, length, make)
            return make

        return keep

    def __iter__(self) -> Iterator[TransferTask]:
        return iter(self._tasks.values())

    @property
    def names(self) -> list[str]:
        return list(self._tasks)

    def find(self, name: str) -> TransferTask:
        if name not in self._tasks:
            hint = did_you_mean(name, self.names, shown=5)
            raise ConfigError(f"there is no {self._application} task {name!r}: {hint}")
        return self._tasks[name]
