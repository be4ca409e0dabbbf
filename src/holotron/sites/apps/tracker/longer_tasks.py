"""The tracker's medium and long tasks."""

from __future__ import annotations

from typing import Any

from holotron.sites.apps.tracker import plans
from holotron.sites.apps.tracker.data import PRIORITIES, STATUSES
from holotron.sites.apps.tracker.tasks import (
    LOG_IN,
    ME,
    english,
    later,
    me,
    start_page,
    templates,
    wanted_fields,
)
from holotron.sites.checks import Added, Answered, Changed
from holotron.sites.state import Row
from holotron.sites.tasks import Assignment, Brief

REPORTS = (
    ("The export stops at the first empty row", "Happens with every file that has a gap."),
    ("Names with accents are cut off", "Seen on the invoice and on the delivery note."),
    ("The calendar shows the wrong week", "Only for people who start the week on Sunday."),
    ("Printing leaves out the last page", "Two customers have called about it this week."),
)
BUILDS = "The problem is there in build {value} and not before."


def project_of(brief: Brief, issue: Row) -> Row:
    return brief.state.get("select * from projects where id = ?", issue["project"])


# ------------------------------------------------------------------------------------------------------------- medium


@templates.add("create", "medium", plan=plans.create, about=("form that rejects",))
def create(brief: Brief) -> Assignment:
    """The date is not written as the form wants it."""
    (title, body), (due, as_written) = brief.dice.choice(REPORTS), later(brief)
    project, person = brief.choose("select * from projects"), brief.choose("select * from users")
    priority = brief.dice.choice(PRIORITIES)
    new = {"project": project["id"], "title": title, "body": body, "priority": priority, "assignee": person["id"],
           "due": due}  # fmt: skip
    return Assignment(
        goal=brief.say(
            'Create an issue in the project {project}: title "{title}", description "{body}", priority {priority}, '
            "assigned to {person}, due on {due}.",
            'Report a problem in {project}. Title: "{title}". Description: "{body}" Priority: {priority}. Assignee: '
            "{person}. Due date: {due}.",
            project=project["name"],
            title=title,
            body=body,
            priority=english(priority),
            person=person["name"],
            due=as_written,
        ),
        wanted=(Added("issues", **new),),
        facts={"new": {**new, "due_as_written": as_written}, "login": me(brief)},
        signed_in=ME,
        start=start_page(brief),
    )


@templates.add("count", "medium", plan=plans.count, about=("question", "filter", "counting", "pagination"))
def count(brief: Brief) -> Assignment:
    project = brief.choose("select * from projects")
    field = brief.dice.choice(("assignee", "priority"))
    groups = brief.state.all(
        f"select {field} value, count(*) n from issues where project = ? and {field} != 0 group by value having n >= 2 "
        "order by value",
        project["id"],
    )
    group = brief.dice.choice(groups)
    words = (
        f"are assigned to {brief.state.value('select name from users where id = ?', group['value'])}"
        if field == "assignee"
        else f"have the priority {english(group['value'])}"
    )
    return Assignment(
        goal=brief.say(
            "How many issues of the project {project} {words}? Count all of them, whatever their status, and answer "
            "with a number.",
            "Count the issues in {project} that {words}, done or not. Answer with the number.",
            project=project["name"],
            words=words,
        ),
        wanted=(Answered(str(group["n"]), "number", tuple(str(n) for n in range(40) if n != group["n"])),),
        facts={
            "filters": {"project": project["id"], field: group["value"]},
            "number": group["n"],
            "login": me(brief),
        },
        signed_in=ME,
    )


@templates.add("first-due", "medium", plan=plans.first_due, about=("question", "sorting", "filter"))
def first_due(brief: Brief) -> Assignment:
    group = brief.choose(
        "select project, status from issues where due != '' and status != 'done' group by project, status "
        "having count(*) > 1"
    )
    status, project = group["status"], project_of(brief, group)
    found = brief.state.all(
        "select * from issues where project = ? and status = ? and due != '' order by due", project["id"], status
    )
    others = brief.state.all("select key from issues where id != ?", found[0]["id"])
    return Assignment(
        goal=brief.say(
            'Which issue of the project {project} with the status "{status}" is due first? Answer with its key, like '
            "ABC-12.",
            'Look at the issues in {project} that are "{status}". Answer with the key of the one with the earliest due '
            "date.",
            project=project["name"],
            status=english(status),
        ),
        wanted=(Answered(found[0]["key"], others=tuple(row["key"] for row in others)),),
        facts={"filters": {"project": project["id"], "status": status}, "issue": found[0], "login": me(brief)},
        signed_in=ME,
    )


