"""What a record is: a row of one table and, where there is more to it, rows of a second one that belong to it.

    RUN = Tables(1, Table("episodes", episode_schema), Table("steps", step_schema, id="episode"), count="steps")

Schemas are functions, so that naming a table does not import pyarrow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holotron.errors import MissingDependency

if TYPE_CHECKING:
    import pyarrow

Row = dict[str, Any]
Record = tuple[Row, list[Row]]  # the head row and its parts


@dataclass(frozen=True, slots=True)
class Table:
    name: str  # of the folder with its shards
    schema: Callable[[], pyarrow.Schema]
    id: str = "id"  # the column with the record's id


@dataclass(frozen=True, slots=True)
class Tables:
    format: int  # version, in the manifest; readers refuse those they do not know
    head: Table
    parts: Table | None = None
    count: str = ""  # the column of `head` that says how many parts the record has

    @property
    def all(self) -> list[Table]:
        """Head first."""
        return [self.head] if self.parts is None else [self.head, self.parts]


def arrow() -> Any:
    """pyarrow with its Parquet module, imported when it is needed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingDependency.extra("pyarrow", "agent") from None
    return pyarrow
