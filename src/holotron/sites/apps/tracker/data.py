"""What an issue tracker holds: projects, members, issues with labels, comments, milestones and links between issues."""

from __future__ import annotations

import datetime

from holotron.sites.people import password, people
from holotron.sites.tasks import Brief

SCHEMA = """
create table users (id integer primary key, name text, email text, password text);
create table projects (id integer primary key, key text, name text);
create table milestones (id integer primary key, project int, name text, due text, closed int);
create table labels (id integer primary key, name text, hue int);
create table issues (id integer primary key, project int, key text, title text, body text, status text, priority text,
  assignee int, due text, milestone int, reporter int, created text);
create table issue_labels (id integer primary key, issue int, label int);
create table comments (id integer primary key, issue int, author int, body text, day text);
create table links (id integer primary key, issue int, kind text, other int);
"""

STATUSES = ("todo", "doing", "review", "done")  # the columns of the board, from left to right
PRIORITIES = ("low", "medium", "high", "urgent")
KINDS = ("blocks", "blocked_by", "relates", "duplicates")  # how one issue is linked to another
QUICK = ("status", "priority", "assignee", "milestone")  # fields that the issue's page changes at once

# fmt: off
_PROJECTS = (("ATL", "Atlas"), ("BRV", "Bravo"), ("CDR", "Cedar"), ("DLT", "Delta"), ("ECH", "Echo"), ("FJD", "Fjord"),
             ("GLX", "Galaxy"), ("HRB", "Harbour"), ("KTE", "Kite"), ("LUM", "Lumen"))
_LABELS = ("bug", "design", "docs", "security", "mobile", "backend", "payments", "research")
_VERBS = ("Fix", "Rework", "Speed up", "Document", "Simplify", "Test", "Replace", "Clean up", "Translate", "Redesign")
_THINGS = ("login form", "invoice export", "search index", "start page", "password reset", "mail templates",
           "image upload", "price table", "error pages", "date picker", "report builder", "session store",
           "backup job", "settings page", "map view", "audit trail", "help texts", "import wizard")
_PLACES = ("on small screens", "for guests", "in the admin area", "for large teams", "after the update",
           "in dark mode", "for new customers", "on slow networks", "in the nightly run", "for partners")
_BODIES = ("Several customers have asked about this since the last release.",
           "It works in most cases, but the result is wrong when the list is empty.",
           "We should agree on the wording first and change the layout afterwards.",
           "The steps are in the hand book; the screenshots there are out of date.",
           "Nobody has looked at this part for a year. Please keep the change small.")
_REMARKS = ("I can have a look at this next week.", "Same here, on two machines.", "Let us talk about it on Tuesday.",
            "The first half is merged.", "Not sure that this is worth the effort.", "Works for me now, please check.",
            "We had this before, see the old release notes.", "Waiting for an answer from the customer.")
_MILESTONES = ("Spring release", "Summer release", "Autumn release", "Beta", "Launch", "Clean-up", "Pilot", "Rollout")
# fmt: on


def fill(brief: Brief) -> None:
    dice, state, today = brief.dice, brief.state, brief.variation.today
    for person in people(dice, brief.t.language, 6):
        state.add("users", name=person.name, email=person.email, password=password(dice))
    for number, name in enumerate(sorted(dice.sample(_LABELS, 6))):
        state.add("labels", name=name, hue=(dice.randrange(60) + number * 60) % 360)
    titles = [f"{verb} the {thing} {place}" for verb in _VERBS for thing in _THINGS for place in _PLACES]
    titles = dice.sample(titles, 90)
    for key, name in sorted(dice.sample(_PROJECTS, 3)):
        project = state.add("projects", key=key, name=name)
        for when, called in enumerate(dice.sample(_MILESTONES, 3)):
            due = today + datetime.timedelta(days=30 * when + dice.randrange(10, 30))
            state.add("milestones", project=project, name=called, due=due.isoformat(), closed=0)
        _issues(brief, project, key, titles)
    _links(brief)


def _issues(brief: Brief, project: int, key: str, titles: list[str]) -> None:
    dice, state, today = brief.dice, brief.state, brief.variation.today
    users = [row["id"] for row in state.all("select id from users")]
    labels = [row["id"] for row in state.all("select id from labels")]
    milestones = [row["id"] for row in state.all("select id from milestones where project = ?", project)]
    count = dice.randrange(19, 27)
    ages = sorted(dice.sample(range(3, 300), count), reverse=True)
    dues = dice.sample(range(2, 120), count)  # days from now, all different, so that "the first one due" is one
    number = dice.randrange(10, 400)
    for age, days in zip(ages, dues, strict=True):
        number += dice.randrange(1, 9)
        created = today - datetime.timedelta(days=age)
        due = (today + datetime.timedelta(days=days)).isoformat() if dice.random() < 0.7 else ""
        issue = state.add(
            "issues", project=project, key=f"{key}-{number}", title=titles.pop(), body=dice.choice(_BODIES),
            status=dice.choice(STATUSES), priority=dice.choice(PRIORITIES), assignee=dice.choice((0, *users)), due=due,
            milestone=dice.choice((0, *milestones)), reporter=dice.choice(users), created=created.isoformat(),
        )  # fmt: skip
        for label in dice.sample(labels, dice.choice((0, 1, 1, 2))):
            state.add("issue_labels", issue=issue, label=label)
        for _ in range(dice.choice((0, 0, 1, 2, 4))):
            day = created + datetime.timedelta(days=dice.randrange(age))
            state.add("comments", issue=issue, author=dice.choice(users), body=dice.choice(_REMARKS),
                      day=day.isoformat())  # fmt: skip


def _links(brief: Brief) -> None:
    """None of them blocks anything that is open: what is blocked is a task's business."""
    issues = brief.some(16, "select id from issues order by id")
    for first, second in zip(issues[::2], issues[1::2], strict=True):
        small, large = sorted((first["id"], second["id"]))
        brief.state.add("links", issue=small, kind="relates", other=large)
