"""Log-ins that are kept: what cannot be kept is said, and holds nothing up."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from types import SimpleNamespace

import pytest
from playwright.async_api import Error as PlaywrightError

from holotron.envs.profile import save_state, saved_state


def test_log_ins_that_cannot_be_saved_are_told_of_at_the_end_of_a_session(tmp_path, caplog: pytest.LogCaptureFixture):
    async def cookies():
        return {"cookies": []}

    async def gone():
        raise PlaywrightError("Target page, context or browser has been closed")

    (tmp_path / "file").write_text("")
    for state, place, why in (
        (cookies, tmp_path / "file" / "shop.json", "a file is in the way"),
        (gone, tmp_path / "shop.json", "has been closed"),
    ):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            asyncio.run(save_state(SimpleNamespace(storage_state=state), place))
        assert f"could not be saved to {place}" in caplog.text
        assert why in caplog.text
    asyncio.run(save_state(SimpleNamespace(storage_state=cookies), tmp_path / "shop.json"))
    assert json.loads(Path(saved_state(tmp_path / "shop.json")).read_text()) == {"cookies": []}
