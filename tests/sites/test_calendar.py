"""The calendar's checkers: what was asked passes, and what is nearly that fails with a reason."""

from __future__ import annotations

import datetime
import itertools
from typing import Any

import pytest

from holotron.sites.apps.calendar.times import clock, first_free, in_the_way, on_days, parse_day, parse_time
from tests.sites.visitor import Visitor

TEXTS = ("title", "day", "start", "end", "place", "until", "note")


def fields(visitor: Visitor, event: dict[str, Any], id: int = 0) -> dict[str, Any]:
    """A whole form: what is there already, and `event` over it."""
    there = visitor.episode.state.one("select * from events where id = ?", id) or {}
    if there:
        there = {**there, "start": clock(there["start"]), "end": clock(there["end"])}
    form = {name: there.get(name, "") for name in TEXTS} | {"calendar": there.get("calendar", 1)}
    form |= {"zone": visitor.facts["login"]["zone"], "repeat": there.get("repeat", "")}
    guests = visitor.episode.state.all("select * from guests where event = ?", id)
    form |= {f"guest-{row['colleague']}": "on" for row in guests}
    form |= {f"guest-{number}": "on" for number in event.get("guests", ())}
    return form | {name: value for name, value in event.items() if name != "guests"}


def save(visitor: Visitor, event: dict[str, Any], id: int = 0) -> str:
    return visitor.post(f"/event/{id}/edit" if id else "/new", **fields(visitor, event, id))


def test_nothing_overlaps_at_the_start() -> None:
    for seed in range(6):
        visitor = Visitor("calendar-when", seed)
        today = visitor.episode.variation.today
        rows = on_days(visitor.episode.state, today - datetime.timedelta(days=10), today + datetime.timedelta(days=28))
        assert len(rows) > 25
        for row, later in itertools.pairwise(rows):
            assert row["day"] != later["day"] or row["end"] <= later["start"]
        assert all(in_the_way(visitor.episode.state, {**row, "repeat": ""}, row["id"]) is None for row in rows)


def test_times() -> None:
    assert parse_time("9:05") == 545 and parse_time("24:00") == 1440 and clock(545) == "09:05"
    assert all(parse_time(text) is None for text in ("", "9", "9:60", "25:00", "9:5", "-1:00", "nine"))
    assert parse_day("2025-02-28") and not any(map(parse_day, ("2025-02-30", "28.2.2025", "", "20250228", "x")))
    assert first_free([(540, 600), (630, 700)], 30, 540, 1020) == 600
    assert first_free([(540, 600), (630, 700)], 60, 540, 1020) == 700
    assert first_free([(540, 1000)], 60, 540, 1020) is None and first_free([], 60, 540, 1020) == 540


def test_questions() -> None:
    visitor = Visitor("calendar-when", 2)
    answer = visitor.facts["answer"]
    wrong = next(
        time for time in (clock(visitor.facts["event"][which]) for which in ("start", "end")) if time != answer
    )
    assert visitor.done(f"At {answer}.") and not visitor.done(wrong) and not visitor.done(f"{answer} or {wrong}")
    counting = Visitor("calendar-count", 2)
    number = int(counting.facts["answer"])
    assert counting.done(f"There are {number}.") and not counting.done(str(number + 1)) and not counting.done()
    pages = {counting.get(f"/agenda?page={page}") for page in range(1, 12)}  # beyond the last one comes the last again
    assert sum(page.count('data-e="event:') for page in pages) == counting.facts["events"]


def test_delete_and_skip() -> None:
    visitor = Visitor("calendar-delete", 1)
    event = visitor.facts["event"]["id"]
    wrong = Visitor("calendar-delete", 1)
    other = wrong.episode.state.value("select id from events where id != ? and repeat = ''", event)
    wrong.post(f"/event/{other}/delete")
    assert not wrong.done()
    wrong.post(f"/event/{event}/delete")
    assert not wrong.done() and "side effect" in wrong.why()
    visitor.post(f"/event/{event}/delete")
    assert visitor.done(), visitor.why()

    visitor, whole = Visitor("calendar-skip", 1), Visitor("calendar-skip", 1)
    event, day = visitor.facts["event"]["id"], visitor.facts["day"]
    whole.post(f"/event/{event}/delete")
    assert not whole.done()
    week = datetime.timedelta(weeks=1)
    visitor.post(f"/event/{event}/skip", day=(datetime.date.fromisoformat(day) + week).isoformat())
    assert not visitor.done() and "skips has day" in visitor.why()
    visitor = Visitor("calendar-skip", 1)
    assert f'data-e="event:{event}:{day}"' in visitor.get(f"/day/{day}")
    assert f'data-e="event:{event}:{day}"' not in visitor.post(f"/event/{event}/skip", day=day)
    assert visitor.done(), visitor.why()


