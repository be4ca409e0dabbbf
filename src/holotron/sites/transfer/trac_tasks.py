"""What is asked of a member of a Trac project. All of it for measuring, none of it for training."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from holotron.errors import ConfigError
from holotron.registry import did_you_mean
from holotron.sites.checks import Added, Answered, Changed, Removed, Wanted
from holotron.sites.state import Row

ME = "alex"  # who is signed in
PEOPLE = ("alex", "bruna", "chiara", "david", "emil", "farah")
PRIORITIES = ("blocker", "critical", "major", "minor", "trivial")
RESOLUTIONS = ("fixed", "wontfix", "invalid", "worksforme")
REMARKS = (
    "Fixed on my machine, please try again.",
    "I need a screenshot to go on.",
    "This depends on the new database.",
    "Shall we move this to the next milestone?",
)


class Numbers:
    """Rows that are known by a name get a number, which is what checks know rows by; tickets keep theirs."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], int] = {}

    def of(self, table: str, key: str) -> int:
        return int(key) if table == "ticket" else self._known.setdefault((table, key), len(self._known) + 1)


@dataclass(frozen=True, slots=True)
class Project:
    """What a task has to work with."""

    rows: Mapping[str, Mapping[str, Row]]
    dice: random.Random
    numbers: Numbers = field(default_factory=Numbers)

    def ticket(self, **wanted: Any) -> Row:
        """One of the tickets with these values."""
        found = [
            row for row in self.rows["ticket"].values() if all(row[name] == value for name, value in wanted.items())
        ]
        return self.dice.choice(sorted(found, key=lambda row: int(row["id"])))

    def one(self, table: str) -> Row:
        return self.rows[table][self.dice.choice(sorted(self.rows[table]))]

    def other(self, values: tuple[str, ...] | list[str], but: str) -> str:
        return self.dice.choice([value for value in sorted(values) if value != but])

    def changed(self, table: str, key: Any, **values: Any) -> Changed:
        return Changed(table, self.numbers.of(table, str(key)), **values)

    def removed(self, table: str, key: str) -> Removed:
        return Removed(table, self.numbers.of(table, key))


@dataclass(frozen=True, slots=True)
class Assignment:
    goal: str
    wanted: tuple[Wanted, ...]
    start: str = "/"


@dataclass(frozen=True, slots=True)
class TracTask:
    name: str
    make: Callable[[Project], Assignment]


TASKS: list[TracTask] = []


def task(name: str) -> Callable[[Callable[[Project], Assignment]], Callable[[Project], Assignment]]:
    def register(make: Callable[[Project], Assignment]) -> Callable[[Project], Assignment]:
        TASKS.append(TracTask(name, make))
        return make

    return register


def find_task(name: str) -> TracTask:
    known = [item.name for item in TASKS]
    if name not in known:
        raise ConfigError(f"there is no trac task {name!r}: {did_you_mean(name, known, shown=5)}")
    return TASKS[known.index(name)]


# ------------------------------------------------------------------------------------------------------------ tickets


def _field(project: Project, name: str, values: tuple[str, ...] | list[str], words: str) -> Assignment:
    """One field of one open ticket."""
    ticket = project.ticket(status="new")
    value = project.other(values, ticket[name])
    return Assignment(
        f"Set the {words} of ticket #{ticket['id']} to {value}.",
        (project.changed("ticket", ticket["id"], **{name: value}),),
    )


@task("priority")
def priority(project: Project) -> Assignment:
    return _field(project, "priority", PRIORITIES, "priority")


@task("component")
def component(project: Project) -> Assignment:
    return _field(project, "component", sorted(project.rows["component"]), "component")


@task("milestone")
def milestone(project: Project) -> Assignment:
    return _field(project, "milestone", sorted(project.rows["milestone"]), "milestone")


@task("version")
def version(project: Project) -> Assignment:
    return _field(project, "version", sorted(project.rows["version"]), "version")


@task("type")
def kind(project: Project) -> Assignment:
    return _field(project, "type", ("defect", "enhancement", "task"), "type")


@task("keywords")
def keywords(project: Project) -> Assignment:
    ticket, word = project.ticket(status="new"), project.dice.choice(("urgent-customer", "demo", "legacy", "quick-win"))
    return Assignment(
        f'Enter "{word}" as the keywords of ticket #{ticket["id"]}.',
        (project.changed("ticket", ticket["id"], keywords=word),),
    )


