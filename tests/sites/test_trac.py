"""Trac as a transfer set: each task is done once through Trac's own forms, and its nearest misses fail."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holotron.errors import ConfigError
from holotron.sites.checks import Added, Answered, Changed, Removed
from holotron.sites.transfer import install
from holotron.sites.transfer.application import HostServer, TransferEpisode
from holotron.sites.transfer.trac import TRAC
from holotron.suites.base import find_suite
from holotron.types import Click, Goto, Write
from tests.sites.conftest import Run, host_server
from tests.sites.forms import FormBrowser

SEED = 3
NAMES = TRAC.tasks.names


@pytest.fixture(scope="module")
def server() -> Iterator[HostServer]:
    yield from host_server(TRAC)


class Player:
    """An episode and somebody at work in it."""

    def __init__(self, server: HostServer, name: str, seed: int = SEED) -> None:
        self.episode = TransferEpisode(TRAC, name, seed)
        self.key = server.open(self.episode)
        self.web = FormBrowser(f"http://127.0.0.1:{server.port}", server.headers(self.key))
        self.wanted = self.episode.assignment.wanted

    def ticket(self, id: int, **fields: str) -> None:
        self.web.submit(f"/ticket/{id}", "propertyform", "submit", **fields)

    def done(self, answer: str | None = None) -> bool:
        return self.episode.verdict(answer).success


@pytest.fixture
def play(server: HostServer) -> Iterator[Callable[..., Player]]:
    made: list[Player] = []

    def open_one(name: str, seed: int = SEED) -> Player:
        made.append(Player(server, name, seed))
        return made[-1]

    yield open_one
    for player in made:
        server.close_episode(player.key)


def work(player: Player, name: str) -> str | None:
    """Do the task through Trac's forms, from what is wanted; the answer if it is a question."""
    web, wants = player.web, player.wanted
    values = getattr(wants[0], "values", {})
    match name:
        case "close":
            player.ticket(wants[0].id, action="resolve", action_resolve_resolve_resolution=values["resolution"])
        case "reopen":
            player.ticket(wants[0].id, action="reopen")
        case "accept":
            player.ticket(wants[0].id, action="accept")
        case "assign":
            player.ticket(wants[0].id, action="reassign", action_reassign_reassign_owner=values["owner"])
        case "comment":
            player.ticket(values["ticket"], comment=values["text"])
        case "two-fields":
            fields = {f"field_{field}": value for field, value in values.items()}
            player.ticket(wants[0].id, comment=wants[1].values["text"], **fields)
        case "new-ticket":
            fields = {f"field_{field}": value for field, value in values.items() if field != "status"}
            web.submit("/newticket", "propertyform", "submit", **fields)
        case "wiki-new":
            web.submit(f"/wiki/{values['name']}?action=edit", "edit", "save", text=values["text"])
        case "wiki-edit":
            page = next(row for row in ("TeamRules", "ReleaseSteps", "StyleGuide") if row in player.episode.goal)
            web.submit(f"/wiki/{page}?action=edit", "edit", "save", text=values["text"])
        case "new-milestone":
            web.submit("/milestone?action=new", "edit", "add", due="on", name=values["name"], duedate=values["due"])
        case "complete":
            web.submit("/milestone/Dinghy?action=edit", "edit", "save", completed="on", completeddate="2025-08-01")
        case "new-component":
            web.submit("/admin/ticket/components", "addcomponent", "add", name=values["name"], owner=values["owner"])
        case "new-version":
            web.submit("/admin/ticket/versions", "addversion", "add", name=values["name"])
        case "component-owner":
            row = player.episode.goal.split("the component ")[1].split(" in the")[0]
            web.submit(f"/admin/ticket/components/{row}", "edit", "save", owner=values["owner"])
        case "remove-version":
            row = player.episode.goal.split('"')[1]
            web.submit("/admin/ticket/versions", "version_table", "remove", sel=row)
        case _ if isinstance(wants[0], Answered):
            return wants[0].value
        case _:
            player.ticket(wants[0].id, **{f"field_{field}": value for field, value in values.items()})
    return None


@pytest.mark.parametrize("name", NAMES)
def test_every_task_can_be_done_with_tracs_own_forms(play: Callable[..., Player], name: str) -> None:
    player = play(name)
    before = player.episode.verdict()
    assert not before.success and not before.final and before.side_effects == ()
    answer = work(player, name)
    verdict = player.episode.verdict(answer)
    assert verdict.success, verdict.reason
    if answer is None:  # and anything more is too much
        if name in ("comment", "two-fields"):
            player.ticket(7 if player.wanted[-1].values["ticket"] != 7 else 8, comment="me too")
        else:
            player.ticket(7 if getattr(player.wanted[0], "id", 0) != 7 else 8, field_keywords="stray")
        assert not player.done() and "side effect" in player.episode.verdict().reason
    else:
        assert not player.done("I do not know") and not player.done()


