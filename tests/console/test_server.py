"""The page's server: who may use it, what it never gives away, and that no viewer, however slow, is waited for."""

from __future__ import annotations

import asyncio
import json
import socket
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from holotron.agent.events import Acted, Began, Ended, Observed, Thought
from holotron.console.board import Board
from holotron.console.live import LiveRun
from holotron.console.recorded import RecordedRun
from holotron.console.serving import LIVE, Page, find_live, parse_place, serving
from holotron.errors import ConfigError
from holotron.rollouts.store import RunWriter
from holotron.storage.files import entries
from holotron.types import Click, Completion, Observation, Outcome, Reply, StepResult, Task, Trajectory
from tests.agent.toy import ButtonEnvironment
from tests.storage.object_store import RUNS, s3_server

HOSTILE = "<img src=x onerror=alert(1)>"


def look(seed: int = 0, mime: str = "image/png") -> Observation:
    environment = ButtonEnvironment(mime=mime)
    return asyncio.run(environment.reset(Task("buttons", "press", seed=seed)))


@dataclass
class Told:
    """A run with an episode that the test tells, event by event."""

    live: LiveRun
    page: Page

    def begin(self, id: str = "buttons/press/0") -> None:
        async def steer() -> None:
            self.live.steer(id)

        asyncio.run(steer())
        self.live.hear(id, Began(Task("buttons", "press", HOSTILE), 0))
        self.live.hear(id, Observed(0, look()))

    def step(self, number: int, id: str = "buttons/press/0") -> None:
        reply = Reply(Completion("t", prompt_tokens=9), "", HOSTILE, Click(1, number))
        self.live.hear(id, Thought(number, reply, 0.1))
        self.live.hear(id, Acted(number, Click(1, number), StepResult(look(number)), 0.1))
        self.live.hear(id, Observed(number + 1, look(number)))

    def end(self, id: str = "buttons/press/0") -> None:
        self.live.hear(id, Ended(Trajectory(id, Task("buttons", "press"), (), Outcome.FAILURE, final=look())))

    def get(self, path: str, **headers: str) -> httpx.Response:
        return httpx.get(self.page.url + path, headers=headers)


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Told]:
    live = LiveRun(tmp_path / "run", title="test")
    with serving(live) as page:
        yield Told(live, page)


def test_only_those_with_the_address_get_anything(told: Told):
    told.begin()
    assert told.get("state").status_code == told.get("").status_code == 200
    base, token = told.page.url.rstrip("/").rsplit("/", 1)
    wrong = ["", "/", "/x/", f"/{token[:-1]}/", f"/{token}x/", f"/{token[::-1]}/state", f"/{token}", f"//{token}/state"]
    for path in [*wrong, *(f"/../{name}" for name in ("state", "w"))]:
        reply = httpx.get(base + path)
        assert (reply.status_code, reply.text) == (404, "There is nothing here.\n"), path
    assert len(token) >= 32
    assert httpx.get(base.removesuffix("/w")).status_code == 404
    assert httpx.post(told.page.url + "state").status_code == 405


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example"])
def test_another_name_for_this_machine_is_refused(told: Told, host: str):
    assert told.get("state", Host=host).status_code == 404


def test_pages_of_other_sites_are_refused(told: Told):
    origins = [{"Origin": origin} for origin in ("http://evil.example", "null", "http://127.0.0.1:1")]
    for headers in (*origins, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}):
        assert told.get("state", **headers).status_code == 404
        assert httpx.post(told.page.url + "command", json={}, headers=headers).status_code == 404
    # A link to the page itself may be followed from anywhere: it is of no use without what is in it.
    assert told.get("", **{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}).status_code == 200
    ours = told.page.url[: told.page.url.index("/w/")]
    assert told.get("state", Origin=ours, **{"Sec-Fetch-Site": "same-origin"}).status_code == 200


def test_every_answer_carries_the_policy(told: Told):
    told.begin()
    for path in ("", "main.js", "state", "nothing", "pulse"):
        headers = told.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "img-src 'self'" in policy and "unsafe" not in policy
        assert "require-trusted-types-for 'script'" in policy and "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store" and "set-cookie" not in headers and "server" not in headers


