"""Runs Trac. Started as a script by an interpreter that has Trac beside it; imports nothing of holotron.

    python -I trac_host.py prepare FOLDER        make the environment that every episode is a copy of
    python -I trac_host.py serve FOLDER [PORT]   serve FOLDER/<episode>/; says its port; ends when its input ends

Everybody is signed in as `alex`, who may do everything.
"""

import io
import os
import random
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

ME = "alex"
PEOPLE = ("alex", "bruna", "chiara", "david", "emil", "farah")
COMPONENTS = ("editor", "importer", "search", "website", "billing", "mobile")
MILESTONES = (("Anchor", 20), ("Beacon", 55), ("Compass", 90), ("Dinghy", 140))
TYPES = ("defect", "enhancement", "task")
PRIORITIES = ("blocker", "critical", "major", "minor", "trivial")
VERSIONS = ("0.9", "1.0", "1.1")
VERBS = (
    "Crash when saving",
    "Wrong total in",
    "Missing icon in",
    "Slow start of",
    "Typo in",
    "Cannot close",
    "Blank page after",
)
THINGS = (
    "the invoice list",
    "the photo album",
    "the weekly report",
    "the contact form",
    "the price table",
    "the map",
    "the login dialog",
)
DETAILS = (
    "It happens every time.",
    "Only on the second try.",
    "Seen by two customers.",
    "Please keep the old behaviour for now.",
)
PAGES = {
    "TeamRules": ("= Team rules =", "The weekly call is on {day}.", "Releases go out on {other}.", "Lunch is at noon."),
    "ReleaseSteps": ("= Release steps =", "The build server is called {host}.", "Freeze the branch two days before."),
    "SupportRota": ("= Support rota =", "{person} answers questions this week.", "The hotline number is {number}."),
    "StyleGuide": ("= Style guide =", "Lines have at most {width} characters.", "Names are in English."),
}


def prepare(folder: str) -> None:
    from trac.admin.console import TracAdmin
    from trac.env import open_environment
    from trac.perm import PermissionSystem
    from trac.ticket.model import Component, Milestone, Ticket, Version
    from trac.wiki.model import WikiPage

    said, sys.stdout = sys.stdout, io.StringIO()
    try:
        if TracAdmin(folder).onecmd('initenv "Harbour project" sqlite:db/trac.db'):
            raise SystemExit("Trac could not make its environment")
    finally:
        sys.stdout = said
    env = open_environment(folder)
    for section, name, value in (
        ("trac", "default_timezone", "UTC"), ("trac", "default_dateinfo_format", "absolute"),
        ("trac", "default_date_format", "iso8601"), ("logging", "log_type", "none"),
        ("ticket", "default_owner", "< default >"),
    ):  # fmt: skip
        env.config.set(section, name, value)
    env.config.save()
    PermissionSystem(env).grant_permission(ME, "TRAC_ADMIN")
    dice = random.Random("trac")
    start = datetime(2025, 3, 3, 9, 0, tzinfo=UTC)
    for model in (Component, Milestone, Version):
        for old in list(model.select(env)):
            old.delete()
    for name in COMPONENTS:
        made = Component(env)
        made.name, made.owner = name, dice.choice(PEOPLE)
        made.insert()
    for name, days in MILESTONES:
        made = Milestone(env)
        made.name, made.due = name, start + timedelta(days=days)
        made.insert()
    for name in VERSIONS:
        made = Version(env)
        made.name = name
        made.insert()
    titles = dice.sample([f"{verb} {thing}" for verb in VERBS for thing in THINGS], 40)
    for number, title in enumerate(titles):
        ticket = Ticket(env)
        ticket.populate({
            "summary": title, "description": dice.choice(DETAILS), "type": dice.choice(TYPES),
            "component": dice.choice(COMPONENTS), "priority": dice.choice(PRIORITIES), "version": dice.choice(VERSIONS),
            "milestone": dice.choice([name for name, _ in MILESTONES[:3]] + [""]), "keywords": "", "cc": "",
            "reporter": dice.choice(PEOPLE[1:]), "owner": dice.choice(PEOPLE), "status": "new",
        })  # fmt: skip
        when = start + timedelta(hours=7 * number)
        ticket.insert(when=when)
        if dice.random() < 0.4:
            ticket.save_changes(dice.choice(PEOPLE), dice.choice(DETAILS), when + timedelta(hours=2))
        if dice.random() < 0.3:
            ticket["status"], ticket["resolution"] = "closed", dice.choice(("fixed", "wontfix", "invalid"))
            ticket.save_changes(dice.choice(PEOPLE), "", when + timedelta(hours=3))
    weekdays = dice.sample(("Monday", "Tuesday", "Wednesday", "Thursday", "Friday"), 2)
    facts = {
        "day": weekdays[0], "other": weekdays[1], "host": dice.choice(("heron", "otter", "badger")),
        "person": dice.choice(PEOPLE), "number": str(dice.randrange(4000, 9999)),
        "width": str(dice.choice((88, 96, 110))),
    }  # fmt: skip
    for name, lines in PAGES.items():
        page = WikiPage(env, name)
        page.text = "\n\n".join(lines).format(**facts)
        page.save(ME, "", t=start)
    env.shutdown()


def load(folder: str) -> tuple[Any, Any]:
    import trac.env
    from trac.web.main import dispatch_request

    def answer(environ: dict[str, Any], start_response: Any, path: str) -> Any:
        environ.update({"trac.env_path": path, "REMOTE_USER": ME})
        return dispatch_request(environ, start_response)

    def forget(path: str) -> None:
        with trac.env.env_cache_lock:
            env = trac.env.env_cache.pop(path, None)
        if env is not None:
            env.shutdown()

    return answer, forget


if __name__ == "__main__":
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    from wsgi_host import main

    main(prepare, load)