@templates.add("link", "medium", plan=plans.link, about=("recall", "form"))
def link(brief: Brief) -> Assignment:
    """One of the two is known by its title; the form wants its key."""
    issue, other = brief.some(
        2, "select * from issues where id not in (select issue from links union select other from links)"
    )
    kind = brief.dice.choice(("blocks", "blocked_by", "duplicates"))
    first, second = (other, issue) if kind == "blocked_by" else (issue, other)
    stored = "duplicates" if kind == "duplicates" else "blocks"
    return Assignment(
        goal=brief.say(
            'Add a link to {key}: it {kind} the issue "{title}".',
            'Note in the tracker that {key} {kind} the issue called "{title}", by linking the two.',
            key=issue["key"],
            kind=english(kind),
            title=other["title"],
        ),
        wanted=(Added("links", issue=first["id"], kind=stored, other=second["id"]),),
        facts={"issue": issue, "other": other, "kind": kind, "login": me(brief)},
        signed_in=ME,
    )


@templates.add("recall", "medium", plan=plans.recall, about=("recall", "form"))
def recall(brief: Brief) -> Assignment:
    """A number from one issue's comments has to reach one to three others, the last of them many steps later."""
    source, *targets = brief.some(1 + brief.dice.randrange(1, 4), "select * from issues")
    value = f"{brief.dice.choice('BKMTX')}{brief.dice.randrange(1000, 9999)}"
    decoy = f"{brief.dice.choice('BKMTX')}{brief.dice.randrange(1000, 9999)}"
    author, other = brief.some(2, "select * from users")
    today = brief.variation.today.isoformat()
    rows = [
        brief.state.add("comments", issue=source["id"], author=person["id"], body=BUILDS.format(value=build), day=today)
        for person, build in brief.dice.sample([(author, value), (other, decoy)], 2)
    ]
    comment = next(
        row for row in rows if brief.state.value("select author from comments where id = ?", row) == author["id"]
    )
    keys = " and ".join(issue["key"] for issue in targets)
    return Assignment(
        goal=brief.say(
            "In a comment on {source}, {author} says in which build the problem is. Write a comment that holds only "
            "that build on {keys}.",
            "{author} names a build in a comment on {source}. Comment with that build, and nothing else, on {keys}.",
            source=source["key"],
            author=author["name"],
            keys=keys,
        ),
        wanted=tuple(Added("comments", issue=issue["id"], body=value) for issue in targets),
        facts={"source": source, "comment": comment, "value": value, "targets": [issue["id"] for issue in targets],
               "login": me(brief)},
        signed_in=ME,
    )  # fmt: skip


@templates.add("milestone", "medium", plan=plans.milestone, about=("form that rejects", "slow page"))
def milestone(brief: Brief) -> Assignment:
    issue, (due, as_written) = brief.choose("select * from issues where status != 'done'"), later(brief)
    project = project_of(brief, issue)
    name = f"{brief.dice.choice(('Sprint', 'Review', 'Phase', 'Delivery'))} {brief.dice.randrange(2, 90)}"
    made = 1 + brief.state.value("select max(id) from milestones")
    brief.trouble(slow="/milestones")
    return Assignment(
        goal=brief.say(
            'Create the milestone "{name}" in the project {project}, due on {due}, and put {key} into it.',
            'In {project} we need a milestone "{name}" for {due}. Create it, then set it as the milestone of {key}.',
            name=name,
            project=project["name"],
            due=as_written,
            key=issue["key"],
        ),
        wanted=(
            Added("milestones", project=project["id"], name=name, due=due),
            Changed("issues", issue["id"], milestone=made),
        ),
        facts={
            "project": project["id"], "new": {"name": name, "due": due, "due_as_written": as_written}, "issue": issue,
            "issues": {issue["id"]: {"milestone": made}}, "login": me(brief),
        },
        signed_in=ME,
    )  # fmt: skip


@templates.add("edit", "medium", plan=plans.edit, about=("expired log-in", "form"))
def edit(brief: Brief) -> Assignment:
    issue, (due, _) = brief.choose("select * from issues"), later(brief)
    title = brief.dice.choice(REPORTS)[0]
    user = me(brief)
    brief.trouble(signed_out=brief.dice.choice((3, 4)))
    return Assignment(
        goal=brief.say(
            'Edit {key}: change its title to "{title}" and its due date to {due}.',
            'The issue {key} should be called "{title}" and be due on {due}. Please edit it.',
            key=issue["key"],
            title=title,
            due=due,
        )
        + LOG_IN.format(**user),
        wanted=(Changed("issues", issue["id"], title=title, due=due),),
        facts={"issue": issue, "new": {"title": title, "due": due}, "login": user},
        signed_in=ME,
    )


@templates.add("stand-up", "medium", plan=plans.cards, about=("drag", "board"))
def stand_up(brief: Brief) -> Assignment:
    """Several cards of one board."""
    project = brief.choose("select * from projects")
    chosen = brief.some(5, "select * from issues where project = ?", project["id"])
    for row in chosen:
        row["status"] = brief.dice.choice(STATUSES[:2])
        brief.state.run("update issues set status = ? where id = ?", row["status"], row["id"])
    issues = {row["id"]: {"status": STATUSES[STATUSES.index(row["status"]) + 1]} for row in chosen}
    parts = [f'{row["key"]} to "{english(issues[row["id"]]["status"])}"' for row in chosen]
    return Assignment(
        goal=brief.say(
            "Update the board of {project} after our meeting: move {parts}.",
            "On the {project} board, please move {parts}.",
            project=project["name"],
            parts=", ".join(parts),
        ),
        wanted=wanted_fields(issues),
        facts={"issues": issues, "login": me(brief)},
        signed_in=ME,
    )


