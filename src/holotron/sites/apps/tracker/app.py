"""The tracker as an app; its pages are in `browsing.py`, `issue.py` and `planning.py`."""

from __future__ import annotations

from pathlib import Path

from holotron.sites.apps.tracker.data import SCHEMA, fill
from holotron.sites.apps.tracker.words import WORDS
from holotron.sites.web import App, Link, Menu, Visit


def menu(visit: Visit) -> Menu:
    t, path = visit.t, visit.path
    places = [
        Link("issues", t("issues"), "/issues", "list", here=path.startswith("/issue")),
        Link("board", t("board"), "/board", "box", here=path == "/board"),
        Link("milestones", t("milestones"), "/milestones", "calendar", here=path == "/milestones"),
        Link("new", t("new_issue"), "/new", "pen", here=path == "/new"),
    ]
    own = [Link("mine", t("my_issues"), "/", "user", here=path == "/")]
    return Menu(places, own, search="/issues")


app = App(
    "tracker",
    folder=Path(__file__).parent,
    schema=SCHEMA,
    words=WORDS,
    brands=(
        ("Corkboard", "corkboard.example"),
        ("Tasklane", "tasklane.example"),
        ("Ferryman", "ferryman.example"),
        ("Punchlist", "punchlist.example"),
        ("Werkbank", "werkbank.example"),
        ("Atelier Neuf", "atelierneuf.example"),
    ),
    menu=menu,
    fill=fill,
    irrevocable=frozenset({"issues", "comments", "milestones"}),
)
