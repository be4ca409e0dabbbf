"""What a calendar holds: calendars, events that do not overlap, two series, invitations, when colleagues are busy."""

from __future__ import annotations

import datetime
import random

from holotron.sites.people import password, people
from holotron.sites.tasks import Brief

# Days are ISO dates, times are minutes after midnight in the owner's zone. `once`: a note that is shown a single time.
SCHEMA = """
create table users (id integer primary key, name text, email text, password text, zone text, week_start text,
  reminder int);
create table calendars (id integer primary key, name text, hue int, shown int);
create table events (id integer primary key, calendar int, title text, place text, day text, start int, end int,
  repeat text, until text, note text, once int);
create table skips (id integer primary key, event int, day text);
create table colleagues (id integer primary key, name text, email text);
create table guests (id integer primary key, event int, colleague int);
create table invitations (id integer primary key, title text, sender text, place text, day text, start int, end int,
  answer text);
create table busy (id integer primary key, colleague int, day text, start int, end int);
create index events_day on events (day);
create index busy_day on busy (day);
"""

ZONES = {"New York": -300, "Reykjavik": 0, "Lagos": 60, "Riga": 120, "Dubai": 240, "Tokyo": 540}  # without summer time
REPEATS = ("", "weekly")
WORK_FROM, WORK_TO = 8 * 60, 18 * 60
DAYS_BACK, DAYS_AHEAD = 10, 28
AGENDA_DAYS = 21

# fmt: off
CALENDARS = ("Work", "Private", "Family", "Club", "Garden", "Choir", "Travel")
PLACES = ("Room Ash", "Room Birch", "Room Cedar", "Room Elm", "Library", "Café Luna", "Main hall", "Workshop", "Online")
_WITH = ("Review with {name}", "Call with {name}", "Lunch with {name}", "Interview with {name}", "Planning with {name}",
         "Visit by {name}", "Coffee with {name}", "Demo for {name}")
_ALONE = ("Dentist", "Haircut", "Car service", "Yoga class", "Budget round", "Fire drill", "Team photo", "Book club",
          "Choir practice", "Parents' evening", "Bike repair", "Tax office", "Board meeting", "Safety training",
          "Piano lesson", "Garden work", "Flu shot", "Town meeting", "Swimming", "Chess evening")
_SERIES = ("Stand-up", "Weekly report", "Team round", "Office hours", "Language course")
INVITED = ("Kick-off {name}", "Product tour {name}", "Panel {name}", "Walk-through {name}", "Briefing {name}",
           "Workshop {name}", "Farewell {name}", "Tasting {name}")
NAMES = (
    "Aurora", "Basalt", "Cobalt", "Delta", "Ember", "Falcon", "Glacier", "Horizon", "Indigo", "Juniper", "Keystone",
    "Lantern", "Meridian", "Nimbus", "Orchard", "Pioneer", "Quartz", "Ridge", "Saffron", "Tundra", "Umbra",
    "Verdant", "Willow", "Zephyr",
)
# fmt: on

Span = tuple[int, int]


def clashes(taken: list[Span], start: int, end: int) -> bool:
    return any(start < other_end and other_start < end for other_start, other_end in taken)


def spans(dice: random.Random, count: int, taken: list[Span]) -> list[Span]:
    """Some spans of a working day that do not overlap, on half hours."""
    found = list(taken)
    for _ in range(count * 4):
        start = dice.randrange(WORK_FROM, WORK_TO - 60, 30)
        end = start + dice.choice((30, 60, 60, 90, 120))
        if end <= WORK_TO and not clashes(found, start, end):
            found.append((start, end))
        if len(found) >= count + len(taken):
            break
    return sorted(set(found) - set(taken))


