"""The calendar's medium and long tasks."""

from __future__ import annotations

import datetime
from typing import Any

from holotron.sites.apps.calendar import plans
from holotron.sites.apps.calendar.data import AGENDA_DAYS, INVITED, NAMES, PLACES, WORK_TO, ZONES, invite
from holotron.sites.apps.calendar.tasks import LOG_IN, answered, diary, owner, said, single, templates, work_days
from holotron.sites.apps.calendar.times import Date, clock, first_free, in_the_way, on_days, taken_on
from holotron.sites.checks import IMPOSSIBLE, Added, Answered, Changed, Wanted
from holotron.sites.state import Row
from holotron.sites.tasks import Assignment, Brief

TITLES = ("Press call", "Sound check", "Lab tour", "Strategy talk", "Photo session", "Wine tasting", "Language exam",
          "Contract signing", "Data review", "Roof inspection", "Rehearsal", "Open day")  # fmt: skip
OPENS, CLOSES = 9 * 60, 17 * 60  # what a goal calls office hours


def booked(title: str, day: str, start: int, end: int, **more: Any) -> Added:
    values = {"calendar": 1, "repeat": "", "until": "", **more}
    return Added("events", title=title, day=day, start=start, end=end, **values)


def typed(title: str, day: str, start: int, end: int, **more: Any) -> dict[str, Any]:
    """What goes into the form."""
    return {"title": title, "day": day, "start": clock(start), "end": clock(end), **more}


def spans_on(brief: Brief, day: Date) -> list[tuple[int, int]]:
    return [(row["start"], row["end"]) for row in taken_on(brief.state, day)]


# ------------------------------------------------------------------------------------------------------------- medium


@templates.add("maybe", "medium", plan=plans.maybe, about=("impossible", "form that rejects"))
def maybe(brief: Brief) -> Assignment:
    """For half of the seeds something is in the way."""
    dice, title = brief.dice, brief.dice.choice(TITLES)
    taken = dice.random() < 0.5
    day = dice.choice(work_days(brief, least=1))
    spans = spans_on(brief, day)
    while True:
        start = dice.randrange(8 * 60, WORK_TO - 60, 30)
        end = start + dice.choice((30, 60, 90))
        if any(a < end and start < b for a, b in spans) == taken:
            break
    goal = brief.say(
        'Enter “{title}” into my Work calendar on {day} from {start} to {end}. If something else is in the way, change '
        'nothing and answer "impossible".',
        'Book {start} to {end} on {day} for “{title}” (Work calendar). Should that time be taken, leave everything as '
        'it is and answer "impossible".',
        title=title, day=said(day), start=clock(start), end=clock(end),
    )  # fmt: skip
    iso = day.isoformat()
    wanted: tuple[Wanted, ...] = (IMPOSSIBLE,) if taken else (booked(title, iso, start, end),)
    return diary(brief, goal, wanted, event=typed(title, iso, start, end), taken=taken)


@templates.add("conflict", "medium", plan=plans.conflict, about=("form that rejects", "search"))
def conflict(brief: Brief) -> Assignment:
    """The form refuses the first time, and perhaps the second."""
    dice = brief.dice
    while True:
        event, day = single(brief), dice.choice(work_days(brief, least=1))
        row = dice.choice(taken_on(brief.state, day))
        length = event["end"] - event["start"]
        start = row["start"] + 30 * dice.randrange(0, 2)
        tries = [start + 30 * n for n in range(6)]
        moved = [{**event, "day": day.isoformat(), "start": time, "end": time + length} for time in tries]
        refused = [in_the_way(brief.state, one, event["id"]) is not None for one in moved]
        place = refused.index(False) if False in refused else 0
        if event["day"] != day.isoformat() and place in (1, 2) and tries[place] + length <= 20 * 60:
            break
    goal = brief.say(
        "Move “{title}” to {day} at {start}; it stays as long as it is. If that time is taken, try half an hour later, "
        "and again, until it fits.",
        "“{title}” has to move to {day}. Put it at {start}, or else at the first time after that, in steps of half an "
        "hour, which the calendar accepts. Its length does not change.",
        title=event["title"],
        day=said(day),
        start=clock(start),
    )
    end = tries[place]
    changed: dict[str, Any] = {"day": day.isoformat(), "start": end, "end": end + length}
    changed = {name: value for name, value in changed.items() if event[name] != value}
    return diary(brief, goal, (Changed("events", event["id"], **changed),), event=event, day=day.isoformat(),
                 tries=[clock(time) for time in tries], length=length)  # fmt: skip


