"""The command line, called in this process: as fast as a function, and as true as `holotron` in a shell."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass

from holotron.cli.main import main


@dataclass(frozen=True)
class Called:
    status: int
    out: str
    err: str


def call(*words: object) -> Called:
    out, err = io.StringIO(), io.StringIO()
    status = -1
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([str(word) for word in words])
        except SystemExit as end:
            status = int(end.code or 0)
    return Called(status, out.getvalue(), err.getvalue())


def refused(*words: object) -> str:
    """What a wrong command line is told: one line, no traceback, a status that is not 0."""
    called = call(*words)
    shown = f"holotron {' '.join(map(str, words))}\n{called.out}{called.err}"
    assert called.status not in (0, -1), shown
    assert "Traceback" not in called.err and "bug" not in called.err, shown
    (line,) = called.err.strip().splitlines() or [shown]
    assert line.startswith("holotron: ") and len(line) > 20, shown
    return line
