"""A browser is kept apart from the machine: tried on real processes and from real pages."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from pathlib import Path

import pytest

from holotron.envs import downloads
from holotron.envs.chromium import FLAGS, find_chromium
from holotron.envs.isolation import Shelter
from holotron.envs.isolation_check import check_isolation
from holotron.envs.network import NetworkPolicy
from holotron.envs.options import SessionOptions
from holotron.envs.pool import BrowserPool
from holotron.envs.unprivileged import joined
from holotron.envs.web import WebEnvironment
from holotron.types import Click, Task, Wait
from tests.envs.conftest import Run
from tests.envs.site import Site

pytestmark = pytest.mark.browser
root = pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can become somebody else")
EVERYWHERE = {"environment", "local files", "devices", "network", "downloads", "WebRTC"}


def test_the_walls_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "hunter2")
    walls = {wall.name: wall for wall in asyncio.run(check_isolation())}
    assert {*walls} == {*EVERYWHERE, "sandbox", "user"}
    assert all(walls[name].stands for name in EVERYWHERE), walls
    for name in ("sandbox", "user"):  # not every machine allows them; then it says why
        assert walls[name].stands or ": " in walls[name].detail


def test_a_missing_wall_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    bare = tuple(flag for flag in FLAGS if "webrtc" not in flag)
    monkeypatch.setattr("holotron.envs.pool.FLAGS", bare)
    monkeypatch.setattr("holotron.envs.isolation._TOLD", ("PATH", "SHOP_PASSWORD"))
    monkeypatch.setattr("holotron.envs.isolation_check.told", lambda: {"PATH", "HOME", "TMPDIR"})
    monkeypatch.setattr("holotron.envs.isolation._no_user", lambda *_: "for this test")
    monkeypatch.setenv("SHOP_PASSWORD", "hunter2")
    walls = {wall.name: wall for wall in asyncio.run(check_isolation())}
    assert not walls["WebRTC"].stands
    assert not walls["environment"].stands and "SHOP_PASSWORD" in walls["environment"].detail
    if os.geteuid() == 0:
        assert not walls["user"].stands and "for this test" in walls["user"].detail
        assert not walls["sandbox"].stands and "root" in walls["sandbox"].detail


@root
def test_two_browsers_are_two_users() -> None:
    async def main() -> list[int | None]:
        pool = BrowserPool(browsers=2)
        leases = [await pool.lease(), await pool.lease()]
        users = [lease.user for lease in leases]
        await pool.close()
        return users

    users = asyncio.run(main())
    assert None not in users and len(set(users)) == 2


@root
def test_a_browser_that_only_root_can_read_is_said(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    program = closed / "chromium"
    program.symlink_to(find_chromium())
    shelter = Shelter(program)
    options, user = shelter.options()
    started = Path(options["executable_path"]).read_text()
    shelter.close()
    assert "only root may read" in shelter.no_user and "root" in shelter.no_sandbox
    assert user is None and f"ourselves {program}" in started and not options["chromium_sandbox"]


def test_lists_of_features_become_one() -> None:
    """Of two a browser reads the last one: Playwright's, or ours, would count for nothing."""
    given = ["--disable-features=A,B", "--x", "--enable-features=C", "--disable-features=D", "--enable-features=E:f/0"]
    assert sorted(joined(given)) == ["--disable-features=A,B,D", "--enable-features=C,E:f/0", "--x"]


LINK = "<a href=/file.zip download style='position:fixed;left:0;top:0;width:200px;height:60px'>x</a>"


@pytest.fixture
def keeping(run: Run, browsers, site: Site, tmp_path: Path):
    """Click on a download so many times; what the agent is told, and what is kept."""

    def keep(times: int) -> tuple[str, list[Path]]:
        async def main() -> str:
            site.pages["/"] = LINK
            options = SessionOptions(network=NetworkPolicy(allow=(site.host,)), downloads=tmp_path / "kept")
            environment = WebEnvironment(browsers.browsers, options)
            try:
                await environment.reset(Task("web", "test", start_url=site.url("/")))
                note = ""
                for _ in range(times):
                    note += (await environment.step(Click(100, 30))).observation.note
                for _ in range(50):
                    if note.count("ownload") >= times:
                        break
                    note += (await environment.step(Wait(0.1))).observation.note
                return note
            finally:
                await environment.close()

        note = run(main())
        return note, sorted((tmp_path / "kept").rglob("*.zip"))

    return keep


def test_what_is_downloaded_is_quarantined(keeping) -> None:
    note, kept = keeping(1)
    assert note == 'Downloaded "a b.zip" (300 bytes).'
    (file,) = kept
    assert file.read_bytes() == b"zip" * 100
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and stat.S_IMODE(file.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("limit", "value", "kept", "told"),
    [("MOST", 2, 2, "there were 2 already"), ("LARGEST", 200, 0, "larger than"), ("ALTOGETHER", 700, 2, "more than")],
)
def test_downloads_have_limits(
    keeping, monkeypatch: pytest.MonkeyPatch, limit: str, value: int, kept: int, told: str
) -> None:
    monkeypatch.setattr(downloads, limit, value)
    note, files = keeping(3)
    assert note.count("Downloaded") == len(files) == kept
    assert note.count(told) == 1 or kept == 0


def test_a_download_that_does_not_end_holds_nobody_up(
    run: Run, browsers, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holotron.envs.session.NEW_TAB_TIMEOUT", 0.3)
    site.pages["/"] = LINK.replace("/file.zip", "'/halves?seconds=30'")
    options = SessionOptions(network=NetworkPolicy(allow=(site.host,)), downloads=tmp_path / "kept")

    async def main() -> float:
        environment = WebEnvironment(browsers.browsers, options)
        try:
            await environment.reset(Task("web", "test", start_url=site.url("/")))
            began = time.monotonic()
            await environment.step(Click(100, 30))
            return time.monotonic() - began
        finally:
            await environment.close()

    assert run(main()) < 10