@templates.add("zone", "medium", plan=plans.create, about=("time zones", "form"))
def zone(brief: Brief) -> Assignment:
    """The time is said in another zone; evenings and early mornings are always free."""
    dice, user, title = brief.dice, owner(brief), brief.dice.choice(TITLES)
    day = brief.variation.today + datetime.timedelta(days=dice.randrange(1, 20))
    length = dice.choice((30, 45, 60))
    choices = []
    for city, offset in ZONES.items():
        for start in (6 * 60, 6 * 60 + 30, 18 * 60, 18 * 60 + 30, 19 * 60):
            there = start + offset - ZONES[user["zone"]]
            if city != user["zone"] and there >= 4 * 60 and there + length <= 23 * 60:
                choices.append((city, start, there))
    city, start, there = dice.choice(choices)
    goal = brief.say(
        "Enter “{title}” into my Work calendar: {day}, {start} to {end} in the time of {city}.",
        "On {day} there is “{title}” from {start} to {end}, {city} time. Put it into the Work calendar at the right "
        "time.",
        title=title, day=said(day), start=clock(there), end=clock(there + length), city=city,
    )  # fmt: skip
    iso = day.isoformat()
    event = typed(title, iso, there, there + length, zone=city)
    return diary(brief, goal, (booked(title, iso, start, start + length),), event=event)


@templates.add("series", "medium", plan=plans.create, about=("series", "form"))
def series(brief: Brief) -> Assignment:
    dice, title = brief.dice, brief.dice.choice(TITLES)
    calendar = brief.choose("select * from calendars where id > 1")
    day = brief.variation.today + datetime.timedelta(days=dice.randrange(1, 8))
    until = day + datetime.timedelta(weeks=dice.randrange(3, 9))
    start = dice.choice((6 * 60 + 30, 18 * 60, 18 * 60 + 30, 19 * 60))
    end = start + dice.choice((60, 75, 90))
    goal = brief.say(
        "Add a weekly event “{title}” to the calendar {calendar}: first on {day}, last on {until}, {start} to {end}.",
        "From {day} until {until} there is “{title}” every week, {start} to {end}. Enter it as one repeating event in "
        "the calendar {calendar}.",
        title=title, calendar=calendar["name"], day=said(day), until=said(until), start=clock(start), end=clock(end),
    )  # fmt: skip
    more = {"calendar": calendar["id"], "repeat": "weekly", "until": until.isoformat()}
    wanted = (booked(title, day.isoformat(), start, end, **more),)
    return diary(brief, goal, wanted, event=typed(title, day.isoformat(), start, end, **more))


@templates.add("free", "medium", plan=plans.free, about=("free slot", "reading"))
def free(brief: Brief) -> Assignment:
    dice, title = brief.dice, brief.dice.choice(TITLES)
    choices = []
    for day in work_days(brief, least=2):
        for length in (60, 90, 120):
            start = first_free(spans_on(brief, day), length, OPENS, CLOSES)
            if start is not None:
                choices.append((start > OPENS, day, length, start))
    hard = [choice for choice in choices if choice[0]]
    _, day, length, start = dice.choice(hard or choices)
    goal = brief.say(
        "Find the earliest {length} minutes on {day} between 09:00 and 17:00 when I have nothing else, and enter "
        "“{title}” there in the Work calendar.",
        "I need {length} minutes for “{title}” on {day}. Book the first gap that is long enough, not before 09:00 and "
        "done by 17:00, in the Work calendar.",
        length=length,
        day=said(day),
        title=title,
    )
    iso = day.isoformat()
    event = typed(title, iso, start, start + length)
    return diary(brief, goal, (booked(title, iso, start, start + length),), event=event, look=["day"])


