"""What is asked of a member of a Trac project. All of it for measuring, none of it for training."""

from __future__ import annotations

import datetime

from holotron.sites.checks import Added, Answered
from holotron.sites.transfer.tasks import Assignment, TaskList, World

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


tasks = TaskList("trac")


# ------------------------------------------------------------------------------------------------------------ tickets


def _field(world: World, name: str, values: tuple[str, ...] | list[str], words: str) -> Assignment:
    """One field of one open ticket."""
    ticket = world.row("ticket", status="new")
    value = world.other(values, ticket[name])
    return Assignment(
        f"Set the {words} of ticket #{ticket['id']} to {value}.",
        (world.changed("ticket", ticket["id"], **{name: value}),),
    )


@tasks.add("priority", "short")
def priority(world: World) -> Assignment:
    return _field(world, "priority", PRIORITIES, "priority")


@tasks.add("component", "short")
def component(world: World) -> Assignment:
    return _field(world, "component", sorted(world.rows["component"]), "component")


@tasks.add("milestone", "short")
def milestone(world: World) -> Assignment:
    return _field(world, "milestone", sorted(world.rows["milestone"]), "milestone")


@tasks.add("version", "short")
def version(world: World) -> Assignment:
    return _field(world, "version", sorted(world.rows["version"]), "version")


@tasks.add("type", "short")
def kind(world: World) -> Assignment:
    return _field(world, "type", ("defect", "enhancement", "task"), "type")


@tasks.add("keywords", "short")
def keywords(world: World) -> Assignment:
    ticket, word = (
        world.row("ticket", status="new"),
        world.dice.choice(("urgent-customer", "demo", "legacy", "quick-win")),
    )
    return Assignment(
        f'Enter "{word}" as the keywords of ticket #{ticket["id"]}.',
        (world.changed("ticket", ticket["id"], keywords=word),),
    )


@tasks.add("summary", "short")
def summary(world: World) -> Assignment:
    ticket = world.row("ticket", status="new")
    text = f"{ticket['summary']} (again)"
    return Assignment(
        f'Change the summary of ticket #{ticket["id"]} to "{text}".',
        (world.changed("ticket", ticket["id"], summary=text),),
    )


@tasks.add("by-title", "short")
def by_title(world: World) -> Assignment:
    """The ticket is known by its summary."""
    ticket = world.row("ticket", status="new")
    value = world.other(PRIORITIES, ticket["priority"])
    return Assignment(
        f'Find the ticket "{ticket["summary"]}" and set its priority to {value}.',
        (world.changed("ticket", ticket["id"], priority=value),),
    )


@tasks.add("comment", "short")
def comment(world: World) -> Assignment:
    ticket, text = world.row("ticket"), world.dice.choice(REMARKS)
    return Assignment(
        f'Write this comment on ticket #{ticket["id"]}: "{text}"', (Added("comment", ticket=ticket["id"], text=text),)
    )


@tasks.add("close", "medium")
def close(world: World) -> Assignment:
    ticket, how = world.row("ticket", status="new"), world.dice.choice(RESOLUTIONS)
    return Assignment(
        f'Close ticket #{ticket["id"]} with the resolution "{how}".',
        (world.changed("ticket", ticket["id"], status="closed", resolution=how),),
    )


@tasks.add("reopen", "short")
def reopen(world: World) -> Assignment:
    ticket = world.row("ticket", status="closed")
    return Assignment(
        f"Ticket #{ticket['id']} was closed by mistake. Reopen it.",
        (world.changed("ticket", ticket["id"], status="reopened", resolution=""),),
    )


@tasks.add("accept", "short")
def accept(world: World) -> Assignment:
    ticket = world.row("ticket", status="new")
    values = {"status": "accepted"} | ({} if ticket["owner"] == ME else {"owner": ME})
    return Assignment(
        f"Accept ticket #{ticket['id']}, so that it is mine.", (world.changed("ticket", ticket["id"], **values),)
    )


@tasks.add("assign", "medium")
def assign(world: World) -> Assignment:
    ticket = world.row("ticket", status="new")
    person = world.other(PEOPLE, ticket["owner"])
    return Assignment(
        f"Assign ticket #{ticket['id']} to {person}.",
        (world.changed("ticket", ticket["id"], status="assigned", owner=person),),
    )


@tasks.add("new-ticket", "medium")
def new_ticket(world: World) -> Assignment:
    title = world.dice.choice(("Printer prints blank pages", "Clock is one hour late", "Logo is cut off"))
    values = {
        "summary": title,
        "type": world.dice.choice(("defect", "task")),
        "priority": world.dice.choice(PRIORITIES),
        "component": world.one("component")["name"],
        "milestone": world.one("milestone")["name"],
    }
    return Assignment(
        f'Create a ticket with the summary "{title}": type {values["type"]}, priority {values["priority"]}, component '
        f"{values['component']}, milestone {values['milestone']}.",
        (Added("ticket", status="new", **values),),
    )


@tasks.add("two-fields", "medium")
def two_fields(world: World) -> Assignment:
    """Two fields and a comment."""
    ticket, text = world.row("ticket", status="new"), world.dice.choice(REMARKS)
    values = {
        "priority": world.other(PRIORITIES, ticket["priority"]),
        "milestone": world.other(sorted(world.rows["milestone"]), ticket["milestone"]),
    }
    return Assignment(
        f"Set the priority of ticket #{ticket['id']} to {values['priority']} and its milestone to "
        f'{values["milestone"]}, and leave the comment "{text}"',
        (world.changed("ticket", ticket["id"], **values), Added("comment", ticket=ticket["id"], text=text)),
    )