@task("summary")
def summary(project: Project) -> Assignment:
    ticket = project.ticket(status="new")
    text = f"{ticket['summary']} (again)"
    return Assignment(
        f'Change the summary of ticket #{ticket["id"]} to "{text}".',
        (project.changed("ticket", ticket["id"], summary=text),),
    )


@task("by-title")
def by_title(project: Project) -> Assignment:
    """The ticket is known by its summary."""
    ticket = project.ticket(status="new")
    value = project.other(PRIORITIES, ticket["priority"])
    return Assignment(
        f'Find the ticket "{ticket["summary"]}" and set its priority to {value}.',
        (project.changed("ticket", ticket["id"], priority=value),),
    )


@task("comment")
def comment(project: Project) -> Assignment:
    ticket, text = project.ticket(), project.dice.choice(REMARKS)
    return Assignment(
        f'Write this comment on ticket #{ticket["id"]}: "{text}"', (Added("comment", ticket=ticket["id"], text=text),)
    )


@task("close")
def close(project: Project) -> Assignment:
    ticket, how = project.ticket(status="new"), project.dice.choice(RESOLUTIONS)
    return Assignment(
        f'Close ticket #{ticket["id"]} with the resolution "{how}".',
        (project.changed("ticket", ticket["id"], status="closed", resolution=how),),
    )


@task("reopen")
def reopen(project: Project) -> Assignment:
    ticket = project.ticket(status="closed")
    return Assignment(
        f"Ticket #{ticket['id']} was closed by mistake. Reopen it.",
        (project.changed("ticket", ticket["id"], status="reopened", resolution=""),),
    )


@task("accept")
def accept(project: Project) -> Assignment:
    ticket = project.ticket(status="new")
    values = {"status": "accepted"} | ({} if ticket["owner"] == ME else {"owner": ME})
    return Assignment(
        f"Accept ticket #{ticket['id']}, so that it is mine.", (project.changed("ticket", ticket["id"], **values),)
    )


@task("assign")
def assign(project: Project) -> Assignment:
    ticket = project.ticket(status="new")
    person = project.other(PEOPLE, ticket["owner"])
    return Assignment(
        f"Assign ticket #{ticket['id']} to {person}.",
        (project.changed("ticket", ticket["id"], status="assigned", owner=person),),
    )


@task("new-ticket")
def new_ticket(project: Project) -> Assignment:
    title = project.dice.choice(("Printer prints blank pages", "Clock is one hour late", "Logo is cut off"))
    values = {
        "summary": title,
        "type": project.dice.choice(("defect", "task")),
        "priority": project.dice.choice(PRIORITIES),
        "component": project.one("component")["name"],
        "milestone": project.one("milestone")["name"],
    }
    return Assignment(
        f'Create a ticket with the summary "{title}": type {values["type"]}, priority {values["priority"]}, component '
        f"{values['component']}, milestone {values['milestone']}.",
        (Added("ticket", status="new", **values),),
    )


@task("two-fields")
def two_fields(project: Project) -> Assignment:
    """Two fields and a comment."""
    ticket, text = project.ticket(status="new"), project.dice.choice(REMARKS)
    values = {
        "priority": project.other(PRIORITIES, ticket["priority"]),
        "milestone": project.other(sorted(project.rows["milestone"]), ticket["milestone"]),
    }
    return Assignment(
        f"Set the priority of ticket #{ticket['id']} to {values['priority']} and its milestone to "
        f'{values["milestone"]}, and leave the comment "{text}"',
        (project.changed("ticket", ticket["id"], **values), Added("comment", ticket=ticket["id"], text=text)),
    )


# ----------------------------------------------------------------------------------------- wiki, planning, questions


@task("wiki-new")
def wiki_new(project: Project) -> Assignment:
    name = project.dice.choice(("MeetingNotes", "ServerList", "HolidayPlan"))
    text = project.dice.choice(("To be written by Friday.", "See the shared folder.", "Ask the office for details."))
    return Assignment(
        f'Create the wiki page {name} with the text "{text}"', (Added("wiki", name=name, text=text),), "/wiki"
    )