@templates.add("count", "medium", plan=plans.count, about=("question", "counting", "pagination"))
def count(brief: Brief) -> Assignment:
    today = brief.variation.today
    rows = on_days(brief.state, today, today + datetime.timedelta(days=AGENDA_DAYS - 1))
    by = brief.dice.choice(("calendar_name", "place"))
    value = brief.dice.choice(sorted({row[by] for row in rows}))
    number = sum(row[by] == value for row in rows)
    what = f"are in the calendar {value}" if by == "calendar_name" else f"take place at “{value}”"
    goal = brief.say(
        "How many of the events in the agenda {what}? Count each day of a series. Answer with a number.",
        "Go through the agenda and count the events that {what}; a series counts on each of its days. Answer with the "
        "number.",
        what=what,
    )
    others = tuple(str(n) for n in range(len(rows) + 1) if n != number)
    return diary(
        brief, goal, (Answered(str(number), "number", others),), start=brief.dice.choice(("/calendars", "/settings")),
        events=len(rows), answer=str(number),
    )  # fmt: skip


@templates.add("edit", "medium", plan=plans.create, about=("expired log-in", "form"))
def edit(brief: Brief) -> Assignment:
    event = single(brief, "id not in (select event from guests)")
    place = brief.dice.choice([name for name in PLACES if name != event["place"]])
    calendar = brief.choose("select * from calendars where id != ?", event["calendar"])
    guest = brief.choose("select * from colleagues")
    brief.trouble(signed_out=brief.dice.choice((2, 3)))
    goal = brief.say(
        "Change “{title}”: the place is now {place}, it belongs to the calendar {calendar}, and {guest} is a guest.",
        "“{title}” has moved to {place}. Note that, invite {guest}, and put the event into the calendar {calendar}.",
        title=event["title"],
        place=place,
        calendar=calendar["name"],
        guest=guest["name"],
    ) + LOG_IN.format(**owner(brief))
    wanted = (
        Changed("events", event["id"], place=place, calendar=calendar["id"]),
        Added("guests", event=event["id"], colleague=guest["id"]),
    )
    values = {"place": place, "calendar": calendar["id"], "guests": [guest["id"]]}
    return diary(brief, goal, wanted, start="/calendars", edit=event, event=values)


# --------------------------------------------------------------------------------------------------------------- long


@templates.add("meet", "long", plan=plans.free, about=("free slot", "recall", "form"))
def meet(brief: Brief) -> Assignment:
    """The first time at which three people are free, put together from two pages."""
    dice, title, place = brief.dice, brief.dice.choice(TITLES), brief.dice.choice(PLACES)
    guests = sorted(brief.some(2, "select * from colleagues"), key=lambda row: int(row["id"]))
    calendar = brief.choose("select * from calendars where id > 1")
    choices = []
    for day in work_days(brief, least=1):
        taken = spans_on(brief, day)
        for row in guests:
            busy = brief.state.all("select * from busy where colleague = ? and day = ?", row["id"], day.isoformat())
            taken += [(span["start"], span["end"]) for span in busy]
        for length in (60, 90):
            start = first_free(taken, length, OPENS, CLOSES)
            if start is not None:
                choices.append((start > OPENS, day, length, start))
    hard = [choice for choice in choices if choice[0]]
    _, day, length, start = dice.choice(hard or choices)
    names = " and ".join(row["name"] for row in guests)
    goal = brief.say(
        "Find the earliest {length} minutes on {day} between 09:00 and 17:00 when {names} and I are all free. Enter "
        "“{title}” at that time in the calendar {calendar}, at {place}, with both as guests.",
        "{names} and I need {length} minutes on {day}, between 09:00 and 17:00. Take the first time that suits all "
        "three and enter “{title}”: place {place}, calendar {calendar}, the two of them as guests.",
        length=length,
        day=said(day),
        names=names,
        title=title,
        calendar=calendar["name"],
        place=place,
    )
    iso, number = day.isoformat(), brief.state.value("select max(id) from events") + 1
    more = {"place": place, "calendar": calendar["id"]}
    wanted = (
        booked(title, iso, start, start + length, **more),
        *(Added("guests", event=number, colleague=row["id"]) for row in guests),
    )
    event = typed(title, iso, start, start + length, guests=[row["id"] for row in guests], **more)
    return diary(brief, goal, wanted, event=event, look=["people", "day"])


