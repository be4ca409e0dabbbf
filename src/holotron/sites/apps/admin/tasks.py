"""What is asked of an administrator: the short tasks and the change of a role. Longer ones are in `longer_tasks.py`."""

from __future__ import annotations

from holotron.sites.apps.admin import plans
from holotron.sites.apps.admin.data import ROLES, TEAMS
from holotron.sites.apps.admin.words import WORDS
from holotron.sites.checks import Answered, Changed
from holotron.sites.state import Row
from holotron.sites.tasks import Assignment, Brief, Templates

templates = Templates("admin")

ME = 1  # the user whose log-in the browser holds
LOG_IN = " My log-in is {email} with the password {password}."


def english(key: str) -> str:
    """Goals are in English whatever the interface's language is."""
    return WORDS[key][0]


def me(brief: Brief) -> Row:
    return brief.state.get("select * from users where id = ?", ME)


def start_page(brief: Brief) -> str:
    """Not always the overview."""
    return brief.dice.choice(("/", "/", "/users", "/files", "/roles"))


def set_setting(brief: Brief, **values: str) -> tuple[Changed, ...]:
    rows = {row["name"]: row["id"] for row in brief.state.all("select * from settings")}
    return tuple(Changed("settings", rows[name], value=value) for name, value in values.items())


@templates.add("role", "medium", plan=plans.role, about=("form",))
def role(brief: Brief) -> Assignment:
    user = brief.choose("select * from users where id != ?", ME)
    new = brief.dice.choice([name for name in ROLES[1:] if name != user["role"]])
    return Assignment(
        goal=brief.say(
            'Give {name} the role "{role}".',
            'Change the role of {name} to "{role}".',
            '{name} should have the role "{role}" from now on. Leave the rest of the account alone.',
            name=user["name"],
            role=english(new),
        ),
        wanted=(Changed("users", user["id"], role=new),),
        facts={"user": user, "fields": {"role": new}, "people": [user["id"]], "login": me(brief)},
        signed_in=ME,
        start=start_page(brief),
    )


@templates.add("staff-number", "short", plan=plans.read_user, about=("question",))
def staff_number(brief: Brief) -> Assignment:
    user = brief.choose("select * from users")
    kind = brief.dice.choice(("staff", "team"))
    if kind == "staff":
        question = brief.say(
            "What is the staff number of {name}?", "Look up the staff number of {name}.", name=user["name"]
        )
        others = tuple(row["staff"] for row in brief.state.all("select staff from users where id != ?", user["id"]))
        wanted = Answered(user["staff"], others=others)
    else:
        question = brief.say("Which team is {name} in?", "In which team does {name} work?", name=user["name"])
        wanted = Answered(user["team"], others=tuple(team for team in TEAMS if team != user["team"]))
    return Assignment(
        goal=question,
        wanted=(wanted,),
        facts={"user": user, "where": kind, "answer": user[kind], "login": me(brief)},
        signed_in=ME,
        start=start_page(brief),
    )


@templates.add("setting", "short", plan=plans.setting, about=("form",))
def setting(brief: Brief) -> Assignment:
    """One field of one page."""
    page, name, value, what = brief.dice.choice(
        (
            ("safety", "password_length", str(brief.dice.randrange(11, 30)), "the minimum password length to {value}"),
            ("safety", "timeout", str(brief.dice.randrange(70, 119)), "the session timeout to {value} minutes"),
            ("storage", "retention", str(brief.dice.randrange(200, 360)),
             "how long deleted files are kept to {value} days"),
            ("general", "contact", f"{brief.dice.choice(('hello', 'help', 'desk'))}@lakeside.example",
             "the contact address to {value}"),
        )
    )  # fmt: skip
    return Assignment(
        goal=brief.say(
            "In the settings, change {what}.",
            "Please set {what} in the settings.",
            what=what.format(value=value),
        ),
        wanted=set_setting(brief, **{name: value}),
        facts={"page": page, "values": {name: value}, "login": me(brief)},
        signed_in=ME,
        start=start_page(brief),
    )


@templates.add("rename", "short", plan=plans.rename, about=("form",))
def rename(brief: Brief) -> Assignment:
    file = brief.choose("select f.*, d.name inside from files f join folders d on d.id = f.folder where d.parent = 0")
    ending = file["name"].rpartition(".")[2]
    name = f"{brief.dice.choice(('final', 'approved', 'old', 'public'))}-{brief.dice.randrange(10, 99)}.{ending}"
    return Assignment(
        goal=brief.say(
            'Rename the file "{old}" in the folder {folder} to "{new}".',
            'In the folder {folder}, the file "{old}" should be called "{new}".',
            old=file["name"],
            folder=file["inside"],
            new=name,
        ),
        wanted=(Changed("files", file["id"], name=name),),
        facts={"file": file, "name": name, "login": me(brief)},
        signed_in=ME,
    )


@templates.add("permission", "short", plan=plans.allow, about=("form", "slow page"))
def permission(brief: Brief) -> Assignment:
    row = brief.choose("select * from permissions where role != 'owner'")
    allowed = 1 - row["allowed"]
    now = {p["name"]: p["allowed"] for p in brief.state.all("select * from permissions where role = ?", row["role"])}
    brief.trouble(slow="/role/")
    return Assignment(
        goal=brief.say(
            'The role "{role}" should {verb} be able to {what}. Change only that.',
            'Change the permissions of the role "{role}": it may {verb} {what}.',
            role=english(row["role"]),
            verb="also" if allowed else "no longer",
            what=english(row["name"]),
        ),
        wanted=(Changed("permissions", row["id"], allowed=allowed),),
        facts={"roles": {row["role"]: {**now, row["name"]: allowed}}, "login": me(brief)},
        signed_in=ME,
    )


@templates.add("newest", "short", plan=plans.first_of_users, about=("question", "sorting", "pagination"))
def newest(brief: Brief) -> Assignment:
    last = brief.dice.random() < 0.5
    way = "desc" if last else "asc"
    found = brief.state.all(f"select * from users order by joined {way}")
    return Assignment(
        goal=brief.say(
            "Who of all users joined {when}? Answer with the name.",
            "Which user has been here for the {how} time? Answer with the name of the person.",
            when="most recently" if last else "first",
            how="shortest" if last else "longest",
        ),
        wanted=(Answered(found[0]["name"], others=tuple(row["name"] for row in found[1:])),),
        facts={"user": found[0], "sort": "joined", "way": way, "login": me(brief)},
        signed_in=ME,
        start=start_page(brief),
    )


@templates.add("largest", "short", plan=plans.largest, about=("question", "sorting", "files"))
def largest(brief: Brief) -> Assignment:
    folder = brief.choose("select * from folders where parent = 0")
    big = brief.dice.random() < 0.5
    way = "desc" if big else "asc"
    found = brief.state.all(f"select * from files where folder = ? order by size {way}", folder["id"])
    return Assignment(
        goal=brief.say(
            "Which file in the folder {folder} is the {kind}? Answer with its name. Files in folders inside it do not "
            "count.",
            "Name the {kind} file that lies directly in the folder {folder}.",
            folder=folder["name"],
            kind="largest" if big else "smallest",
        ),
        wanted=(Answered(found[0]["name"], others=tuple(row["name"] for row in found[1:])),),
        facts={"folder": folder["id"], "file": found[0], "way": way, "login": me(brief)},
        signed_in=ME,
    )