# ----------------------------------------------------------------------------------------- wiki, planning, questions


@tasks.add("wiki-new", "medium")
def wiki_new(world: World) -> Assignment:
    name = world.dice.choice(("MeetingNotes", "ServerList", "HolidayPlan"))
    text = world.dice.choice(("To be written by Friday.", "See the shared folder.", "Ask the office for details."))
    return Assignment(
        f'Create the wiki page {name} with the text "{text}"', (Added("wiki", name=name, text=text),), "/wiki"
    )


@tasks.add("wiki-edit", "medium")
def wiki_edit(world: World) -> Assignment:
    lines = {"TeamRules": "Lunch is at noon.", "ReleaseSteps": "two days before", "StyleGuide": "in English"}
    new = {"TeamRules": "Lunch is at one.", "ReleaseSteps": "three days before", "StyleGuide": "in plain English"}
    name = world.dice.choice(sorted(lines))
    text = world.rows["wiki"][name]["text"].replace(lines[name], new[name])
    return Assignment(
        f'On the wiki page {name}, replace "{lines[name]}" by "{new[name]}" and change nothing else.',
        (world.changed("wiki", name, text=text),),
    )


@tasks.add("new-milestone", "medium")
def new_milestone(world: World) -> Assignment:
    name = world.dice.choice(("Estuary", "Ferry", "Gangway"))
    due = (datetime.date(2027, 1, 1) + datetime.timedelta(days=world.dice.randrange(300))).isoformat()
    return Assignment(
        f"Add a milestone called {name} that is due on {due}.",
        (Added("milestone", name=name, due=due, completed=0),),
        "/roadmap",
    )


@tasks.add("complete", "medium")
def complete(world: World) -> Assignment:
    """The last milestone has no tickets that would have to go elsewhere."""
    return Assignment(
        "Mark the milestone Dinghy as completed.", (world.changed("milestone", "Dinghy", completed=1),), "/roadmap"
    )


@tasks.add("new-component", "medium")
def new_component(world: World) -> Assignment:
    name, owner = world.dice.choice(("printing", "calendar", "backup")), world.dice.choice(PEOPLE)
    return Assignment(
        f'In the administration, add a component "{name}" owned by {owner}.',
        (Added("component", name=name, owner=owner),),
    )


@tasks.add("new-version", "medium")
def new_version(world: World) -> Assignment:
    name = world.dice.choice(("1.2", "2.0", "2.1"))
    return Assignment(f'In the administration, add the version "{name}".', (Added("version", name=name),))


@tasks.add("component-owner", "medium")
def component_owner(world: World) -> Assignment:
    row = world.one("component")
    person = world.other(PEOPLE, row["owner"])
    return Assignment(
        f"Make {person} the owner of the component {row['name']} in the administration.",
        (world.changed("component", row["name"], owner=person),),
    )


@tasks.add("remove-version", "medium")
def remove_version(world: World) -> Assignment:
    """Tickets keep what they say about it."""
    name = world.one("version")["name"]
    return Assignment(f'Remove the version "{name}" in the administration.', (world.removed("version", name),))


@tasks.add("who-reported", "short")
def who_reported(world: World) -> Assignment:
    ticket = world.row("ticket")
    others = tuple(name for name in PEOPLE if name != ticket["reporter"])
    return Assignment(
        f"Who reported ticket #{ticket['id']}? Answer with the name.", (Answered(ticket["reporter"], others=others),)
    )


@tasks.add("which-component", "short")
def which_component(world: World) -> Assignment:
    ticket = world.row("ticket")
    others = tuple(name for name in sorted(world.rows["component"]) if name != ticket["component"])
    return Assignment(
        f'Which component does the ticket "{ticket["summary"]}" belong to?',
        (Answered(ticket["component"], others=others),),
    )


@tasks.add("count-open", "medium")
def count_open(world: World) -> Assignment:
    name = world.dice.choice(("Anchor", "Beacon", "Compass"))
    number = sum(row["milestone"] == name and row["status"] != "closed" for row in world.rows["ticket"].values())
    return Assignment(
        f"How many tickets of the milestone {name} are not closed? Answer with a number.",
        (Answered(str(number), "number", tuple(str(n) for n in range(41) if n != number)),),
    )


@tasks.add("wiki-read", "short")
def wiki_read(world: World) -> Assignment:
    """A fact from a page of the wiki."""
    text = {name: world.rows["wiki"][name]["text"] for name in ("TeamRules", "ReleaseSteps", "SupportRota")}
    days = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
    day = text["TeamRules"].split("weekly call is on ")[1].split(".")[0]
    number = text["SupportRota"].split("hotline number is ")[1].split(".")[0]
    host = text["ReleaseSteps"].split("server is called ")[1].split(".")[0]
    question, wanted = world.dice.choice(
        (
            ("On which day is the weekly call, according to the team's rules?",
             Answered(day, others=tuple(d for d in days if d != day))),
            ("What is the hotline number on the page SupportRota?", Answered(number, "number")),
            ("What is the build server called, according to the release steps?", Answered(host)),
        )
    )  # fmt: skip
    return Assignment(f"Look into the wiki. {question}", (wanted,))
