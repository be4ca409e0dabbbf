"""Browsers and pages die and hang; sessions beside them do not notice, and nothing is left behind."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
import textwrap

import psutil
import pytest

from holotron.envs import session
from holotron.envs.chromium import find_chromium, is_program
from holotron.envs.network import NetworkPolicy
from holotron.envs.pool import BrowserPool
from holotron.envs.session import SessionOptions
from holotron.envs.tab import Display
from holotron.envs.web import WebEnvironment
from holotron.errors import ConfigError, EnvironmentFault, MissingDependency
from holotron.types import Click, Goto, Task, Wait
from tests.envs.processes import alive, browsers_under, eventually, renderers_under, zygotes_under

pytestmark = pytest.mark.browser


# ------------------------------------------------------------------------------------------------------ finding one


def test_the_browser_is_a_program_not_a_wrapper_script(tmp_path, monkeypatch):
    found = find_chromium()
    assert is_program(found)
    assert found.read_bytes()[:2] != b"#!"
    script = tmp_path / "chromium"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    assert not is_program(script)
    monkeypatch.setenv("HOLOTRON_CHROMIUM", str(script))
    with pytest.raises(ConfigError, match="HOLOTRON_CHROMIUM"):
        find_chromium()
    monkeypatch.setenv("HOLOTRON_CHROMIUM", str(found))
    assert find_chromium() == found


def test_without_a_browser_the_message_says_how_to_get_one(monkeypatch, tmp_path):
    monkeypatch.setattr("holotron.envs.chromium._HEADLESS_SHELLS", ())
    monkeypatch.setattr("holotron.envs.chromium._FULL_BROWSERS", ())
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingDependency, match="apt-get install chromium-headless-shell"):
        find_chromium()
    own = tmp_path / "chromium_headless_shell-1200" / "chrome-linux" / "headless_shell"
    own.parent.mkdir(parents=True)
    own.write_bytes(b"\x7fELF")
    own.chmod(0o755)
    assert find_chromium() == own  # what `playwright install` has put there


def test_a_visible_browser_without_a_display_is_refused_in_plain_words(run, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")

    async def main():
        await BrowserPool(headless=False).lease()

    with pytest.raises(ConfigError, match="needs a display"):
        run(main())


# ------------------------------------------------------------------------------------------------------ pages that fail

PAGE = "<title>page</title><script>document.cookie = 'visited=1'</script>"


def test_a_crashed_page_is_loaded_again_and_others_do_not_notice(run, browse, site):
    async def main():
        async with browse(PAGE) as one, browse("<title>other</title>", "/other") as other:
            mine = await _renderer_of(one)
            os.kill(mine, signal.SIGKILL)
            hit = await one.do(Click(10, 10))
            beside = await other.do(Click(10, 10))
            after = await one.do(Click(10, 10))
            return hit.observation, beside.observation, after.observation, await one.js("document.cookie")

    hit, beside, after, cookie = run(main())
    assert "crashed and was loaded again" in hit.note
    assert (hit.title, hit.url) == ("page", site.url("/"))
    assert (beside.title, beside.note) == ("other", "")
    assert after.note == ""
    assert cookie == "visited=1"  # the session is the same one


async def _renderer_of(page) -> int:
    """The renderer that burns time when this page does."""
    await page.js("document.title = 'x'")
    before = {p.pid: sum(p.cpu_times()[:2]) for p in renderers_under(os.getpid())}
    await page.js("(() => { const end = Date.now() + 400; while (Date.now() < end); })()")
    used = {p.pid: sum(p.cpu_times()[:2]) - before.get(p.pid, 0.0) for p in renderers_under(os.getpid())}
    await page.js("document.title = 'page'")
    return max(used, key=lambda pid: used[pid])


def test_a_page_that_hangs_is_replaced(run, browse, monkeypatch):
    monkeypatch.setattr("holotron.envs.tab.ANSWER_TIMEOUT", 2.0)
    html = "<title>page</title><body onclick='for (;;);'>"

    async def main():
        async with browse(html) as page:
            return (await page.do(Click(10, 10))).observation, await page.js("document.title")

    observation, title = run(main())
    assert "stopped responding" in observation.note
    assert title == "page"


def test_a_slow_page_and_one_that_never_comes_do_not_hold_the_agent_up(run, browse, site, monkeypatch):
    monkeypatch.setattr(session, "NAVIGATION_TIMEOUT", 1.5)

    async def main():
        async with browse(PAGE) as page:
            slow = (await page.do(Goto(site.url("/slow?seconds=6")))).observation
            refused = (await page.do(Goto("http://127.0.0.1:9/"))).observation
            back = (await page.do(Goto(site.url("/")))).observation
            return slow, refused, back

    slow, refused, back = run(main())
    assert "still loading" in slow.note
    assert refused.note != ""
    assert back.title == "page"


# --------------------------------------------------------------------------------------------------- browsers that fail


def test_a_killed_browser_breaks_its_own_sessions_only_and_is_replaced(run, site):
    site.pages["/"] = PAGE

    async def main():
        pool = BrowserPool(browsers=2, contexts_per_browser=4)
        options = SessionOptions(display=Display(200, 200), network=_only(site))
        environments = [WebEnvironment(pool, options) for _ in range(4)]
        others = {p.pid for p in browsers_under(os.getpid())}
        for environment in environments:
            await environment.reset(_task(site))
        victim = next(p for p in browsers_under(os.getpid()) if p.pid not in others)
        victim.kill()
        results = await asyncio.gather(*(e.step(Wait(0.1)) for e in environments), return_exceptions=True)
        broken = [e for e, r in zip(environments, results, strict=True) if isinstance(r, EnvironmentFault)]
        for environment in broken:
            await environment.reset(_task(site))  # the same environment works again, in a new browser
        again = await asyncio.gather(*(e.step(Click(10, 10)) for e in environments))
        living = {p.pid for p in browsers_under(os.getpid())} - others
        for environment in environments:
            await environment.close()
        await pool.close()
        left = await asyncio.to_thread(eventually, lambda: {p.pid for p in browsers_under(os.getpid())} == others)
        return len(broken), [r.observation.title for r in again], len(living), left

    broken, titles, living, left = run(main())
    assert broken == 2
    assert titles == ["page"] * 4
    assert living == 2
    assert left  # nothing stays behind


def test_the_death_of_playwrights_own_process_is_survived(run, site):
    site.pages["/"] = PAGE

    async def main():
        before = {p.pid for p in psutil.Process().children(recursive=True)}
        pool = BrowserPool(browsers=1)
        environment = WebEnvironment(pool, SessionOptions(display=Display(200, 200), network=_only(site)))
        await environment.reset(_task(site))
        next(p for p in psutil.Process().children() if p.pid not in before and "node" in p.name()).kill()
        with pytest.raises(EnvironmentFault):
            await _act_until_it_fails(environment)
        title = (await environment.reset(_task(site))).title
        await environment.close()
        await pool.close()
        return title

    assert run(main()) == "page"


def test_playwrights_own_process_may_die_while_it_starts(run, monkeypatch):
    """Playwright has no error of its own for that."""

    async def main():
        pool = BrowserPool(browsers=1)
        with monkeypatch.context() as dying:
            dying.setenv("PLAYWRIGHT_NODEJS_PATH", "/bin/false")
            with pytest.raises(EnvironmentFault, match="driver did not start"):
                await pool.lease()
        lease = await pool.lease()
        usable = await (await lease.context.new_page()).evaluate("1 + 1")
        await pool.close()
        return usable

    assert run(main()) == 2


def test_a_browser_that_opens_no_page_any_more_is_replaced(run, site):
    """Without its zygotes it lives, and every new page crashes."""
    site.pages["/"] = PAGE

    async def main():
        pool = BrowserPool(browsers=1)
        others = zygotes_under(os.getpid())
        environment = WebEnvironment(pool, SessionOptions(display=Display(200, 200), network=_only(site)))
        await environment.reset(_task(site))
        for process in zygotes_under(os.getpid()):
            if process not in others:
                process.kill()
        await environment.close()
        with pytest.raises(EnvironmentFault):
            await environment.reset(_task(site))
        title = (await environment.reset(_task(site))).title
        await environment.close()
        await pool.close()
        return title

    assert run(main()) == "page"


def test_a_full_disk_is_no_fault_of_the_agent(run, monkeypatch):
    def full(shelter):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("holotron.envs.isolation.Shelter.options", full)
    with pytest.raises(EnvironmentFault, match="No space left"):
        run(BrowserPool(browsers=1).lease())


def test_a_browser_that_has_served_enough_is_retired(run, site):
    site.pages["/"] = PAGE

    async def main():
        pool = BrowserPool(browsers=1, contexts_per_browser=4, recycle_after=2)
        others, seen = {p.pid for p in browsers_under(os.getpid())}, set()
        own = lambda: {p.pid for p in browsers_under(os.getpid())} - others  # noqa: E731
        kept = await pool.lease()  # an open context keeps the old browser alive
        for _ in range(4):
            lease = await pool.lease()
            seen |= own()
            await lease.close()
        usable = await (await kept.context.new_page()).evaluate("1 + 1")
        await kept.close()
        gone = await asyncio.to_thread(eventually, lambda: len(own()) == 1)
        await pool.close()
        return len(seen), usable, gone

    seen, usable, gone = run(main())
    assert seen >= 2
    assert usable == 2
    assert gone


def test_a_full_pool_waits_and_a_closed_one_says_so(run):
    async def main():
        pool = BrowserPool(browsers=1, contexts_per_browser=1)
        first = await pool.lease()
        second = asyncio.create_task(pool.lease())
        await asyncio.sleep(0.2)
        waited = not second.done()
        await first.close()
        await (await second).close()
        await pool.close()
        with pytest.raises(EnvironmentFault, match="closed"):
            await pool.lease()
        return waited

    assert run(main())


PARENT = """
import asyncio, sys
from holotron.envs.network import NetworkPolicy
from holotron.envs.pool import BrowserPool

async def main():
    pool = BrowserPool(browsers=2)
    leases = [await pool.lease() for _ in range(4)]
    for lease in leases:
        await lease.context.new_page()
    print("ready", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.parametrize("killed", ["parent", "driver"])
def test_no_process_outlives_a_parent_that_is_killed(killed):
    parent = subprocess.Popen([sys.executable, "-c", textwrap.dedent(PARENT)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    assert parent.stdout.readline().strip() == "ready"
    everything = psutil.Process(parent.pid).children(recursive=True)
    assert len(browsers_under(parent.pid)) == 2
    if killed == "driver":  # Playwright's own process, then the parent
        next(p for p in everything if "node" in p.name()).kill()
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert eventually(lambda: not alive(everything)), [p.name() for p in alive(everything)]


async def _act_until_it_fails(environment):
    for _ in range(50):  # it takes a moment until the pipe is known to be closed
        await environment.step(Click(10, 10))


def _only(site):
    return NetworkPolicy(allow=(site.host,))


def _task(site):
    return Task("web", "test", start_url=site.url("/"))