def test_files_are_the_pages_own(told: Told, tmp_path: Path):
    (tmp_path / "run").mkdir(exist_ok=True)
    (tmp_path / "run" / "secret.js").write_text("secret")
    pictures = ("../../secret.js", "secret.js", f"{'a' * 64}.svg", f"{'0' * 64}.png", "..%2f..%2fmanifest.json")
    files = ("app.py", "__init__.py", "..%2fapp.py", "%2e%2e/app.py", "secret.js")
    for name in (*files, *(f"frames/{picture}" for picture in pictures)):
        assert told.get(name).status_code == 404, name
    for name in ("main.js", "style.css", "icon.svg"):
        assert told.get(name).status_code == 200


def test_pictures_are_named_by_content_and_nothing_else_is_a_picture(told: Told):
    told.begin()
    (summary,) = told.get("state").json()["changes"]["sessions"]
    picture = told.get(f"frames/{summary['frame']}")
    assert picture.content == look().image and picture.headers["content-type"] == "image/png"
    assert picture.headers["content-security-policy"] == "default-src 'none'; sandbox"
    small = told.get(f"frames/{summary['frame']}?small")
    assert small.headers["content-type"] == "image/jpeg" and len(small.content) < 20_000
    told.live.hear("buttons/press/0", Observed(0, Observation(b"<svg/>", "image/svg+xml", (1, 1), (1, 1))))
    (summary,) = told.get("state").json()["changes"]["sessions"]
    assert summary["frame"] == ""


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"{", 400, "no JSON"),
        (b"[]", 400, "session and do"),
        (b'{"session": "x"}', 400, "there is no command"),
        (b'{"session": "x", "do": "pause"}', 409, "over"),
        (b'{"session": "x", "do": "answer", "question": 7}', 409, "answered already"),
        (b'{"session": "x", "do": "act", "action": {"tool_name": "explode"}}', 400, "explode"),
        (b'{"session": "x", "do": "act", "action": {"tool_name": "click", "x": 1}}', 400, "y is missing"),
        (b'{"session": "x", "do": "step", "step": true}', 400, "whole number"),
        (b'{"session": "*", "do": "stop"}', 409, "only pausing"),
        (b'{"session": "x", "do": "instruct", "text": "' + b"a" * 5000 + b'"}', 400, "at most"),
        (b'{"session": "x", "do": "' + b"a" * 70_000 + b'"}', 413, "too long"),
        (b"[" * 60_000, 400, "no JSON"),
    ],
)
def test_what_cannot_be_done_is_said(told: Told, body: bytes, status: int, words: str):
    reply = httpx.post(told.page.url + "command", content=body)
    assert reply.status_code == status and words in reply.json()["error"]


def test_the_address_is_found_by_the_owner_alone_and_goes_with_the_page(told: Told, tmp_path: Path):
    note = tmp_path / "run" / LIVE
    assert stat.S_IMODE(note.stat().st_mode) == 0o600
    assert find_live(tmp_path / "run") == told.page.url
    note.write_text(json.dumps({"url": "http://127.0.0.1:9/w/x/"}))
    assert find_live(tmp_path / "run") is None
    assert find_live(tmp_path) is None


def test_places_to_listen_at():
    assert parse_place("127.0.0.1:8765") == ("127.0.0.1", 8765)
    assert parse_place(":80") == ("127.0.0.1", 80)
    assert parse_place("[::1]:0") == ("::1", 0)
    assert parse_place("localhost") == ("localhost", 0)
    for wrong in ("a:b", "1.2.3.4:99999", "x:-1"):
        with pytest.raises(ConfigError, match="HOST:PORT"):
            parse_place(wrong)
    live = LiveRun(None, title="test")
    with serving(live) as page, pytest.raises(ConfigError, match="cannot listen"), serving(live, port=page.port):
        pass


# -------------------------------------------------------------------------------------------------------------- events


def events(url: str, since: str, session: str = "") -> Iterator[dict]:
    query = f"events?since={since}" + (f"&session={session}" if session else "")
    with httpx.stream("GET", url + query, timeout=10) as stream:
        name, position = "", ""
        for line in stream.iter_lines():
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("id: "):
                position = line[4:]
            elif line.startswith("data: "):
                yield {"event": name, "position": position, **json.loads(line[6:])}


