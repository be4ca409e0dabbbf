"""What is missing, and what is there but broken, are told apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from holotron.errors import MissingDependency


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (None, "brokenpart is not installed"),
        ("raise ImportError('libpart.so.26: cannot open')", "cannot be loaded (libpart.so.26: cannot open)"),
    ],
)
def test_a_package_that_does_not_load_is_not_called_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str | None, said: str
) -> None:
    if source is not None:
        (tmp_path / "brokenpart.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingDependency) as caught:
        _load()
    assert said in str(caught.value) and "holotron[agent]" in str(caught.value)


def _load() -> None:
    try:
        __import__("brokenpart")
    except ImportError:
        raise MissingDependency.extra("brokenpart", "agent") from None