@task("wiki-edit")
def wiki_edit(project: Project) -> Assignment:
    lines = {"TeamRules": "Lunch is at noon.", "ReleaseSteps": "two days before", "StyleGuide": "in English"}
    new = {"TeamRules": "Lunch is at one.", "ReleaseSteps": "three days before", "StyleGuide": "in plain English"}
    name = project.dice.choice(sorted(lines))
    text = project.rows["wiki"][name]["text"].replace(lines[name], new[name])
    return Assignment(
        f'On the wiki page {name}, replace "{lines[name]}" by "{new[name]}" and change nothing else.',
        (project.changed("wiki", name, text=text),),
    )


@task("new-milestone")
def new_milestone(project: Project) -> Assignment:
    name = project.dice.choice(("Estuary", "Ferry", "Gangway"))
    due = (datetime.date(2027, 1, 1) + datetime.timedelta(days=project.dice.randrange(300))).isoformat()
    return Assignment(
        f"Add a milestone called {name} that is due on {due}.",
        (Added("milestone", name=name, due=due, completed=0),),
        "/roadmap",
    )


@task("complete")
def complete(project: Project) -> Assignment:
    """The last milestone has no tickets that would have to go elsewhere."""
    return Assignment(
        "Mark the milestone Dinghy as completed.", (project.changed("milestone", "Dinghy", completed=1),), "/roadmap"
    )


@task("new-component")
def new_component(project: Project) -> Assignment:
    name, owner = project.dice.choice(("printing", "calendar", "backup")), project.dice.choice(PEOPLE)
    return Assignment(
        f'In the administration, add a component "{name}" owned by {owner}.',
        (Added("component", name=name, owner=owner),),
    )


@task("new-version")
def new_version(project: Project) -> Assignment:
    name = project.dice.choice(("1.2", "2.0", "2.1"))
    return Assignment(f'In the administration, add the version "{name}".', (Added("version", name=name),))


@task("component-owner")
def component_owner(project: Project) -> Assignment:
    row = project.one("component")
    person = project.other(PEOPLE, row["owner"])
    return Assignment(
        f"Make {person} the owner of the component {row['name']} in the administration.",
        (project.changed("component", row["name"], owner=person),),
    )


@task("remove-version")
def remove_version(project: Project) -> Assignment:
    """Tickets keep what they say about it."""
    name = project.one("version")["name"]
    return Assignment(f'Remove the version "{name}" in the administration.', (project.removed("version", name),))


@task("who-reported")
def who_reported(project: Project) -> Assignment:
    ticket = project.ticket()
    others = tuple(name for name in PEOPLE if name != ticket["reporter"])
    return Assignment(
        f"Who reported ticket #{ticket['id']}? Answer with the name.", (Answered(ticket["reporter"], others=others),)
    )


@task("which-component")
def which_component(project: Project) -> Assignment:
    ticket = project.ticket()
    others = tuple(name for name in sorted(project.rows["component"]) if name != ticket["component"])
    return Assignment(
        f'Which component does the ticket "{ticket["summary"]}" belong to?',
        (Answered(ticket["component"], others=others),),
    )


@task("count-open")
def count_open(project: Project) -> Assignment:
    name = project.dice.choice(("Anchor", "Beacon", "Compass"))
    number = sum(row["milestone"] == name and row["status"] != "closed" for row in project.rows["ticket"].values())
    return Assignment(
        f"How many tickets of the milestone {name} are not closed? Answer with a number.",
        (Answered(str(number), "number", tuple(str(n) for n in range(41) if n != number)),),
    )


@task("wiki-read")
def wiki_read(project: Project) -> Assignment:
    """A fact from a page of the wiki."""
    text = {name: project.rows["wiki"][name]["text"] for name in ("TeamRules", "ReleaseSteps", "SupportRota")}
    days = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
    day = text["TeamRules"].split("weekly call is on ")[1].split(".")[0]
    number = text["SupportRota"].split("hotline number is ")[1].split(".")[0]
    host = text["ReleaseSteps"].split("server is called ")[1].split(".")[0]
    question, wanted = project.dice.choice(
        (
            ("On which day is the weekly call, according to the team's rules?",
             Answered(day, others=tuple(d for d in days if d != day))),
            ("What is the hotline number on the page SupportRota?", Answered(number, "number")),
            ("What is the build server called, according to the release steps?", Answered(host)),
        )
    )  # fmt: skip
    return Assignment(f"Look into the wiki. {question}", (wanted,))
