"""The mailbox as an app; its pages are in `reading.py`, `writing.py` and `rules.py`."""

from __future__ import annotations

from pathlib import Path

from holotron.sites.apps.mail.data import SCHEMA, fill
from holotron.sites.apps.mail.words import WORDS
from holotron.sites.web import App, Link, Menu, Visit

PLACES = {
    "inbox": "mail", "starred": "star", "drafts": "pen", "sent": "box", "archive": "folder", "spam": "list",
    "trash": "bin",
}  # fmt: skip


def menu(visit: Visit) -> Menu:
    t, path = visit.t, visit.path
    if visit.user is None:
        return Menu([], [])
    counts = {
        "inbox": visit.state.value("select count(*) from threads where folder = 'inbox' and unread = 1"),
        "drafts": visit.state.value("select count(*) from drafts"),
    }
    places = [
        Link(name, t(name), f"/folder/{name}", icon, counts.get(name, 0), path == f"/folder/{name}")
        for name, icon in PLACES.items()
    ]
    own = [
        Link("compose", t("compose"), "/compose", "pen", here=path == "/compose"),
        Link("contacts", t("contacts"), "/contacts", "user", here=path.startswith("/contact")),
        Link(
            "settings", t("settings"), "/settings", "gear", here=path.startswith(("/settings", "/filters", "/labels"))
        ),
    ]
    return Menu(places, own, search="/search")


app = App(
    "mail",
    folder=Path(__file__).parent,
    schema=SCHEMA,
    words=WORDS,
    brands=(
        ("Postbird", "postbird.example"),
        ("Letterbox", "letterbox.example"),
        ("Quillmail", "quillmail.example"),
        ("Briefkasten", "briefkasten.example"),
        ("Courrier", "courrier.example"),
    ),
    menu=menu,
    fill=fill,
    follows={"undo": frozenset()},  # what the last move can be taken back to
    irrevocable=frozenset({"messages"}),  # what is sent is sent
)
