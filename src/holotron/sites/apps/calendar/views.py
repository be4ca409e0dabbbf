"""Looking: agenda, day, week, month, search, one event, when colleagues are busy."""

from __future__ import annotations

import datetime

from holotron.sites.apps.calendar.app import app
from holotron.sites.apps.calendar.data import AGENDA_DAYS
from holotron.sites.apps.calendar.times import Date, on_days, parse_day
from holotron.sites.http import HttpResponse
from holotron.sites.state import Row
from holotron.sites.web import NotFound, Visit

EVENTS_PER_PAGE = 7
SHOWN = "c.shown = 1"
HOME = {"cards": "agenda", "rows": "agenda", "table": "week", "tiles": "month"}
_DAY = datetime.timedelta(days=1)


@app.get("/")
def home(visit: Visit) -> HttpResponse:
    """Which view comes first is a part of the layout; a week is too wide for a phone."""
    look = visit.episode.variation
    if look.viewport == "phone":
        return agenda(visit)
    return {"agenda": agenda, "week": this_week, "month": this_month}[HOME[look.layout.collection]](visit)


def _today(visit: Visit) -> Date:
    visit.need_user()
    return visit.episode.variation.today


def _asked(day: str) -> Date:
    found = parse_day(day)
    if found is None:
        raise NotFound(day)
    return found


@app.get("/go")
def go(visit: Visit) -> HttpResponse:
    """The day that somebody has typed."""
    visit.need_user()
    view = visit.text("view") if visit.text("view") in ("day", "week", "month", "people") else "day"
    day = parse_day(visit.text("day"))
    if day is None:
        visit.flash(visit.t("bad_day"), "bad")
        return visit.redirect(f"/{view}")
    return visit.redirect(f"/{view}/{day.isoformat()}")


@app.get("/agenda")
def agenda(visit: Visit) -> HttpResponse:
    today = _today(visit)
    rows = on_days(visit.state, today, today + (AGENDA_DAYS - 1) * _DAY, SHOWN)
    return visit.page("agenda.html", split=visit.split(rows, EVENTS_PER_PAGE), title=visit.t("agenda"), name="agenda")


@app.get("/search")
def search(visit: Visit) -> HttpResponse:
    visit.need_user()
    conditions, values = ["1"], []
    for word in visit.text("q").lower().split():
        conditions.append("lower(title || ' ' || place || ' ' || c.name) like ?")
        values.append(f"%{word}%")
    rows = visit.state.all(
        "select e.*, e.repeat != '' series, c.name calendar_name, c.hue from events e join calendars c "
        f"on c.id = e.calendar where {' and '.join(conditions)} order by day, start",
        *values,
    )
    title = visit.t("results_for", q=visit.text("q"))
    return visit.page("agenda.html", split=visit.split(rows, EVENTS_PER_PAGE), title=title, name="search")


@app.get("/day")
def this_day(visit: Visit) -> HttpResponse:
    return _grid(visit, "day", _today(visit), 1)


@app.get("/day/<word:day>")
def day(visit: Visit, day: str) -> HttpResponse:
    return _grid(visit, "day", _asked(day), 1)


@app.get("/week")
def this_week(visit: Visit) -> HttpResponse:
    return _week(visit, _today(visit))


@app.get("/week/<word:day>")
def week(visit: Visit, day: str) -> HttpResponse:
    return _week(visit, _asked(day))


def _week(visit: Visit, day: Date) -> HttpResponse:
    monday = visit.need_user()["week_start"] == "monday"
    return _grid(visit, "week", day - (day.weekday() if monday else day.isoweekday() % 7) * _DAY, 7)


def _grid(visit: Visit, view: str, first: Date, count: int) -> HttpResponse:
    visit.need_user()
    days = [first + n * _DAY for n in range(count)]
    rows = on_days(visit.state, days[0], days[-1], SHOWN)
    columns = [(day, [row for row in rows if row["day"] == day.isoformat()]) for day in days]
    earlier, later = first - count * _DAY, first + count * _DAY
    return visit.page("grid.html", view=view, columns=columns, first=first, earlier=earlier, later=later)


@app.get("/month")
def this_month(visit: Visit) -> HttpResponse:
    return _month(visit, _today(visit))


@app.get("/month/<word:day>")
def month(visit: Visit, day: str) -> HttpResponse:
    return _month(visit, _asked(day))


def _month(visit: Visit, day: Date) -> HttpResponse:
    monday = visit.need_user()["week_start"] == "monday"
    first = day.replace(day=1)
    begin = first - (first.weekday() if monday else first.isoweekday() % 7) * _DAY
    rows = on_days(visit.state, begin, begin + 41 * _DAY, SHOWN)
    weeks = []
    for week in range(6):
        days = [begin + (7 * week + n) * _DAY for n in range(7)]
        weeks.append([(d, [row for row in rows if row["day"] == d.isoformat()]) for d in days])
    later = (first + 31 * _DAY).replace(day=1)
    return visit.page("month.html", weeks=weeks, first=first, earlier=(first - _DAY).replace(day=1), later=later)


@app.get("/event/<id>")
def event(visit: Visit, id: int) -> HttpResponse:
    visit.need_user()
    row: Row = visit.state.get(
        "select e.*, c.name calendar_name, c.hue from events e join calendars c on c.id = e.calendar where e.id = ?", id
    )
    guests = visit.state.all("select c.* from guests g join colleagues c on c.id = g.colleague where g.event = ?", id)
    asked = parse_day(visit.text("on"))
    on = asked.isoformat() if row["repeat"] and asked else row["day"]
    return visit.page("event.html", event=row, guests=guests, on=on, open_once=visit.episode.pages <= 1)


@app.get("/people")
def colleagues(visit: Visit) -> HttpResponse:
    return _people(visit, _today(visit))


@app.get("/people/<word:day>")
def colleagues_on(visit: Visit, day: str) -> HttpResponse:
    return _people(visit, _asked(day))


def _people(visit: Visit, day: Date) -> HttpResponse:
    visit.need_user()
    busy = visit.state.all("select * from busy where day = ? order by start", day.isoformat())
    rows = [
        (row, [b for b in busy if b["colleague"] == row["id"]]) for row in visit.state.all("select * from colleagues")
    ]
    return visit.page("people.html", people=rows, first=day, earlier=day - _DAY, later=day + _DAY, view="people")
