"""Environments of other frameworks, made by `make test-exchange`; without them the tests that need one are skipped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def _bin(name: str) -> Path:
    folder = os.environ.get("HOLOTRON_EXCHANGE")
    if not folder or not (Path(folder) / name / "bin" / "python").exists():
        pytest.skip(f"{name} has no environment here: make test-exchange makes one")
    return Path(folder).resolve() / name / "bin"


@pytest.fixture(scope="session")
def verifiers_bin() -> Path:
    return _bin("verifiers")


@pytest.fixture(scope="session")
def harbor_bin() -> Path:
    return _bin("harbor")
