"""The administration's medium and long tasks."""

from __future__ import annotations

from typing import Any

from holotron.sites.apps.admin import plans
from holotron.sites.apps.admin.data import PERMISSIONS, QUOTA, REASONS, ROLES, TEAMS
from holotron.sites.apps.admin.tasks import LOG_IN, ME, english, me, set_setting, start_page, templates
from holotron.sites.checks import IMPOSSIBLE, Added, Answered, Changed, Removed
from holotron.sites.people import people
from holotron.sites.tasks import Assignment, Brief


def newcomers(brief: Brief, count: int) -> list[dict[str, Any]]:
    """People who have no account yet, with staff numbers as people write them."""
    domain = brief.state.value("select value from settings where name = 'domain'")
    taken = {row["email"] for row in brief.state.all("select email from users")}
    found = [person for person in people(brief.dice, brief.t.language, 60, domain) if person.email not in taken]
    made = []
    for person in found[:count]:
        staff = f"{brief.dice.randrange(100_000, 999_999)}"
        mark = brief.dice.choice((" ", "-"))
        made.append(
            {
                "name": person.name, "email": person.email, "staff": staff, "role": brief.dice.choice(ROLES[1:]),
                "staff_as_written": f"{staff[:3]}{mark}{staff[3:]}", "team": brief.dice.choice(TEAMS),
            }
        )  # fmt: skip
    return made


def told(person: dict[str, Any]) -> str:
    return (
        f"{person['name']}, {person['email']}, staff number {person['staff_as_written']}, "
        f"role {english(person['role'])}, team {person['team']}"
    )


def invited(person: dict[str, Any]) -> Added:
    kept = {name: person[name] for name in ("name", "email", "staff", "role", "team")}
    return Added("users", status="invited", **kept)


# ------------------------------------------------------------------------------------------------------------- medium


@templates.add("invite", "medium", plan=plans.invite, about=("form that rejects",))
def invite(brief: Brief) -> Assignment:
    """The staff number is not written as the form wants it."""
    (person,) = newcomers(brief, 1)
    return Assignment(
        goal=brief.say(
            "Invite a new user: {told}.",
            "Somebody new starts on Monday. Send an invitation: {told}.",
            told=told(person),
        ),
        wanted=(invited(person),),
        facts={"new": [person], "login": me(brief)},
        signed_in=ME,
        start=start_page(brief),
    )


@templates.add("deactivate", "medium", plan=plans.deactivate, about=("expired log-in", "confirmation"))
def deactivate(brief: Brief) -> Assignment:
    user = brief.choose("select * from users where status = 'active' and id != ?", ME)
    reason, admin = brief.dice.choice(REASONS), me(brief)
    brief.trouble(signed_out=brief.dice.choice((3, 4)))
    return Assignment(
        goal=brief.say(
            'Deactivate the account of {name}. The reason is "{reason}".',
            '{name} must not be able to sign in any more: deactivate the account, with the reason "{reason}".',
            name=user["name"],
            reason=english(reason),
        )
        + LOG_IN.format(**admin),
        wanted=(Changed("users", user["id"], status="deactivated", reason=reason),),
        facts={"user": user, "reason": reason, "people": [user["id"]], "login": admin},
        signed_in=ME,
    )


@templates.add("who-did-it", "medium", plan=plans.audit, about=("question", "filter", "pagination", "audit log"))
def who_did_it(brief: Brief) -> Assignment:
    """One entry of a log of several pages."""
    entry = brief.choose(
        "select * from audit a where target != '' and action in ('file_deleted', 'file_moved', 'role_changed', "
        "'invited_user', 'deactivated_user') and not exists (select 1 from audit where action = a.action and target = "
        "a.target and id != a.id)"
    )
    verbs = {
        "file_deleted": "deleted the file {target}", "file_moved": "moved the file {target}",
        "role_changed": "changed the role of {target}", "invited_user": "invited {target}",
        "deactivated_user": "deactivated the account of {target}",
    }  # fmt: skip
    names = brief.state.all("select distinct actor from audit where actor != ?", entry["actor"])
    target = entry["target"]
    others = tuple(row["actor"] for row in names if row["actor"] != target)
    return Assignment(
        goal=brief.say(
            "According to the audit log, who {did}? Answer with the name of the person.",
            "Look into the audit log and find out who {did}.",
            did=verbs[entry["action"]].format(target=target),
        ),
        wanted=(Answered(entry["actor"], others=others),),
        facts={"entry": entry, "action": entry["action"], "login": me(brief)},
        signed_in=ME,
    )


@templates.add("count", "medium", plan=plans.count, about=("question", "filter", "counting", "pagination"))
def count(brief: Brief) -> Assignment:
    groups = brief.state.all("select team, status, count(*) n from users group by team, status having n >= 2")
    group = brief.dice.choice(groups)
    return Assignment(
        goal=brief.say(
            'How many users in the team {team} have the status "{status}"? Answer with a number.',
            'Count the users of the team {team} whose status is "{status}" and answer with the number.',
            team=group["team"],
            status=english(group["status"]),
        ),
        wanted=(Answered(str(group["n"]), "number", tuple(str(n) for n in range(50) if n != group["n"])),),
        facts={"filters": {"team": group["team"], "status": group["status"]}, "number": group["n"], "login": me(brief)},
        signed_in=ME,
    )


