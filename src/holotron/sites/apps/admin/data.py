"""What an administration holds: users, what each role may do, files in folders, settings, a log of what happened."""

from __future__ import annotations

import datetime

from holotron.sites.people import password, people, plain
from holotron.sites.tasks import Brief

SCHEMA = """
create table users (id integer primary key, name text, email text, password text, role text, team text, status text,
  staff text, joined text, seen text, reason text);
create table permissions (id integer primary key, role text, name text, allowed int);
create table folders (id integer primary key, parent int, name text);
create table files (id integer primary key, folder int, name text, size int, owner int, day text);
create table settings (id integer primary key, name text, value text);
create table audit (id integer primary key, day text, actor text, action text, target text);
"""

ROLES = ("owner", "manager", "editor", "auditor", "viewer")
STATUSES = ("active", "invited", "deactivated")
TEAMS = ("Engineering", "Finance", "Legal", "Sales", "Support")
PERMISSIONS = ("invite_users", "edit_users", "delete_files", "upload_files", "export_data", "see_audit",
               "edit_settings", "manage_billing")  # fmt: skip
REASONS = ("left", "on_leave", "security", "duplicate")
ACTIONS = ("signed_in", "role_changed", "file_deleted", "file_moved", "invited_user", "deactivated_user",
           "settings_changed", "data_exported")  # fmt: skip
QUOTA = 2048  # megabytes
TIMEOUTS = (120, 180, 240, 360, 480)  # minutes: the longest session that an installation allows

# fmt: off
_FOLDERS = ("Contracts", "Invoices", "Reports", "Photos", "Templates", "Minutes", "Training", "Press")
_INSIDE = ("2023", "2024", "Drafts", "Signed", "Old", "Shared")
_SUBJECTS = ("budget", "roadmap", "offer", "survey", "handbook", "forecast", "checklist", "agenda", "summary",
             "inventory", "schedule", "brochure", "statement", "protocol", "overview", "price-list", "logo", "poster",
             "guide", "plan")
_ENDINGS = ("pdf", "docx", "xlsx", "png", "csv", "pptx")
# fmt: on


def fill(brief: Brief) -> None:
    dice, state = brief.dice, brief.state
    host = dice.choice(("fernwood", "lakeside", "stonebridge", "maplecroft")) + ".example"
    _users(brief, host)
    for role in ROLES:
        for name in PERMISSIONS:
            state.add("permissions", role=role, name=name, allowed=int(role == "owner" or dice.random() < 0.45))
    longest = dice.choice(TIMEOUTS)
    settings = {
        "organisation": host.split(".")[0].title(), "contact": f"office@{host}", "domain": host,
        "timeout": dice.choice((15, 20, 30, 45, 60)), "longest_timeout": longest,
        "password_length": dice.choice((8, 9, 10)), "two_factor": dice.randrange(2),
        "retention": dice.choice((30, 60, 90, 180)), "archive": dice.randrange(2),
    }  # fmt: skip
    for name, value in settings.items():
        state.add("settings", name=name, value=str(value))
    _files(brief)
    _audit(brief)


def _users(brief: Brief, host: str) -> None:
    dice, state, today = brief.dice, brief.state, brief.variation.today
    count = dice.randrange(34, 47)
    joined = dice.sample(range(20, 2000), count)  # days ago; all different, so that "the last one" is one person
    seen = dice.sample(range(1, 300), count)
    for number, person in enumerate(people(dice, brief.t.language, count, host)):
        me = number == 0
        status = "active" if me else dice.choice(("active",) * 6 + ("invited", "deactivated"))
        last = min(seen[number], joined[number] - 1)
        state.add(
            "users", name=person.name, email=person.email, password=password(dice), status=status,
            role="owner" if me else dice.choice(ROLES[1:]), team=dice.choice(TEAMS),
            staff=f"{dice.randrange(100_000, 999_999)}",
            joined=(today - datetime.timedelta(days=joined[number])).isoformat(),
            seen="" if status == "invited" else (today - datetime.timedelta(days=max(1, last))).isoformat(), reason="",
        )  # fmt: skip


def _files(brief: Brief) -> None:
    dice, state, today = brief.dice, brief.state, brief.variation.today
    users = [row["id"] for row in state.all("select id from users")]
    names = [f"{subject}-{year}" for subject in _SUBJECTS for year in range(2019, 2026)]
    names = dice.sample(names, 100)
    folders = [state.add("folders", parent=0, name=name) for name in sorted(dice.sample(_FOLDERS, 6))]
    inner = [
        state.add("folders", parent=parent, name=name)
        for parent in dice.sample(folders, 3)
        for name in sorted(dice.sample(_INSIDE, 2))
    ]
    sizes = dice.sample(range(120, 24_000), 100)  # kilobytes, all different
    for folder in (*folders, *inner):
        for _ in range(dice.randrange(6, 8) if folder in folders else dice.randrange(2, 5)):
            state.add(
                "files", folder=folder, name=f"{names.pop()}.{dice.choice(_ENDINGS)}", size=sizes.pop(),
                owner=dice.choice(users), day=(today - datetime.timedelta(days=dice.randrange(2, 900))).isoformat(),
            )  # fmt: skip


def _audit(brief: Brief) -> None:
    dice, state, today = brief.dice, brief.state, brief.variation.today
    people = [row["name"] for row in state.all("select name from users where role in ('owner', 'manager', 'editor')")]
    targets = {
        "role_changed": [row["name"] for row in state.all("select name from users")],
        "file_deleted": [f"{plain(subject)}-{number}.pdf" for subject in _SUBJECTS for number in range(1, 4)],
        "file_moved": [row["name"] for row in state.all("select name from files")],
        "settings_changed": ["timeout", "retention", "password_length", "two_factor"],
    }
    targets["invited_user"] = targets["deactivated_user"] = targets["role_changed"]
    for days in sorted((dice.randrange(1, 90) for _ in range(dice.randrange(44, 60))), reverse=True):
        action = dice.choice(ACTIONS)
        named = targets.get(action)
        target = named.pop(dice.randrange(len(named))) if named and len(named) > 1 else ""
        state.add("audit", day=(today - datetime.timedelta(days=days)).isoformat(), actor=dice.choice(people),
                  action=action, target=target)  # fmt: skip