@pytest.mark.parametrize("seed", range(3))
def test_one_invitation(seed: int) -> None:
    visitor = Visitor("calendar-invite", seed)
    ((number, given),) = visitor.facts["answers"].items()
    wrong = Visitor("calendar-invite", seed)
    wrong.post(f"/invitations/{number}", answer="declined" if given == "accepted" else "accepted")
    assert not wrong.done() and "answer" in wrong.why()
    visitor.post(f"/invitations/{number}", answer="maybe")
    assert visitor.episode.state.changes() == []
    visitor.post(f"/invitations/{number}", answer=given)
    assert visitor.done(), visitor.why()


def test_settings() -> None:
    for seed in range(3):
        visitor = Visitor("calendar-settings", seed)
        values = visitor.facts["values"]
        visitor.post("/settings", **{**values, "reminder": 5 if values["reminder"] != 5 else 60})
        assert not visitor.done() and "users" in visitor.why()
        visitor.post("/settings", **{**values, "reminder": 7})
        visitor.post("/settings", **values)
        assert visitor.done(), visitor.why()


def test_a_time_that_may_be_taken() -> None:
    taken = 0
    for seed in range(16):
        visitor = Visitor("calendar-maybe", seed)
        page = save(visitor, visitor.facts["event"])
        if visitor.facts["taken"]:
            taken += 1
            assert 'data-e="wrong:start"' in page and visitor.episode.state.changes() == []
            assert visitor.done("impossible") and not visitor.done("done") and not visitor.done()
        else:
            assert visitor.done(), visitor.why()
            assert not Visitor("calendar-maybe", seed).done("impossible")
    assert 3 <= taken <= 13


def test_moving_until_it_fits() -> None:
    visitor = Visitor("calendar-conflict", 3)
    facts, event = visitor.facts, visitor.facts["event"]
    refused = 0
    for time in facts["tries"]:
        start = parse_time(time)
        assert start is not None
        page = save(visitor, {"day": facts["day"], "start": time, "end": clock(start + facts["length"])}, event["id"])
        if 'data-e="wrong:start"' not in page:
            break
        refused += 1
        assert visitor.episode.state.changes() == []
    assert refused in (1, 2) and visitor.done(), visitor.why()
    later = Visitor("calendar-conflict", 3)
    save(later, {"day": facts["day"], "start": "19:00", "end": clock(19 * 60 + facts["length"])}, event["id"])
    assert not later.done() and "start 1140" in later.why()
    longer = Visitor("calendar-conflict", 3)
    save(longer, {"day": facts["day"], "start": time, "end": clock(start + facts["length"] + 15)}, event["id"])
    assert not longer.done()


@pytest.mark.parametrize("name", ["calendar-zone", "calendar-series", "calendar-free", "calendar-meet"])
def test_new_events(name: str) -> None:
    event = Visitor(name, 2).facts["event"]
    visitor = Visitor(name, 2)
    assert 'data-e="wrong:end"' in save(visitor, {**event, "end": event["start"]})
    assert 'data-e="wrong:day"' in save(visitor, {**event, "day": "tomorrow"})
    assert 'data-e="wrong:title"' in save(visitor, {**event, "title": ""})
    assert visitor.episode.state.changes() == []
    save(visitor, event)
    assert visitor.done(), visitor.why()
    nearly: dict[str, dict[str, Any]] = {
        "calendar-zone": {"zone": visitor.facts["login"]["zone"]},
        "calendar-series": {"repeat": "", "until": ""},
        "calendar-free": {"title": event["title"] + "s"},
        "calendar-meet": {"guests": event.get("guests", [])[:1]},
    }
    wrong = Visitor(name, 2)
    page = save(wrong, {**event, **nearly[name]})
    assert not wrong.done() and (wrong.episode.state.changes() or 'class="wrong"' in page)


def test_a_zone_is_the_same_as_the_time_in_ones_own() -> None:
    visitor = Visitor("calendar-zone", 5)
    (wanted,) = visitor.episode.assignment.wanted
    values = wanted.values  # type: ignore[union-attr]
    own = {**visitor.facts["event"], "start": clock(values["start"]), "end": clock(values["end"])}
    save(visitor, {**own, "zone": visitor.facts["login"]["zone"]})
    assert visitor.done(), visitor.why()


