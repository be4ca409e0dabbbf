"""What is asked of a member of a team: the short tasks. Longer ones are in `longer_tasks.py`."""

from __future__ import annotations

import datetime
from typing import Any

from holotron.sites.apps.tracker import plans
from holotron.sites.apps.tracker.data import STATUSES
from holotron.sites.apps.tracker.words import WORDS
from holotron.sites.checks import IMPOSSIBLE, Added, Answered, Changed, Removed, Wanted
from holotron.sites.state import Row
from holotron.sites.tasks import Assignment, Brief, Templates

templates = Templates("tracker")

ME = 1  # the user whose log-in the browser holds
LOG_IN = " My log-in is {email} with the password {password}."
REMARKS = (
    "Please wait for the new design.",
    "I have sent the file to the customer.",
    "This is fixed on the test server.",
    "Can we move this to the next sprint?",
    "Looks good to me.",
)
# fmt: off
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
           "December")
# fmt: on


def english(key: str) -> str:
    """Goals are in English whatever the tracker's language is."""
    return WORDS[key][0]


def me(brief: Brief) -> Row:
    return brief.state.get("select * from users where id = ?", ME)


def said(issue: Row) -> str:
    return f'{issue["key"]} ("{issue["title"]}")'


def start_page(brief: Brief) -> str:
    """Not always the home page."""
    project = brief.dice.randrange(1, 4)
    return brief.dice.choice(("/", "/", f"/issues?project={project}", f"/board?project={project}"))


def later(brief: Brief) -> tuple[str, str]:
    """A day in the weeks to come, as forms want it and as people write it."""
    day = brief.variation.today + datetime.timedelta(days=brief.dice.randrange(20, 200))
    return day.isoformat(), f"{day.day} {_MONTHS[day.month - 1]} {day.year}"


def wanted_fields(issues: dict[int, dict[str, Any]]) -> tuple[Wanted, ...]:
    return tuple(Changed("issues", id, **fields) for id, fields in issues.items())


@templates.add("assign", "short", plan=plans.set_fields)
def assign(brief: Brief) -> Assignment:
    issue = brief.choose("select * from issues where status != 'done'")
    person = brief.choose("select * from users where id != ?", issue["assignee"])
    issues = {issue["id"]: {"assignee": person["id"]}}
    return Assignment(
        goal=brief.say(
            "Assign {issue} to {person}.",
            "{person} should take over {issue}: make that person the assignee.",
            "Please give {issue} to {person}.",
            issue=said(issue) if brief.dice.random() < 0.5 else issue["key"],
            person=person["name"],
        ),
        wanted=wanted_fields(issues),
        facts={"issues": issues, "login": me(brief)},
        signed_in=ME,
        start=start_page(brief),
    )


@templates.add("card", "short", plan=plans.cards, about=("drag", "board"))
def card(brief: Brief) -> Assignment:
    """By dragging the card, or with its arrows; only next to each other on phones, which have no room to drag."""
    issue = brief.choose("select * from issues where status != 'done'")
    place = STATUSES.index(issue["status"])
    column = STATUSES[place + brief.dice.choice((1,) if place == 0 or brief.dice.random() < 0.7 else (-1,))]
    project = brief.state.get("select * from projects where id = ?", issue["project"])
    issues = {issue["id"]: {"status": column}}
    return Assignment(
        goal=brief.say(
            'Move the card {key} to the column "{column}" on the board of {project}.',
            'On the {project} board, {key} belongs into "{column}". Move it there.',
            'Board of the project {project}: put {key} into "{column}".',
            key=issue["key"],
            column=english(column),
            project=project["name"],
        ),
        wanted=wanted_fields(issues),
        facts={"issues": issues, "login": me(brief)},
        signed_in=ME,
    )


