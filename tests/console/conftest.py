from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.console.watching import Viewer


@pytest.fixture(scope="session")
def viewer() -> Iterator[Viewer]:
    one = Viewer()
    yield one
    one.close()
