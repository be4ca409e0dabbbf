"""Changing: new and changed events, series, invitations, calendars, settings. Nothing may overlap."""

from __future__ import annotations

from typing import Any

from holotron.sites.apps.calendar.app import app
from holotron.sites.apps.calendar.data import REPEATS, ZONES
from holotron.sites.apps.calendar.times import clock, in_the_way, parse_day, parse_time
from holotron.sites.http import HttpResponse
from holotron.sites.state import Row
from holotron.sites.web import NotFound, Visit

INVITATIONS_PER_PAGE = 5
REMINDERS = (0, 5, 10, 30, 60)
FIELDS = ("title", "calendar", "day", "start", "end", "zone", "place", "repeat", "until", "note")


def zone_label(city: str) -> str:
    hours = ZONES[city] // 60
    return f"{city} (UTC{hours:+d})"


@app.get("/new")
def new(visit: Visit) -> HttpResponse:
    user = visit.need_user()
    day = parse_day(visit.text("day")) or visit.episode.variation.today
    empty = dict.fromkeys(FIELDS, "")
    return _form(visit, {**empty, "calendar": "1", "day": day.isoformat(), "zone": user["zone"]}, [], 0)


@app.get("/event/<id>/edit")
def edit(visit: Visit, id: int) -> HttpResponse:
    user = visit.need_user()
    row = visit.state.get("select * from events where id = ?", id)
    guests = [guest["colleague"] for guest in visit.state.all("select * from guests where event = ?", id)]
    shown = {"zone": user["zone"], "start": clock(row["start"]), "end": clock(row["end"])}
    if row["once"]:
        shown["note"] = ""  # it has been shown
    return _form(visit, {**row, **shown}, guests, id)


def _form(visit: Visit, values: dict[str, Any], guests: list[int], id: int) -> HttpResponse:
    calendars = visit.state.all("select * from calendars order by id")
    return visit.page(
        "form.html",
        values=values,
        guests=guests,
        id=id,
        colleagues=visit.state.all("select * from colleagues order by id"),
        calendars=[(row["id"], row["name"]) for row in calendars],
        zones=[(city, zone_label(city)) for city in ZONES],
        repeats=[(key, visit.t(f"repeat_{key or 'never'}")) for key in REPEATS],
    )


@app.post("/new")
def add(visit: Visit) -> HttpResponse:
    return _save(visit, 0)


@app.post("/event/<id>/edit")
def change(visit: Visit, id: int) -> HttpResponse:
    visit.state.get("select * from events where id = ?", id)
    return _save(visit, id)


def _save(visit: Visit, id: int) -> HttpResponse:
    user, state, t = visit.need_user(), visit.state, visit.t
    event = _read(visit, user)
    if not visit.errors and (other := in_the_way(state, event, id)):
        visit.errors["start"] = t("conflict", time=visit.text("start"), title=other["title"], day=t.date(other["day"]),
                                  start=clock(other["start"]), end=clock(other["end"]))  # fmt: skip
    colleagues = [row["id"] for row in state.all("select id from colleagues order by id")]
    guests = [number for number in colleagues if f"guest-{number}" in visit.form]
    if visit.errors:
        return _form(visit, {name: visit.text(name) for name in FIELDS}, guests, id)
    if id:
        pairs = ", ".join(f"{name} = ?" for name in event)
        state.run(f"update events set {pairs} where id = ?", *event.values(), id)
    else:
        id = state.add("events", once=0, **event)
    for number in colleagues:
        there = state.one("select * from guests where event = ? and colleague = ?", id, number)
        if number in guests and not there:
            state.add("guests", event=id, colleague=number)
        elif number not in guests and there:
            state.run("delete from guests where id = ?", there["id"])
    visit.flash(t("saved"))
    return visit.redirect(f"/event/{id}")


def _read(visit: Visit, user: Row) -> Row:
    """The event that the form describes, in the owner's time zone; what is wrong with it goes to `errors`."""
    t = visit.t
    visit.require("title", "day", "start", "end")
    day, start, end = parse_day(visit.text("day")), parse_time(visit.text("start")), parse_time(visit.text("end"))
    for name, value, problem in (("day", day, "bad_day"), ("start", start, "bad_time"), ("end", end, "bad_time")):
        if name not in visit.errors and value is None:
            visit.errors[name] = t(problem)
    zone = visit.text("zone") if visit.text("zone") in ZONES else user["zone"]
    moved = ZONES[user["zone"]] - ZONES[zone]
    start, end = (start or 0) + moved, (end or 0) + moved
    if not visit.errors and end <= start:
        visit.errors["end"] = t("ends_early")
    if not visit.errors and (start < 0 or end > 24 * 60):
        visit.errors["start"] = t("other_day")
    repeat, until = visit.text("repeat"), parse_day(visit.text("until"))
    if repeat not in REPEATS or not visit.state.one(
        "select * from calendars where id = ?", visit.number("calendar", 0)
    ):
        raise NotFound("no such choice")
    if repeat and (until is None or (day is not None and until < day)):
        visit.errors["until"] = t("bad_until")
    return {
        "title": visit.text("title"), "calendar": visit.number("calendar"), "day": visit.text("day"), "start": start,
        "end": end, "place": visit.text("place"), "repeat": repeat,
        "until": until.isoformat() if repeat and until else "", "note": visit.text("note"),
    }  # fmt: skip


