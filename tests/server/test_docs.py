"""docs/server.md says what the code does: every setting and every error code, and none that do not exist."""

from __future__ import annotations

import re
from pathlib import Path

from holotron.server.layers import known_keys

ROOT = Path(__file__).parents[2]
MANUAL = (ROOT / "docs" / "server.md").read_text()
SOURCES = [path for room in ("server", "fleet") for path in (ROOT / "src" / "holotron" / room).rglob("*.py")]
CODE = {str(path): path.read_text() for path in SOURCES}


def test_every_setting_is_in_the_manual() -> None:
    table = MANUAL.partition("\n## Settings")[2].partition("\n## ")[0]
    rows = " ".join(line.split("|")[1] for line in table.splitlines() if line.startswith("| `"))
    named = set(re.findall(r"`(\w+\.\w+)`", rows))
    known = set(known_keys())
    assert named <= known and named >= {key for key in known if not key.startswith("engine.")}


def test_every_error_code_is_in_the_manual() -> None:
    table = MANUAL.partition("\n## Errors")[2].partition("\n## ")[0]
    rows = " ".join(line.split("|")[2] for line in table.splitlines() if re.match(r"\| \d", line))
    told = set(re.findall(r"`(\w+)`", rows))
    given: set[str] = set()
    for text in CODE.values():
        given |= set(re.findall(r'code(?:: str)? ?= ?"(\w+)"', text))
        given |= set(re.findall(r'unavailable\([^)]*?"(\w+)"[,)]', text))
        given |= set(re.findall(r'exceeded\([^)]*"(\w+)"\)', text))
        given |= set(re.findall(r'code="(\w+)" if ', text))
    assert told == given
