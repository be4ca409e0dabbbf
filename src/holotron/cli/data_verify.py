"""`holotron data verify`: is what is stored still whole, and if not, what is left of it?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from holotron.storage.tables import Tables
    from holotron.storage.verify import Check, Verification

SHOWN = 20  # findings


def verify(
    folder: Annotated[Path, typer.Argument(help="A run directory, a folder of labels, of verdicts, or of pages.")],
    quarantine: Annotated[
        bool, typer.Option("--quarantine", help="Move what is damaged to FOLDER/quarantine and use the rest.")
    ] = False,
) -> None:
    """Read everything that is stored in a folder and say what is damaged or missing.

    With --quarantine, what is damaged is moved aside and nothing is deleted; the command that made the folder then
    makes those records again. The exit code is 0 when all is well or was put right, 4 when there is damage.

      holotron data verify runs/eval
      holotron data verify runs/eval --quarantine
    """
    from holotron.errors import InputError
    from holotron.storage import verify as storage

    tables, check = _kind(folder)
    report = storage.verify(folder, tables, check)
    _show(report)
    if not report.findings:
        print(f"{folder}: all of {report.records} {tables.head.name} are sound")
    elif not quarantine:
        raise InputError(
            f"{folder} is damaged; {report.records} {tables.head.name} are sound. "
            "With --quarantine what is damaged is moved aside and the rest can be used and completed."
        )
    else:
        report, aside = storage.quarantine(folder, tables, check)
        print(f"{folder}: {report.records} {tables.head.name} are sound and stay; the rest is in {aside}")
        for finding in report.findings:
            if not finding.movable:
                raise InputError(f"{folder / finding.file} {finding.problem}; restore it from a copy")


def _kind(folder: Path) -> tuple[Tables, Check]:
    """What is stored in a folder, by the tables in it."""
    from holotron.annotate.store import TABLES as LABELS
    from holotron.data.shards import TABLES as PAGES
    from holotron.data.shards import image_check
    from holotron.errors import InputError
    from holotron.evals.judging.store import TABLES as VERDICTS
    from holotron.rollouts.store import picture_check
    from holotron.rollouts.tables import TABLES as EPISODES
    from holotron.storage.files import is_folder

    kinds: tuple[tuple[Tables, Check], ...] = (
        (EPISODES, picture_check(folder)),
        (LABELS, lambda record: ()),
        (VERDICTS, lambda record: ()),
        (PAGES, image_check),
    )
    for tables, check in kinds:
        if is_folder(folder / tables.head.name):
            return tables, check
    names = ", ".join(f"{tables.head.name}/" for tables, _ in kinds)
    raise InputError(f"{folder} holds nothing to verify: there is none of {names} in it")


def _show(report: Verification) -> None:
    for finding in report.findings[:SHOWN]:
        print(f"{finding.file}: {finding.problem}")
    if len(report.findings) > SHOWN:
        print(f"... and {len(report.findings) - SHOWN} more")