@app.post("/event/<id>/delete")
def delete(visit: Visit, id: int) -> HttpResponse:
    visit.need_user()
    for table in ("guests", "skips"):
        visit.state.run(f"delete from {table} where event = ?", id)
    visit.state.run("delete from events where id = ?", id)
    visit.flash(visit.t("deleted"))
    return visit.redirect("/agenda")


@app.post("/event/<id>/skip")
def skip(visit: Visit, id: int) -> HttpResponse:
    """Only one day of a series."""
    visit.need_user()
    row, day = visit.state.get("select * from events where id = ?", id), parse_day(visit.text("day"))
    if not row["repeat"] or day is None:
        raise NotFound("no such day")
    if not visit.state.one("select * from skips where event = ? and day = ?", id, day.isoformat()):
        visit.state.add("skips", event=id, day=day.isoformat())
    visit.flash(visit.t("deleted"))
    return visit.redirect(f"/day/{day.isoformat()}")


# --------------------------------------------------------------------------------- invitations, calendars, settings


@app.get("/invitations")
def invitations(visit: Visit) -> HttpResponse:
    visit.need_user()
    rows = visit.state.all("select * from invitations where answer = 'open' order by day, start, id")
    return visit.page("invitations.html", split=visit.split(rows, INVITATIONS_PER_PAGE))


@app.post("/invitations/<id>")
def answer(visit: Visit, id: int) -> HttpResponse:
    visit.need_user()
    state, t, given = visit.state, visit.t, visit.text("answer")
    row = state.get("select * from invitations where id = ? and answer = 'open'", id)
    if given not in ("accepted", "declined"):
        raise NotFound(given)
    if given == "accepted":
        event = {**{name: row[name] for name in ("title", "place", "day", "start", "end")}, "calendar": 1, "repeat": "",
                 "until": "", "note": ""}  # fmt: skip
        if other := in_the_way(state, event):
            visit.flash(t("conflict", time=row["title"], title=other["title"], day=t.date(other["day"]),
                          start=clock(other["start"]), end=clock(other["end"])), "bad")  # fmt: skip
            return visit.redirect(_back(visit))
        state.add("events", once=0, **event)
    state.run("update invitations set answer = ? where id = ?", given, id)
    visit.flash(t(given, title=row["title"]))
    return visit.redirect(_back(visit))


def _back(visit: Visit) -> str:
    return f"/invitations?page={visit.number('page', 1)}"


@app.get("/calendars")
def calendars(visit: Visit) -> HttpResponse:
    return _calendars_page(visit)


def _calendars_page(visit: Visit) -> HttpResponse:
    visit.need_user()
    rows = visit.state.all(
        "select c.*, (select count(*) from events where calendar = c.id) used from calendars c order by id"
    )
    return visit.page("calendars.html", calendars=rows)


@app.post("/calendars")
def add_calendar(visit: Visit) -> HttpResponse:
    visit.need_user()
    visit.require("name")
    if visit.state.one("select * from calendars where lower(name) = lower(?)", visit.text("name")):
        visit.errors["name"] = visit.t("calendar_exists")
    if visit.errors:
        return _calendars_page(visit)
    name = visit.text("name")
    visit.state.add("calendars", name=name, hue=sum(map(ord, name)) % 360, shown=1)
    return visit.redirect("/calendars")


@app.post("/calendars/<id>/toggle")
def toggle(visit: Visit, id: int) -> HttpResponse:
    visit.need_user()
    visit.state.run("update calendars set shown = 1 - shown where id = ?", id)
    return visit.redirect("/calendars")


@app.get("/settings")
def settings(visit: Visit) -> HttpResponse:
    visit.need_user()
    return visit.page("settings.html", zone=zone_label(visit.need_user()["zone"]), reminders=_reminders(visit))


def _reminders(visit: Visit) -> list[tuple[int, str]]:
    return [(n, visit.t("minutes_before", count=n) if n else visit.t("no_reminder")) for n in REMINDERS]


@app.post("/settings")
def save_settings(visit: Visit) -> HttpResponse:
    user = visit.need_user()
    start, reminder = visit.text("week_start"), visit.number("reminder", -1)
    if start not in ("monday", "sunday") or reminder not in REMINDERS:
        raise NotFound("no such choice")
    visit.state.run("update users set week_start = ?, reminder = ? where id = ?", start, reminder, user["id"])
    visit.flash(visit.t("saved"))
    return visit.redirect("/settings")