def test_edit_and_keep_the_rest() -> None:
    visitor, less = Visitor("calendar-edit", 1), Visitor("calendar-edit", 1)
    event, values = visitor.facts["edit"]["id"], visitor.facts["event"]
    save(visitor, values, event)
    assert visitor.done(), visitor.why()
    save(less, {**values, "guests": []}, event)
    assert not less.done() and "guests" in less.why() and less.episode.verdict().partial == 0.5
    save(less, {**values, "title": "Something else"}, event)
    assert not less.done()


def test_all_invitations() -> None:
    visitor, everything = Visitor("calendar-invitations", 1), Visitor("calendar-invitations", 1)
    answers = visitor.facts["answers"]
    assert set(answers.values()) == {"accepted", "declined"}
    for number, given in answers.items():
        visitor.post(f"/invitations/{number}", answer="accepted")  # those that do not fit are refused
        if given == "declined":
            visitor.post(f"/invitations/{number}", answer="declined")
        everything.post(f"/invitations/{number}", answer="declined")
    assert visitor.done(), visitor.why()
    assert not everything.done() and everything.episode.verdict().partial < 0.7


def test_three_events() -> None:
    visitor = Visitor("calendar-plan", 1)
    events = visitor.facts["list"]
    for event in events[:2]:
        save(visitor, event)
    assert not visitor.done() and visitor.episode.verdict().partial == pytest.approx(2 / 3)
    save(visitor, {**events[2], "place": "Elsewhere"})
    assert not visitor.done() and "place" in visitor.why()
    number = visitor.episode.state.value("select max(id) from events")
    save(visitor, events[2], number)
    assert visitor.done(), visitor.why()


def test_a_code_that_is_shown_once() -> None:
    visitor = Visitor("calendar-recall", 3)
    code, once, last = visitor.facts["code"], visitor.facts["once"]["id"], visitor.facts["stops"][-1]
    for page in (f"/event/{once}", f"/event/{once}/edit", "/agenda", "/day", f"/search?q={code}"):
        assert f"code is {code}" not in visitor.get(page)
    wrong = Visitor("calendar-recall", 3)
    save(wrong, {"place": code}, visitor.facts["stops"][-2]["id"])
    assert not wrong.done() and f"not {last['id']}" in wrong.why()
    save(visitor, {"place": code}, last["id"])
    assert visitor.done(), visitor.why()
    assert len({Visitor("calendar-recall", seed).facts["distance"] for seed in range(10)}) >= 3


def test_getting_a_page_changes_nothing_and_strangers_see_nothing() -> None:
    visitor = Visitor("calendar-when", 1)
    pages = ("/", "/agenda?page=2", "/day", "/day/2025-02-28", "/week", "/week/2025-02-28", "/month",
             "/month/2025-12-31", "/people", "/invitations", "/calendars", "/settings", "/new?day=2025-01-01",
             "/event/3", "/event/3/edit", "/event/1?on=2025-01-01", "/go?day=2025-01-01&view=week", "/go?day=x",
             "/event/3/delete", "/day/not-a-day", "/search?q=a")  # fmt: skip
    for viewport in ("laptop", "phone"):
        visitor = Visitor("calendar-when", 1, viewport=viewport)
        for page in pages:
            assert len(visitor.get(page)) < 36_000, page
        assert visitor.episode.state.changes() == []
    visitor.post("/sign-out")
    for page in pages:
        shown = visitor.get(page)
        assert 'data-page="sign-in"' in shown or 'data-page="not-found"' in shown, page


def test_hostile_input_gets_a_page() -> None:
    visitor = Visitor("calendar-when", 1)
    for page in (
        "/event/999999999",
        "/day/0000-00-00",
        "/day/9999-12-31",
        "/month/0001-01-01",
        "/search?q=%27%22%3C%25",
    ):
        assert "<html" in visitor.get(page)
    form = {"title": "x", "day": "2025-01-01", "start": "10:00", "end": "11:00", "calendar": "7' or 1=1",
            "repeat": "daily"}  # fmt: skip
    visitor.post("/new", **form)
    visitor.post("/new", **{**form, "calendar": 1, "repeat": "weekly", "until": "2024-01-01"})
    visitor.post("/event/1/skip", day="x")
    visitor.post("/invitations/99999", answer="accepted")
    assert visitor.episode.state.changes() == []