# --------------------------------------------------------------------------------------------------------------- long


@templates.add("bulk", "long", plan=plans.bulk, about=("bulk edit", "filter", "pagination"))
def bulk(brief: Brief) -> Assignment:
    """Everything with a label and a status, ticked one by one or all at once."""
    project, label = brief.choose("select * from projects"), brief.choose("select * from labels")
    status = brief.dice.choice(STATUSES[:3])
    rows = brief.some(brief.dice.randrange(6, 9), "select * from issues where project = ? order by id", project["id"])
    brief.state.run(
        "delete from issue_labels where label = ? and issue in "
        "(select id from issues where project = ? and status = ?)",
        label["id"], project["id"], status,
    )  # fmt: skip
    for row in rows:
        brief.state.run("update issues set status = ? where id = ?", status, row["id"])
        brief.state.run("delete from issue_labels where issue = ? and label = ?", row["id"], label["id"])
        brief.state.add("issue_labels", issue=row["id"], label=label["id"])
    field = brief.dice.choice(("priority", "assignee"))
    value: Any
    different: Any
    if field == "priority":
        value = brief.dice.choice(PRIORITIES)
        change = f"the priority {english(value)}"
        different = next(priority for priority in PRIORITIES if priority != value)
    else:
        person = brief.choose("select * from users")
        value, change, different = person["id"], f"the assignee {person['name']}", 0
    for row in rows:  # each of them has to be changed
        brief.state.run(f"update issues set {field} = ? where id = ? and {field} = ?", different, row["id"], value)
    issues = {row["id"]: {field: value} for row in rows}
    return Assignment(
        goal=brief.say(
            'Give all issues of the project {project} with the status "{status}" and the label "{label}" {change}.',
            'In {project}, every issue that is labelled "{label}" and has the status "{status}" gets {change}. Leave '
            "the other issues as they are.",
            project=project["name"],
            status=english(status),
            label=label["name"],
            change=change,
        ),
        wanted=wanted_fields(issues),
        facts={
            "issues": issues,
            "filters": {"project": project["id"], "status": status, "label": label["id"]},
            "login": me(brief),
        },
        signed_in=ME,
        start=start_page(brief),
    )


@templates.add("triage", "long", plan=plans.set_fields, about=("form",))
def triage(brief: Brief) -> Assignment:
    chosen = brief.some(3, "select * from issues where status in ('todo', 'doing')")
    issues: dict[int, dict[str, Any]] = {}
    parts = []
    for row in chosen:
        person = brief.choose("select * from users where id != ?", row["assignee"])
        priority = brief.dice.choice([key for key in PRIORITIES if key != row["priority"]])
        status = brief.dice.choice([key for key in STATUSES[:3] if key != row["status"]])
        issues[row["id"]] = {"assignee": person["id"], "priority": priority, "status": status}
        parts.append(f'{row["key"]}: {person["name"]}, {english(priority)}, "{english(status)}"')
    return Assignment(
        goal=brief.say(
            "Set assignee, priority and status of these issues. {parts}.",
            "Result of our triage (assignee, priority, status), please enter it: {parts}.",
            parts="; ".join(parts),
        ),
        wanted=wanted_fields(issues),
        facts={"issues": issues, "login": me(brief)},
        signed_in=ME,
        start=start_page(brief),
    )


@templates.add("clear-milestone", "long", plan=plans.clear_milestone, about=("bulk edit", "log-in", "refused"))
def clear_milestone(brief: Brief) -> Assignment:
    """A milestone with open issues cannot be closed."""
    project = brief.choose("select * from projects")
    old, new = brief.some(2, "select * from milestones where project = ? order by id", project["id"])
    rows = brief.some(brief.dice.randrange(5, 8), "select * from issues where project = ? order by id", project["id"])
    brief.state.run("update issues set milestone = 0 where milestone = ? and status != 'done'", old["id"])
    for row in rows:
        status = row["status"] if row["status"] != "done" else "todo"
        brief.state.run("update issues set milestone = ?, status = ? where id = ?", old["id"], status, row["id"])
    issues = {row["id"]: {"milestone": new["id"]} for row in rows}
    user = me(brief)
    return Assignment(
        goal=brief.say(
            'The milestone "{old}" of {project} is over. Move all its issues that are not done to the milestone '
            '"{new}", then close "{old}". Issues that are done stay where they are.',
            'In {project}, everything in the milestone "{old}" that is not done goes to "{new}". After that, close '
            '"{old}". Leave done issues in it.',
            old=old["name"],
            new=new["name"],
            project=project["name"],
        )
        + LOG_IN.format(**user),
        wanted=(*wanted_fields(issues), Changed("milestones", old["id"], closed=1)),
        facts={"issues": issues, "old": old, "project": project["id"], "login": user},
    )