@templates.add("move-files", "medium", plan=plans.move, about=("bulk edit", "files"))
def move_files(brief: Brief) -> Assignment:
    source, target = brief.some(2, "select * from folders where parent = 0")
    files = brief.some(3, "select * from files where folder = ?", source["id"])
    names = ", ".join(row["name"] for row in files)
    return Assignment(
        goal=brief.say(
            "Move these files from the folder {source} to {target}: {names}.",
            "{names} are in {source} but belong into the folder {target}. Move them.",
            source=source["name"],
            target=target["name"],
            names=names,
        ),
        wanted=tuple(Changed("files", row["id"], folder=target["id"]) for row in files),
        facts={"files": [row["id"] for row in files], "folder": target["id"], "login": me(brief)},
        signed_in=ME,
        start=brief.dice.choice(("/", "/users")),
    )


@templates.add("clean-up", "medium", plan=plans.clean_up, about=("bulk edit", "files", "confirmation", "sorting"))
def clean_up(brief: Brief) -> Assignment:
    """Everything in a folder above a size."""
    folder = brief.choose("select * from folders where parent = 0")
    found = brief.state.all("select * from files where folder = ? order by size desc", folder["id"])
    number = brief.dice.randrange(2, 5)
    for place, row in enumerate(found):  # far enough from the limit whatever the rounding
        size = 11_000 + 700 * (number - place) + brief.dice.randrange(300) if place < number else 9_000 - 500 * place
        brief.state.run("update files set size = ? where id = ?", size, row["id"])
    chosen = found[:number]
    return Assignment(
        goal=brief.say(
            "Delete all files larger than 10 MB that lie directly in the folder {folder}.",
            "The folder {folder} is too full: delete every file in it that has more than 10 MB, and no other.",
            folder=folder["name"],
        ),
        wanted=tuple(Removed("files", row["id"]) for row in chosen),
        facts={"files": [row["id"] for row in chosen], "folder": folder["id"], "login": me(brief)},
        signed_in=ME,
    )


@templates.add("recall", "medium", plan=plans.recall, about=("recall", "form", "files"))
def recall(brief: Brief) -> Assignment:
    """A number from a user's page has to be remembered for one to three folders elsewhere."""
    user = brief.choose("select * from users where id != ?", ME)
    folder = brief.choose("select * from folders where parent = 0")
    number = brief.dice.randrange(1, 4)
    ends = brief.dice.sample(("contract", "payroll", "review", "photos", "notes", "travel"), number)
    names = [f"{user['staff']}-{end}" for end in ends]
    return Assignment(
        goal=brief.say(
            "Look up the staff number of {name}. Then create in the folder {folder} a folder for each of these words: "
            "{ends}. Its name is the staff number, a dash and the word, like 123456-example.",
            "In {folder} we need new folders for {name}: {ends}. Each is named by the person's staff number, a dash "
            "and the word, for example 123456-example.",
            name=user["name"],
            folder=folder["name"],
            ends=", ".join(ends),
        ),
        wanted=tuple(Added("folders", parent=folder["id"], name=name) for name in names),
        facts={"user": user, "folder": folder["id"], "names": names, "login": me(brief)},
        signed_in=ME,
    )


@templates.add("longest", "medium", plan=plans.longest, about=("form that rejects", "expired log-in"))
def longest(brief: Brief) -> Assignment:
    """How much can be set is said only to those who ask for more."""
    value = brief.state.value("select value from settings where name = 'longest_timeout'")
    admin = me(brief)
    brief.trouble(signed_out=3)
    return Assignment(
        goal=brief.say(
            "Set the session timeout to the longest time that the system allows.",
            "People complain that they are signed out too early. Raise the session timeout to the highest value that "
            "can be set.",
        )
        + LOG_IN.format(**admin),
        wanted=set_setting(brief, timeout=value),
        facts={"longest": value, "login": admin},
        signed_in=ME,
    )


@templates.add("maybe", "medium", plan=plans.maybe, about=("impossible", "files", "quota"))
def maybe(brief: Brief) -> Assignment:
    """The quota is used up for half of the seeds."""
    source, target = brief.some(2, "select * from folders where parent = 0")
    file = brief.choose("select * from files where folder = ?", source["id"])
    full = brief.dice.random() < 0.5
    if full:
        other = brief.choose("select * from files where folder != ?", source["id"])
        left = QUOTA * 1024 - brief.state.value("select sum(size) from files") - brief.dice.randrange(file["size"])
        brief.state.run("update files set size = size + ? where id = ?", left, other["id"])
    return Assignment(
        goal=brief.say(
            'Copy the file "{name}" from the folder {source} to {target}. Do not delete or move anything for it. If it '
            'cannot be done, answer "impossible".',
            'A copy of "{name}" ({source}) is needed in the folder {target}. Answer "impossible" if the system '
            "refuses; leave everything else as it is.",
            name=file["name"],
            source=source["name"],
            target=target["name"],
        ),
        wanted=(IMPOSSIBLE,) if full else (Added("files", folder=target["id"], name=file["name"], size=file["size"]),),
        facts={"file": file, "folder": target["id"], "full": full, "login": me(brief)},
        signed_in=ME,
    )


