"""Days and times: which events are on a day, what is in the way of a new one, and how times are written."""

from __future__ import annotations

import datetime
import re

from holotron.sites.state import Row, State

Date = datetime.date


def parse_day(text: str) -> Date | None:
    """A day of this century."""
    try:
        return Date.fromisoformat(text) if re.fullmatch(r"20\d\d-\d\d-\d\d", text) else None
    except ValueError:
        return None


def parse_time(text: str) -> int | None:
    """Minutes after midnight."""
    match = re.fullmatch(r"(\d{1,2}):(\d\d)", text)
    minutes = int(match[1]) * 60 + int(match[2]) if match and int(match[2]) < 60 else None
    return minutes if minutes is not None and minutes <= 24 * 60 else None


def clock(minutes: int) -> str:
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def on_days(state: State, first: Date, last: Date, condition: str = "1") -> list[Row]:
    """Every event on these days in order, a series once for each of its days; `day` is the day it is on."""
    found = state.all(
        "select e.*, c.name calendar_name, c.hue from events e join calendars c on c.id = e.calendar "
        f"where {condition} and (repeat = '' and day between ? and ? or repeat != '' and day <= ? and until >= ?)",
        first.isoformat(), last.isoformat(), last.isoformat(), first.isoformat(),
    )  # fmt: skip
    skipped = {(row["event"], row["day"]) for row in state.all("select * from skips")}
    shown: list[Row] = []
    for event in found:
        for day in days_of(event, first, last):
            if (event["id"], day) not in skipped:
                shown.append({**event, "day": day, "series": bool(event["repeat"])})
    return sorted(shown, key=lambda row: (row["day"], row["start"], row["id"]))


def days_of(event: Row, first: Date, last: Date) -> list[str]:
    if not event["repeat"]:
        return [event["day"]]
    begin, end = Date.fromisoformat(event["day"]), min(last, Date.fromisoformat(event["until"]))
    weeks = max(0, -(-(first - begin).days // 7))
    day = begin + datetime.timedelta(weeks=weeks)
    days = []
    while day <= end:
        days.append(day.isoformat())
        day += datetime.timedelta(weeks=1)
    return days


def taken_on(state: State, day: Date, but: int = 0) -> list[Row]:
    """What is on a day, except the event `but`."""
    return [row for row in on_days(state, day, day) if row["id"] != but]


def in_the_way(state: State, event: Row, but: int = 0) -> Row | None:
    """The first event that overlaps with this one on any of its days."""
    day = Date.fromisoformat(event["day"])
    last = Date.fromisoformat(event["until"]) if event["repeat"] else day
    days = set(days_of(event, day, last))
    for row in on_days(state, day, last):
        overlap = row["start"] < event["end"] and event["start"] < row["end"]
        if row["id"] != but and row["day"] in days and overlap:
            return row
    return None


def first_free(taken: list[tuple[int, int]], length: int, earliest: int, latest: int) -> int | None:
    """The earliest start for so many minutes between two times."""
    for start in sorted({earliest, *(end for _, end in taken if earliest <= end)}):
        fits = all(end <= start or start + length <= begin for begin, end in taken)
        if fits and start + length <= latest:
            return start
    return None
