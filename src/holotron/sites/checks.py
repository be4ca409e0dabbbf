"""What must be true at the end, said as the changes that are wanted. Any other change is a side effect.

    wanted = (Added("cart", variant=7, quantity=2), Changed("orders", 12, status="cancelled"), Answered("42"))
    verdict = judge(wanted, state.changes(), answer=None)
    verdict.success, verdict.reason, verdict.partial

Success needs every wanted change, exactly, and no other. `partial` is the share of wanted things that are there,
whatever else happened; it is never the reward.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holotron.sites.answers import Kind, matches
from holotron.sites.state import Change


class Added:
    """A new row with these values. Columns that are not named may hold anything."""

    def __init__(self, table: str, /, **values: Any) -> None:
        self.table, self.values = table, values

    def find(self, changes: Sequence[Change]) -> Change | None:
        rows = (c for c in changes if c.table == self.table and c.before is None and c.after is not None)
        return next((c for c in rows if _holds(c.after, self.values)), None)

    def __str__(self) -> str:
        return f"a new row in {self.table} with {_written(self.values)}"


class Changed:
    """The row of this id has these new values, and is otherwise as it was."""

    def __init__(self, table: str, id: int, /, **values: Any) -> None:
        self.table, self.id, self.values = table, id, values

    def find(self, changes: Sequence[Change]) -> Change | None:
        rows = (c for c in changes if c.table == self.table and c.id == self.id and c.after and c.before)
        return next((c for c in rows if _holds(c.after, self.values) and c.columns <= set(self.values)), None)

    def __str__(self) -> str:
        return f"{self.table} {self.id} with {_written(self.values)} and otherwise as it was"


class Removed:
    """The row of this id is gone."""

    def __init__(self, table: str, id: int, /) -> None:
        self.table, self.id = table, id

    def find(self, changes: Sequence[Change]) -> Change | None:
        return next((c for c in changes if c.table == self.table and c.id == self.id and c.after is None), None)

    def __str__(self) -> str:
        return f"{self.table} {self.id} removed"


@dataclass(frozen=True, slots=True)
class Answered:
    """The agent's answer says this; `others` are values that it must not name as well."""

    value: str
    kind: Kind = "text"
    others: tuple[str, ...] = ()


IMPOSSIBLE = Answered("impossible", "impossible")

Wanted = Added | Changed | Removed | Answered


@dataclass(frozen=True, slots=True)
class Verdict:
    """`final`: nothing the agent could still do would change it, so the episode can end here."""

    success: bool
    reason: str
    partial: float
    final: bool = False
    side_effects: tuple[Change, ...] = ()


def judge(
    wanted: Sequence[Wanted],
    changes: Sequence[Change],
    answer: str | None,
    *,
    follows: Callable[[Change], bool] = lambda change: False,
    irrevocable: frozenset[str] = frozenset(),
) -> Verdict:
    """`follows`: changes that come with the wanted ones and are nobody's choice, such as the stock after an order.
    `irrevocable`: tables to which rows are added for good, such as orders; a wrong one decides the episode."""
    left = [change for change in changes if not follows(change)]
    missing: list[str] = []
    unmet: list[Added | Changed | Removed] = []
    for want in wanted:
        if isinstance(want, Answered):
            if answer is None:
                missing.append("there is no answer yet")
            elif not matches(answer, want.value, want.kind, want.others):
                missing.append(f"the answer {answer[:80]!r} is not {want.value!r}")
            continue
        found = want.find(left)
        if found is None:
            unmet.append(want)
        else:
            left.remove(found)
    missing = [f"{_nearest(want, left)}wanted: {want}" for want in unmet] + missing
    partial = (len(wanted) - len(missing)) / len(wanted)
    lost = any(change.table in irrevocable and change.before is None for change in left)
    if missing:
        return Verdict(False, missing[0], partial, lost or answer is not None, tuple(left))
    if left:
        return Verdict(False, f"side effect: {left[0]}", partial, lost or answer is not None, tuple(left))
    return Verdict(True, "done", 1.0, True)


def _holds(row: Mapping[str, Any] | None, values: Mapping[str, Any]) -> bool:
    return row is not None and all(row[name] == value for name, value in values.items())


def _nearest(want: Added | Changed | Removed, changes: Sequence[Change]) -> str:
    """How a change of the same table differs from the wanted one: the reason a near miss fails."""
    for change in changes:
        if change.table != want.table or change.after is None or isinstance(want, Removed):
            continue
        if isinstance(want, Changed) and change.id != want.id:
            return f"{want.table} {change.id} was changed, not {want.id}; "
        wrong = {n: change.after[n] for n, v in want.values.items() if change.after[n] != v}
        if wrong:
            return f"{want.table} has {_written(wrong)}; "
    return ""


def _written(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value!r}" for name, value in values.items())
