"""The administration as an app; its pages are in `accounts.py`, `files.py` and `system.py`."""

from __future__ import annotations

from pathlib import Path

from holotron.sites.apps.admin.data import SCHEMA, fill
from holotron.sites.apps.admin.words import WORDS
from holotron.sites.web import App, Link, Menu, Visit


def menu(visit: Visit) -> Menu:
    t, path = visit.t, visit.path
    places = [
        Link("users", t("users"), "/users", "user", here=path.startswith(("/user", "/invite"))),
        Link("roles", t("roles"), "/roles", "star", here=path.startswith("/role")),
        Link("files", t("files"), "/files", "folder", here=path.startswith("/file")),
        Link("audit", t("audit"), "/audit", "list", here=path == "/audit"),
        Link("settings", t("settings"), "/settings/general", "gear", here=path.startswith("/settings")),
    ]
    own = [Link("overview", t("overview"), "/", "box", here=path == "/")]
    return Menu(places, own, search="/users")


def note(visit: Visit, action: str, target: str) -> None:
    """Write into the audit log what somebody has done."""
    visit.state.add(
        "audit", day=visit.episode.variation.today.isoformat(), actor=visit.need_user()["name"], action=action,
        target=target,
    )  # fmt: skip


app = App(
    "admin",
    folder=Path(__file__).parent,
    schema=SCHEMA,
    words=WORDS,
    brands=(
        ("Keyring Console", "keyring.example"),
        ("Northgate Admin", "northgate.example"),
        ("Steward", "steward.example"),
        ("Pförtner", "pfoertner.example"),
        ("La Régie", "laregie.example"),
        ("Backoffice One", "backofficeone.example"),
    ),
    menu=menu,
    fill=fill,
    follows={"audit": frozenset()},  # everything that is done leaves an entry there
    irrevocable=frozenset({"users"}),
)
