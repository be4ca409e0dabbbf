"""What is asked of somebody's calendar: what all templates need, and the short ones."""

from __future__ import annotations

import datetime
from typing import Any

from holotron.sites.apps.calendar import plans
from holotron.sites.apps.calendar.data import AGENDA_DAYS, INVITED, NAMES, invite
from holotron.sites.apps.calendar.editing import REMINDERS
from holotron.sites.apps.calendar.times import Date, clock, on_days, taken_on
from holotron.sites.apps.calendar.words import WORDS
from holotron.sites.checks import Added, Answered, Changed, Removed, Wanted
from holotron.sites.state import Row
from holotron.sites.tasks import Assignment, Brief, Templates
from holotron.sites.words import Words

templates = Templates("calendar")

LOG_IN = " My log-in is {email} with the password {password}."
STARTS = ("/", "/", "/month", "/invitations", "/calendars", "/agenda")
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_ENGLISH = Words("en", WORDS)


def said(day: Date | str) -> str:
    """How a goal names a day, whatever the calendar's language is."""
    day = Date.fromisoformat(day) if isinstance(day, str) else day
    return f"{_WEEKDAYS[day.weekday()]}, {_ENGLISH.date(day)}"


def owner(brief: Brief) -> Row:
    return brief.state.get("select * from users")


def diary(brief: Brief, goal: str, wanted: tuple[Wanted, ...], start: str | None = None, **facts: Any) -> Assignment:
    """Every task is for the calendar's owner, who is signed in."""
    user = owner(brief)
    return Assignment(
        goal=goal,
        wanted=wanted,
        facts={"login": user, **facts},
        start=brief.dice.choice(STARTS) if start is None else start,
        signed_in=user["id"],
    )


def single(brief: Brief, condition: str = "1") -> Row:
    """An event to come that is no series, and not today."""
    return brief.choose(
        f"select * from events where repeat = '' and day > ? and {condition} order by id",
        brief.variation.today.isoformat(),
    )


def gone(brief: Brief, event: int) -> tuple[Wanted, ...]:
    """An event and what hangs on it."""
    guests = brief.state.all("select id from guests where event = ?", event)
    return (Removed("events", event), *(Removed("guests", row["id"]) for row in guests))


def work_days(brief: Brief, least: int = 0) -> list[Date]:
    """Working days to come with at least so many events on them."""
    today = brief.variation.today
    days = [today + datetime.timedelta(days=n) for n in range(1, AGENDA_DAYS)]
    return [day for day in days if day.weekday() < 5 and len(taken_on(brief.state, day)) >= least]


@templates.add("when", "short", plan=plans.when, about=("question", "slow page"))
def when(brief: Brief) -> Assignment:
    event = single(brief)
    rows = brief.state.all("select distinct start from events")
    which = brief.dice.choice(("start", "end"))
    answer = clock(event[which])
    others = {clock(row["start"]) for row in rows} | {clock(event["start"]), clock(event["end"])}
    brief.trouble(slow="/search")
    goal = brief.say(
        "At what time does “{title}” {which}? Answer in the form HH:MM.",
        "“{title}” is in my calendar. When does it {which}? Answer with the time as HH:MM.",
        title=event["title"],
        which=which,
    )
    start = brief.dice.choice(("/calendars", "/invitations", "/people"))
    wanted = (Answered(answer, others=tuple(sorted(others - {answer}))),)
    return diary(brief, goal, wanted, start, event=event, answer=answer)


@templates.add("delete", "short", plan=plans.delete)
def delete(brief: Brief) -> Assignment:
    event = single(brief)
    goal = brief.say(
        "Delete “{title}” on {day}.",
        "“{title}” on {day} is off. Take it out of my calendar.",
        "Remove the event “{title}” ({day}).",
        title=event["title"],
        day=said(event["day"]),
    )
    return diary(brief, goal, gone(brief, event["id"]), event=event)


@templates.add("skip", "short", plan=plans.skip, about=("series",))
def skip(brief: Brief) -> Assignment:
    """One day of a series; the other days stay."""
    today = brief.variation.today
    coming = on_days(brief.state, today + datetime.timedelta(days=1), today + datetime.timedelta(days=40))
    row = brief.dice.choice([row for row in coming if row["series"]])
    event = brief.state.get("select * from events where id = ?", row["id"])
    goal = brief.say(
        "“{title}” does not take place on {day}. Delete it on that day only.",
        "Take “{title}” out of my calendar on {day}, and leave it on all other days.",
        title=row["title"],
        day=said(row["day"]),
    )
    return diary(brief, goal, (Added("skips", event=row["id"], day=row["day"]),), event=event, day=row["day"])


@templates.add("invite", "short", plan=plans.invitations, about=("pagination",))
def answer_one(brief: Brief) -> Assignment:
    given = brief.dice.choice(("accepted", "declined"))
    title = brief.dice.choice(INVITED).format(name=f"{brief.dice.choice(NAMES)} Two")
    number = invite(brief, title, brief.choose("select * from colleagues")["name"], clashing=False)
    row = brief.state.get("select * from invitations where id = ?", number)
    phrasings = {
        "accepted": ("Accept the invitation to “{title}”.", "I want to go to “{title}”: accept the invitation."),
        "declined": ("Decline the invitation to “{title}”.", "I cannot come to “{title}”. Decline the invitation."),
    }[given]
    return diary(brief, brief.say(*phrasings, title=title), answered(row, given), answers={number: given},
                 start=brief.dice.choice(("/", "/month", "/calendars")))  # fmt: skip


def answered(row: Row, given: str) -> tuple[Wanted, ...]:
    """An invitation with its answer, and what that does to the calendar."""
    changed = Changed("invitations", row["id"], answer=given)
    kept = {name: row[name] for name in ("title", "place", "day", "start", "end")}
    return (changed, Added("events", calendar=1, **kept)) if given == "accepted" else (changed,)


@templates.add("settings", "short", plan=plans.settings, about=("form",))
def settings(brief: Brief) -> Assignment:
    user = owner(brief)
    if brief.dice.random() < 0.4:
        changed: dict[str, Any] = {"week_start": "sunday"}
        goal = brief.say("Have the week start on Sunday in my calendar.", "My weeks should begin with Sunday.")
    else:
        minutes = brief.dice.choice([n for n in REMINDERS if n != user["reminder"]])
        changed = {"reminder": minutes}
        how = f"{minutes} minutes before an event" if minutes else "not at all"
        goal = brief.say("Change the settings so that I am reminded {how}.", "Remind me {how}: change the settings.",
                         how=how)  # fmt: skip
    values = {name: user[name] for name in ("week_start", "reminder")} | changed
    return diary(brief, goal, (Changed("users", user["id"], **changed),), values=values)