def fill(brief: Brief) -> None:
    dice, state, today = brief.dice, brief.state, brief.variation.today
    me, *others = people(dice, brief.t.language, 27)
    state.add("users", name=me.name, email=me.email, password=password(dice), zone=dice.choice(list(ZONES)),
              week_start="monday", reminder=10)  # fmt: skip
    for name in ("Work", *dice.sample(CALENDARS[1:], 3)):
        state.add("calendars", name=name, hue=dice.randrange(360), shown=1)
    for person in others[:6]:
        state.add("colleagues", name=person.name, email=person.email)
    titles = [text.format(name=person.name) for text, person in zip(_WITH * 4, others[6:], strict=False)]
    titles += list(_ALONE)
    dice.shuffle(titles)
    taken = _series(brief)
    for offset in range(-DAYS_BACK, DAYS_AHEAD):
        day = today + datetime.timedelta(days=offset)
        count = dice.choice((1, 2, 2, 3)) if day.weekday() < 5 else dice.choice((0, 0, 1))
        for start, end in spans(dice, count, taken.get(day.weekday(), [])):
            if titles:
                _event(brief, titles.pop(), day, start, end)
        if 0 <= offset < AGENDA_DAYS and day.weekday() < 5:
            for colleague in range(1, 7):
                for start, end in spans(dice, dice.randrange(2, 5), []):
                    state.add("busy", colleague=colleague, day=day.isoformat(), start=start, end=end)
    _invitations(brief, [person.name for person in others])


def _series(brief: Brief) -> dict[int, list[Span]]:
    """Two weekly events; the spans they take, by weekday."""
    dice, today = brief.dice, brief.variation.today
    taken: dict[int, list[Span]] = {}
    for title, back in zip(dice.sample(_SERIES, 2), dice.sample(range(8, 13), 2), strict=True):
        first = today - datetime.timedelta(days=back)
        while first.weekday() > 4:
            first -= datetime.timedelta(days=1)
        while not (found := spans(dice, 1, taken.get(first.weekday(), []))):
            pass  # four draws, and all of them where the other series is
        start, end = found[0]
        until = (first + datetime.timedelta(days=84)).isoformat()
        _event(brief, title, first, start, end, calendar=1, repeat="weekly", until=until)
        taken.setdefault(first.weekday(), []).append((start, end))
    return taken


def _event(brief: Brief, title: str, day: datetime.date, start: int, end: int, **more: str | int) -> int:
    dice = brief.dice
    values = {"calendar": dice.randrange(1, 5), "repeat": "", "until": "", "note": "", "once": 0, **more}
    place = dice.choice(PLACES)
    event = brief.state.add("events", title=title, place=place, day=day.isoformat(), start=start, end=end, **values)
    if dice.random() < 0.25:
        brief.state.add("guests", event=event, colleague=dice.randrange(1, 7))
    return event


def _invitations(brief: Brief, senders: list[str]) -> None:
    dice = brief.dice
    for name in dice.sample(NAMES, dice.randrange(6, 9)):
        invite(brief, dice.choice(INVITED).format(name=name), dice.choice(senders))


def invite(brief: Brief, title: str, sender: str, clashing: bool | None = None) -> int:
    """One more invitation on a day to come. `clashing`: whether something is in the way; None leaves it to chance."""
    from holotron.sites.apps.calendar.times import taken_on

    dice = brief.dice
    while True:
        day = brief.variation.today + datetime.timedelta(days=dice.randrange(1, 21))
        start = dice.randrange(WORK_FROM, WORK_TO - 60, 30)
        end = start + dice.choice((30, 60, 90))
        others = brief.state.all("select * from invitations where day = ?", day.isoformat())
        apart = not clashes([(row["start"], row["end"]) for row in others], start, end)
        busy = clashes([(row["start"], row["end"]) for row in taken_on(brief.state, day)], start, end)
        if apart and clashing in (None, busy):
            return brief.state.add("invitations", title=title, sender=sender, place=dice.choice(PLACES),
                                   day=day.isoformat(), start=start, end=end, answer="open")  # fmt: skip
