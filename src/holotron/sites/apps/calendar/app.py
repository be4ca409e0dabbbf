"""The calendar as an app; its pages are in `views.py` and `editing.py`."""

from __future__ import annotations

from pathlib import Path

from holotron.sites.apps.calendar.data import SCHEMA, fill
from holotron.sites.apps.calendar.words import WORDS
from holotron.sites.web import App, Link, Menu, Visit

PLACES = {
    "agenda": "list", "day": "box", "week": "calendar", "month": "calendar", "invitations": "mail", "people": "user",
    "calendars": "folder",
}  # fmt: skip


def menu(visit: Visit) -> Menu:
    t, path = visit.t, visit.path
    if visit.user is None:
        return Menu([], [])
    waiting = visit.state.value("select count(*) from invitations where answer = 'open'")
    places = [
        Link(name, t(name), f"/{name}", icon, waiting if name == "invitations" else 0, path.startswith(f"/{name}"))
        for name, icon in PLACES.items()
    ]
    own = [
        Link("new", t("new"), "/new", "pen", here=path == "/new"),
        Link("settings", t("settings"), "/settings", "gear", here=path == "/settings"),
    ]
    return Menu(places, own, search="/search")


app = App(
    "calendar",
    folder=Path(__file__).parent,
    schema=SCHEMA,
    words=WORDS,
    brands=(
        ("Dayplan", "dayplan.example"),
        ("Kalenda", "kalenda.example"),
        ("Tempora", "tempora.example"),
        ("Agenda Plus", "agendaplus.example"),
        ("Weekwise", "weekwise.example"),
    ),
    menu=menu,
    fill=fill,
)