def test_a_stream_goes_on_where_it_was(told: Told):
    told.begin()
    state = told.get("state").json()
    stream = events(told.page.url, state["position"], "buttons/press/0")
    told.step(0)
    heard = next(stream)
    assert [card["state"] for card in heard["cards"]] == ["done", "seen"]
    stream.close()
    told.step(1)
    told.step(2)
    missed = next(events(told.page.url, heard["position"], "buttons/press/0"))
    assert [(card["index"], card["state"]) for card in missed["cards"]] == [(1, "done"), (2, "done"), (3, "seen")]
    assert missed["sessions"][0]["steps"] == 3
    assert next(events(told.page.url, "feed-12"))["event"] == "reset"
    assert next(events(told.page.url, ""))["event"] == "reset"


def test_a_viewer_that_does_not_read_is_not_waited_for(told: Told):
    """Ten open a stream and read nothing, while thousands of events come: telling stays quick, and another viewer gets
    the latest."""
    told.begin()
    position = told.get("state").json()["position"]
    address = ("127.0.0.1", told.page.port)
    sleepers = [socket.create_connection(address) for _ in range(10)]
    for one in sleepers:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        path = told.page.url[told.page.url.index("/w/") :]
        query = f"{path}events?since={position}&session=buttons/press/0"
        one.sendall(f"GET {query} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    time.sleep(0.3)
    assert told.live.viewers == 10
    screen, result = look(), StepResult(look())
    began = time.monotonic()
    for number in range(3000):
        reply = Reply(Completion("t" * 2000), "", "w" * 2000, Click(1, number))
        told.live.hear("buttons/press/0", Thought(number, reply, 0.1))
        told.live.hear("buttons/press/0", Acted(number, Click(1, number), result, 0.1))
        told.live.hear("buttons/press/0", Observed(number + 1, screen))
    each = (time.monotonic() - began) / 9000
    assert each < 0.002, f"{each * 1e6:.0f} us an event"
    latest = next(events(told.page.url, position))
    assert latest["sessions"][0]["steps"] == 3000
    for one in sleepers:
        one.close()


def test_memory_of_what_has_ended_is_bounded(told: Told):
    for number in range(40):
        told.begin(f"buttons/press/{number}")
        told.step(0, f"buttons/press/{number}")
        told.end(f"buttons/press/{number}")
    held = [id for (id,) in told.live.board.column("id") if told.live.board.cards(id)]
    assert len(held) == 16
    assert told.get("session?id=buttons/press/0").json()["cards"] == [], "nothing was recorded here"
    assert len(told.get("session?id=buttons/press/39").json()["cards"]) == 2
    assert told.get("session?id=nobody").status_code == 404


def test_too_many_pages_at_once_are_refused(told: Told):
    told.begin()
    position = told.get("state").json()["position"]
    path = told.page.url[told.page.url.index("/w/") :]
    many = [socket.create_connection(("127.0.0.1", told.page.port)) for _ in range(64)]
    for one in many:
        one.sendall(f"GET {path}events?since={position} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    time.sleep(1)
    assert told.get(f"events?since={position}").status_code == 503
    for one in many:
        one.close()


def test_a_board_gives_the_latest_of_each_once():
    board = Board()
    for number in range(100):
        board.put("a", steps=number)
        board.put_card("a", 0, {"state": str(number)})
    changes = board.changes(50, "a")
    assert [json.loads(text)["steps"] for text in changes.sessions] == [99]
    assert [json.loads(text)["state"] for text in changes.cards] == ["99"]
    before = board.version
    board.put("a", steps=99)  # nothing new
    assert board.version == before and not board.changes(before, "a")


def test_a_run_in_an_object_store_is_followed_and_holds_no_address(tmp_path: Path):
    """Who can read a bucket must not be able to steer."""
    with s3_server():
        out = RUNS / "watched"
        trajectory = Trajectory("buttons/press/0", Task("buttons", "press"), (), Outcome.FAILURE, final=look())
        with RunWriter(out, {"kind": "rollout", "config": {}, "episodes": []}) as writer:
            run = RecordedRun(out)
            assert run.board.column("id") == []
            writer.append(trajectory)
            run._looked = 0.0  # two seconds later
            run.refresh()
            assert run.board.column("id", "outcome") == [("buttons/press/0", "failure")]
            ((frame,),) = run.board.column("frame")
            assert run.frames.read(frame).data == look().image  # type: ignore[union-attr]
        with serving(LiveRun(out, title="test")):
            assert LIVE not in entries(out) and find_live(out) is None