@templates.add("who", "short", plan=plans.read, about=("question",))
def who(brief: Brief) -> Assignment:
    """Who has reported an issue, or which milestone it is in."""
    if brief.dice.random() < 0.6:
        issue = brief.choose("select * from issues")
        names = {row["id"]: row["name"] for row in brief.state.all("select * from users")}
        answer, where = names[issue["reporter"]], "reporter"
        question = brief.say(
            "Who reported {key}?", "What is the name of the person who reported {key}?", key=issue["key"]
        )
    else:
        issue = brief.choose("select * from issues where milestone != 0")
        names = {row["id"]: row["name"] for row in brief.state.all("select * from milestones")}
        answer, where = names[issue["milestone"]], "set:milestone"
        question = brief.say(
            "Which milestone is {key} in?", "Name the milestone that {key} belongs to.", key=issue["key"]
        )
    return Assignment(
        goal=question,
        wanted=(Answered(answer, others=tuple({name for name in names.values() if name != answer})),),
        facts={"issue": issue, "where": where, "answer": answer, "login": me(brief)},
        signed_in=ME,
        start=start_page(brief),
    )


@templates.add("comment", "short", plan=plans.comment, about=("form", "pop-up"))
def comment(brief: Brief) -> Assignment:
    issue = brief.choose("select * from issues")
    text = brief.dice.choice(REMARKS)
    brief.trouble(newsletter=brief.dice.choice((1, 2)))
    return Assignment(
        goal=brief.say(
            'Write this comment on {issue}: "{text}"',
            'Add a comment to {issue}. It should say "{text}"',
            issue=issue["key"],
            text=text,
        ),
        wanted=(Added("comments", issue=issue["id"], author=ME, body=text),),
        facts={"issue": issue, "text": text, "login": me(brief)},
        signed_in=ME,
    )


@templates.add("label", "short", plan=plans.label, about=("form",))
def label(brief: Brief) -> Assignment:
    issue = brief.choose("select * from issues where id in (select issue from issue_labels)")
    on = brief.dice.random() < 0.6
    chosen = brief.choose(
        f"select * from labels where id {'not in' if on else 'in'} (select label from issue_labels where issue = ?)",
        issue["id"],
    )
    row = None if on else brief.state.get(
        "select * from issue_labels where issue = ? and label = ?", issue["id"], chosen["id"]
    )  # fmt: skip
    phrasings = (
        ('Add the label "{label}" to {issue}.', 'Label {issue} as "{label}"; keep the labels that it has.')
        if on
        else ('Remove the label "{label}" from {issue}.', 'Take the label "{label}" off {issue} and leave the others.')
    )
    return Assignment(
        goal=brief.say(*phrasings, label=chosen["name"], issue=issue["key"]),
        wanted=(
            (Added("issue_labels", issue=issue["id"], label=chosen["id"]),)
            if row is None
            else (Removed("issue_labels", row["id"]),)
        ),
        facts={"issue": issue, "label": chosen, "on": on, "login": me(brief)},
        signed_in=ME,
        start=start_page(brief),
    )


@templates.add("maybe", "short", plan=plans.maybe, about=("impossible", "blocked"))
def maybe(brief: Brief) -> Assignment:
    """Blocked by an open issue for half of the seeds; for the others the issue that blocks it is done."""
    issue, other = brief.some(2, "select * from issues where status != 'done'")
    brief.state.add("links", issue=other["id"], kind="blocks", other=issue["id"])
    blocked = brief.dice.random() < 0.5
    if not blocked:
        brief.state.run("update issues set status = 'done' where id = ?", other["id"])
    issues = {issue["id"]: {"status": "done"}}
    return Assignment(
        goal=brief.say(
            'Set the status of {key} to "Done". Do not change any other issue. If it cannot be done, answer '
            '"impossible".',
            'Mark {key} as "Done" without touching anything else. Answer "impossible" if the tracker does not allow '
            "it.",
            key=issue["key"],
        ),
        wanted=(IMPOSSIBLE,) if blocked else wanted_fields(issues),
        facts={"issue": issue, "blocked": blocked, "login": me(brief)} | ({} if blocked else {"issues": issues}),
        signed_in=ME,
        start=start_page(brief),
    )