def test_there_are_enough_tasks_of_enough_kinds() -> None:
    assert len(NAMES) >= 20 and len(set(NAMES)) == len(NAMES)
    with pytest.raises(ConfigError, match="wiki-edit"):
        TRAC.tasks.find("wiki-edt")


def test_near_misses(play: Callable[..., Player]) -> None:
    player = play("close")
    (wanted,) = player.wanted
    assert isinstance(wanted, Changed)
    other = next(how for how in ("fixed", "wontfix") if how != wanted.values["resolution"])
    player.ticket(wanted.id, action="resolve", action_resolve_resolve_resolution=other)
    assert not player.done() and other in player.episode.verdict().reason

    player = play("priority")
    (wanted,) = player.wanted
    player.ticket(wanted.id + 1 if wanted.id < 40 else 1, field_priority=wanted.values["priority"], comment="wrong one")
    verdict = player.episode.verdict()
    assert not verdict.success and verdict.final  # a comment stays

    player = play("new-ticket")
    (added,) = player.wanted
    assert isinstance(added, Added)
    player.web.submit("/newticket", "propertyform", "submit", field_summary=added.values["summary"])
    assert not player.done() and player.episode.verdict().final

    player = play("wiki-edit")
    page = next(row for row in ("TeamRules", "ReleaseSteps", "StyleGuide") if row in player.episode.goal)
    player.web.submit(f"/wiki/{page}?action=edit", "edit", "save", text="gone")
    assert not player.done() and "gone" in player.episode.verdict().reason


def test_episodes_do_not_share_a_database(play: Callable[..., Player]) -> None:
    one, two = play("priority"), play("priority")
    assert one.episode.goal == two.episode.goal != play("priority", SEED + 1).episode.goal
    work(one, "priority")
    assert one.done() and not two.done()
    (wanted,) = two.wanted
    assert isinstance(wanted, Changed) and not isinstance(wanted, Removed)
    page = two.web.get(f"/ticket/{wanted.id}")
    assert "alex" in page and "harbour" in page.lower()


def test_no_other_folder_can_be_reached(server: HostServer) -> None:
    for key in ("", "..", "../x", "nothing"):
        with pytest.raises(OSError, match="404"):
            FormBrowser(f"http://127.0.0.1:{server.port}", {"X-Holotron-Episode": key}).get("/")


def test_the_host_ends_with_its_input(server: HostServer) -> None:
    made = HostServer(TRAC)
    process, folder = made._process, made._folder
    assert process.stdin is not None
    process.stdin.close()  # what is left when ours is killed
    for _ in range(300):
        if process.poll() is not None:
            break
        time.sleep(0.1)
    assert process.poll() == 0
    made.close()
    assert not folder.exists()


def test_a_failed_installation_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def fail(command: list[str]) -> None:
        raise ConfigError("no network")

    monkeypatch.setattr(install, "run", fail)
    with pytest.raises(ConfigError, match="no network"):
        install.installed("trac", ["Trac==1.6"])
    assert os.listdir(tmp_path / "holotron" / "transfer") == []
    monkeypatch.undo()
    with pytest.raises(ConfigError, match="failed: broken"):
        install.run(["sh", "-c", "echo broken >&2; exit 3"])


@pytest.mark.browser
def test_in_a_browser_a_comment_ends_the_episode(server: HostServer, run: Run) -> None:
    """Through pixels, as a policy would: the page, the field, the button, the reward."""

    async def go() -> None:
        suite = find_suite("trac", tasks="comment", seeds=range(SEED, SEED + 1))
        pool = suite.open(1)
        environment = await pool.acquire()
        try:
            seen = await environment.reset(suite.tasks[0])
            assert seen.url == "http://harbour.example/" and seen.viewport == (1280, 720)
            added = environment.episode.assignment.wanted[0]
            result = await environment.step(Goto(f"http://harbour.example/ticket/{added.values['ticket']}"))
            assert "ticket" in result.observation.url and not result.done

            async def place(what: str) -> tuple[float, float]:
                x, y = await environment.evaluate(
                    f"(() => {{ const e = document.querySelector('{what}'); e.scrollIntoView({{block: 'center'}});"
                    " const r = e.getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height / 2]; })()"
                )
                return x, y

            await environment.step(Write(added.values["text"], *(await place("textarea#comment"))))
            result = await environment.step(Click(*(await place("#propertyform input[name=submit]"))))
            assert result.done and result.success and result.reward == 1.0, result.info
            blocked = await environment.step(Goto("http://127.0.0.1:1/"))
            assert blocked.done
        finally:
            await pool.release(environment)
            await pool.close()

    run(go())