@templates.add("invitations", "long", plan=plans.invitations, about=("form that rejects", "pagination"))
def invitations(brief: Brief) -> Assignment:
    """What fits is accepted; what the calendar refuses is declined."""
    dice = brief.dice
    brief.state.run("delete from invitations")
    total = dice.randrange(11, 14)
    clashing = dice.sample(range(total), dice.randrange(4, 6))
    for index, name in enumerate(dice.sample(NAMES, total)):
        sender = brief.choose("select * from colleagues")["name"]
        invite(brief, dice.choice(INVITED).format(name=name), sender, clashing=index in clashing)
    answers, wanted = {}, []
    for row in brief.state.all("select * from invitations order by day, start, id"):
        event = {**row, "repeat": "", "until": ""}
        answers[row["id"]] = "declined" if in_the_way(brief.state, event) else "accepted"
        wanted += answered(row, answers[row["id"]])
    goal = brief.say(
        "Answer all my invitations: accept those that fit into my calendar and decline those that conflict with "
        "something that is in it.",
        "Work through the invitations. Whatever does not clash with an event of mine is accepted, the rest is "
        "declined.",
    )
    return diary(brief, goal, tuple(wanted), answers=answers, tries=True)


@templates.add("plan", "long", plan=plans.several, about=("form",))
def plan(brief: Brief) -> Assignment:
    """Three new events, each with all its details."""
    dice, chosen = brief.dice, []
    days = dice.sample(work_days(brief), 3)
    for title, day in zip(dice.sample(TITLES, 3), sorted(days), strict=True):
        length = dice.choice((30, 60))
        starts = [s for s in range(8 * 60, 19 * 60, 30)
                  if all(b <= s or s + length <= a for a, b in spans_on(brief, day))]  # fmt: skip
        start = dice.choice(starts)
        chosen.append((title, day.isoformat(), start, start + length, dice.choice(PLACES)))
    listed = "; ".join(
        f"“{title}” on {said(day)} from {clock(start)} to {clock(end)} at {place}"
        for title, day, start, end, place in chosen
    )
    goal = brief.say(
        "Enter these into my Work calendar: {listed}.",
        "Three new events for the calendar Work: {listed}. Please add them.",
        listed=listed,
    )
    wanted = tuple(booked(title, day, start, end, place=place) for title, day, start, end, place in chosen)
    events = [typed(title, day, start, end, place=place) for title, day, start, end, place in chosen]
    return diary(brief, goal, wanted, list=events)


@templates.add("recall", "long", plan=plans.recall, about=("recall", "search", "form"))
def recall(brief: Brief) -> Assignment:
    """A code that is shown once has to be kept in mind along a chain of notes, whose length is drawn."""
    dice, state = brief.dice, brief.state
    names = dice.sample(NAMES, dice.randrange(6, 11))
    days = dice.sample(range(2, 28), len(names))
    code = f"{dice.choice('BCDFGHJK')}{dice.choice('LMNPQRST')}-{dice.randrange(1000, 9999)}"
    stops: list[Row] = []
    for name, after, offset in zip(names, [*names[1:], ""], days, strict=True):
        day = (brief.variation.today + datetime.timedelta(days=offset)).isoformat()
        note = f"After this we go to {after}." if after else "This is the last one."
        number = state.add("events", calendar=1, title=f"Site visit {name}", place="To be announced", day=day,
                           start=7 * 60, end=7 * 60 + 30, repeat="", until="", note=note, once=0)  # fmt: skip
        stops.append(state.get("select * from events where id = ?", number))
    today = brief.variation.today.isoformat()
    once = state.add("events", calendar=1, title="Door code", place="Online", day=today, start=6 * 60, end=6 * 60 + 30,
                     repeat="", until="", note=f"The door code is {code}.", once=1)  # fmt: skip
    goal = brief.say(
        "Remember the door code on this page; it is shown only once. My site visits begin with “Site visit {first}”, "
        "and the note of each visit names the next. Follow them to the last one and enter the code, alone, as its "
        "place.",
        "This page shows a door code, and only this once. It belongs to the last of my site visits: the first is “Site "
        "visit {first}”, and each one's note says where we go after it. Set the place of the last visit to the code.",
        first=names[0],
    )
    return diary(
        brief, goal, (Changed("events", stops[-1]["id"], place=code),), start=f"/event/{once}",
        once=state.get("select * from events where id = ?", once), code=code, stops=stops, distance=len(stops) - 1,
    )  # fmt: skip