# --------------------------------------------------------------------------------------------------------------- long


@templates.add("leaver", "long", plan=plans.leaver, about=("bulk edit", "confirmation", "files"))
def leaver(brief: Brief) -> Assignment:
    user = brief.choose("select * from users where status = 'active' and role != 'viewer' and id != ?", ME)
    source, target = brief.some(2, "select * from folders where parent = 0")
    files = brief.some(3, "select * from files where folder = ?", source["id"])
    brief.state.run("update files set owner = ? where owner = ?", ME, user["id"])
    for row in files:
        brief.state.run("update files set owner = ? where id = ?", user["id"], row["id"])
    return Assignment(
        goal=brief.say(
            "{name} is leaving. Move the files that belong to this person in the folder {source} to {target}, change "
            'the role of the account to "Viewer", and deactivate it with the reason "{reason}".',
            "Please close the account of {name}: all files of that owner in {source} go to the folder {target}; then "
            'the role becomes "Viewer"; then deactivate the account, reason "{reason}".',
            name=user["name"],
            source=source["name"],
            target=target["name"],
            reason=english("left"),
        ),
        wanted=(
            *(Changed("files", row["id"], folder=target["id"]) for row in files),
            Changed("users", user["id"], role="viewer", status="deactivated", reason="left"),
        ),
        facts={"user": user, "people": [user["id"]], "files": [row["id"] for row in files], "folder": target["id"],
               "reason": "left", "login": me(brief)},
        signed_in=ME,
    )  # fmt: skip


@templates.add("deactivate-many", "long", plan=plans.deactivate_many, about=("bulk edit", "confirmation", "filter"))
def deactivate_many(brief: Brief) -> Assignment:
    """Everybody of a team with a role, whether active or invited."""
    team, role = brief.dice.choice(TEAMS), brief.dice.choice(ROLES[1:])
    number = brief.dice.randrange(6, 9)
    brief.state.run("update users set team = ? where role = ? and team = ?", TEAMS[TEAMS.index(team) - 1], role, team)
    chosen = brief.some(number, "select * from users where id != ? order by id", ME)
    for row in chosen:
        brief.state.run("update users set team = ?, role = ?, status = 'active' where id = ?", team, role, row["id"])
    reason, admin = brief.dice.choice(REASONS), me(brief)
    return Assignment(
        goal=brief.say(
            'Deactivate all users of the team {team} who have the role "{role}". Reason: "{reason}".',
            'Everybody with the role "{role}" in the team {team} has to be deactivated, with the reason "{reason}". '
            "Nobody else.",
            team=team,
            role=english(role),
            reason=english(reason),
        )
        + LOG_IN.format(**admin),
        wanted=tuple(Changed("users", row["id"], status="deactivated", reason=reason) for row in chosen),
        facts={
            "people": [row["id"] for row in chosen], "filters": {"role": role, "team": team}, "reason": reason,
            "login": admin,
        },
    )  # fmt: skip


@templates.add("onboard", "long", plan=plans.invite, about=("form that rejects", "form"))
def onboard(brief: Brief) -> Assignment:
    new = newcomers(brief, 2)
    listed = "; ".join(told(person) for person in new)
    return Assignment(
        goal=brief.say(
            "Two people are starting. Invite both: {listed}.",
            "Send invitations to {listed}.",
            listed=listed,
        ),
        wanted=tuple(invited(person) for person in new),
        facts={"new": new, "login": me(brief)},
        signed_in=ME,
        start=start_page(brief),
    )


@templates.add("permissions", "long", plan=plans.allow, about=("form", "log-in"))
def permissions(brief: Brief) -> Assignment:
    """Two roles, told by what they may do when it is done."""
    wanted: list[Changed] = []
    roles: dict[str, dict[str, int]] = {}
    parts = []
    for role in brief.dice.sample(ROLES[1:], 2):
        rows = brief.state.all("select * from permissions where role = ?", role)
        flipped = {row["name"] for row in brief.dice.sample(rows, 4)}
        roles[role] = {row["name"]: 1 - row["allowed"] if row["name"] in flipped else row["allowed"] for row in rows}
        wanted += [
            Changed("permissions", row["id"], allowed=roles[role][row["name"]])
            for row in rows
            if row["name"] in flipped
        ]
        may = ", ".join(english(name) for name in PERMISSIONS if roles[role][name]) or "nothing at all"
        parts.append(f'"{english(role)}": {may}')
    admin = me(brief)
    return Assignment(
        goal=brief.say(
            "Set the permissions of two roles so that each may do exactly this and nothing else. {parts}.",
            "Exactly these permissions for two roles, all others off: {parts}.",
            parts="; ".join(parts),
        )
        + LOG_IN.format(**admin),
        wanted=tuple(wanted),
        facts={"roles": roles, "login": admin},
    )
