"""How the solver keeps a calendar. Every function looks at the page and the state as they are and gives the next
action, or None when there is nothing left to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holotron.sites.apps.calendar.editing import INVITATIONS_PER_PAGE, zone_label
from holotron.sites.apps.calendar.times import clock
from holotron.sites.solver.view import PageView
from holotron.sites.state import Row
from holotron.types import Action

# ---------------------------------------------------------------------------------------------------- going somewhere


def to_event(view: PageView, event: Row) -> Action | None:
    """An event that is no series, by its title."""
    if view.page == f"event:{event['id']}":
        return None
    name = f"event:{event['id']}"
    if view.has(name):
        return view.click(name)
    if view.page == "search" and view.query.get("q") == event["title"]:
        return view.click("next")
    return view.search(event["title"])


def to_day(view: PageView, kind: str, day: str) -> Action | None:
    """`day`, `week`, `month` or `people`, by typing the date."""
    if view.page == f"{kind}:{day}":
        return None
    if not view.page.startswith(f"{kind}:"):
        return view.click(f"go:{kind}")
    return view.fill("go-to", day) or view.click("go-to:go")


def to_form(view: PageView, event: Row | None) -> Action | None:
    """The form for a new event, or for one that is there."""
    if event is None:
        return None if view.page == "new" else view.click("go:new")
    return None if view.page == f"edit:{event['id']}" else to_event(view, event) or view.click("edit")


# --------------------------------------------------------------------------------------------------------- doing things


def tidy(view: PageView) -> Action | None:
    """Undo what nobody asked for, as far as that is possible."""
    for change in view.strays("events"):
        if change.before is None and change.after is not None:
            return to_event(view, dict(change.after)) or view.click("delete")
        if change.before is not None and change.after is not None:
            was = dict(change.before)
            return to_form(view, was) or fill_in(view, {**was, "start": clock(was["start"]), "end": clock(was["end"])})
    for change in view.strays("calendars"):
        if change.before is not None and change.after is not None:
            return view.click(f"toggle:{change.id}" if view.page == "calendars" else "go:calendars")
    return None


def fill_in(view: PageView, event: Mapping[str, Any]) -> Action:
    """Have this in the form that is open, then save. Only what is named is touched."""
    for name in ("title", "day", "place", "start", "end", "until", "note"):
        if name in event and (move := view.fill(f"field:{name}", event[name])):
            return move
    if "calendar" in event:
        label = view.state.value("select name from calendars where id = ?", event["calendar"])
        if move := view.choose("field:calendar", label):
            return move
    if "zone" in event and (move := view.choose("field:zone", zone_label(event["zone"]))):
        return move
    if "repeat" in event and (move := view.choose("field:repeat", view.t(f"repeat_{event['repeat'] or 'never'}"))):
        return move
    for guest in event.get("guests", ()):
        if move := view.tick(f"guest:{guest}"):
            return move
    return view.click("save")


# ------------------------------------------------------------------------------------------------- plans of templates


def when(view: PageView) -> Action | None:
    name = f"event:{view.facts['event']['id']}"
    if view.page == name:
        return view.read("when", view.facts["answer"])
    if view.has(name) and not view.page.startswith("month"):
        return view.read(name, view.facts["answer"])
    return tidy(view) or to_event(view, view.facts["event"])


def delete(view: PageView) -> Action | None:
    return tidy(view) or to_event(view, view.facts["event"]) or view.click("delete")


def skip(view: PageView) -> Action | None:
    event, day = view.facts["event"], view.facts["day"]
    if view.page == f"event:{event['id']}" and view.query.get("on") == day:
        return view.click("delete-one")
    if view.has(f"event:{event['id']}:{day}"):
        return view.click(f"event:{event['id']}:{day}")
    return tidy(view) or to_day(view, "day", day)


def settings(view: PageView) -> Action | None:
    values = view.facts["values"]
    reminder = view.t("minutes_before", count=values["reminder"]) if values["reminder"] else view.t("no_reminder")
    return (
        tidy(view)
        or (None if view.page == "settings" else view.click("go:settings"))
        or view.choose("field:week_start", view.t(values["week_start"]))
        or view.choose("field:reminder", reminder)
        or view.click("save")
    )


def invitations(view: PageView) -> Action | None:
    """Each as it should be answered; `tries` are those that have to be tried to see that they do not fit."""
    if view.page != "invitations":
        return tidy(view) or view.click("go:invitations")
    open_ones = view.state.all("select * from invitations where answer = 'open' order by day, start, id")
    wanted: dict[int, str] = view.facts["answers"]
    left = [row["id"] for row in open_ones if row["id"] in wanted]
    here = [id for id in left if view.has(f"accept:{id}")]
    if here:
        tried = view.memory.setdefault("tried", [])
        if wanted[here[0]] == "accepted" or (view.facts.get("tries") and here[0] not in tried):
            move = view.click(f"accept:{here[0]}")
            if view.see(f"accept:{here[0]}") is None:
                tried.append(here[0])
            return move
        return view.click(f"decline:{here[0]}")
    if not left:
        return tidy(view)
    page = [row["id"] for row in open_ones].index(left[0]) // INVITATIONS_PER_PAGE + 1
    return view.click("next" if int(view.query.get("page", 1)) < page else "previous")


def create(view: PageView) -> Action | None:
    return tidy(view) or to_form(view, view.facts.get("edit")) or fill_in(view, view.facts["event"])


def maybe(view: PageView) -> Action | None:
    if view.has("wrong:start") and view.facts["taken"]:
        return view.read("wrong:start", "impossible")
    return create(view)


def conflict(view: PageView) -> Action | None:
    """Half an hour later after each refusal."""
    facts, refused = view.facts, view.memory.setdefault("refused", [])
    if view.has("wrong:start"):
        said = view.get("wrong:start").text
        refused += [time for time in facts["tries"] if said.startswith(time) and time not in refused]
    start = next(time for time in facts["tries"] if time not in refused)
    minutes = int(start[:2]) * 60 + int(start[3:])
    event = {"day": facts["day"], "start": start, "end": clock(minutes + facts["length"])}
    return tidy(view) or to_form(view, facts["event"]) or fill_in(view, event)


def free(view: PageView) -> Action | None:
    """Look at the day, at the colleagues if there are any, and then book."""
    facts, looked = view.facts, view.memory.setdefault("looked", [])
    for kind in facts["look"]:
        if kind not in looked:
            if move := tidy(view) or to_day(view, kind, facts["event"]["day"]):
                return move
            for guest in facts["event"].get("guests", ()) if kind == "people" else ():
                if move := view.see(f"colleague:{guest}"):
                    return move
            looked.append(kind)
    return create(view)


def count(view: PageView) -> Action | None:
    """Look at every page of the agenda before answering."""
    if view.page != "agenda":
        return tidy(view) or view.click("go:agenda")
    seen = view.memory.setdefault("seen", [])
    for name in view.names("event:"):
        if name not in seen:
            if move := view.see(f"event:{name}"):
                return move
            seen.append(name)
    if len(seen) >= view.facts["events"]:
        return view.answer(view.facts["answer"])
    return view.click("next" if view.has("next") else "previous")


def several(view: PageView) -> Action | None:
    """One new event after the other."""
    if move := tidy(view):
        return move
    for event in view.facts["list"]:
        if not view.state.one("select * from events where title = ?", event["title"]):
            return to_form(view, None) or fill_in(view, event)
    return None


def recall(view: PageView) -> Action | None:
    """Read the code while it is shown, follow the notes, and only then write it down."""
    facts, seen = view.facts, view.memory.setdefault("seen", [])
    if "code" not in seen:
        if view.page == f"event:{facts['once']['id']}" and (move := view.see("note")):
            return move
        seen.append("code")
    for event in facts["stops"][:-1]:
        if view.page == f"event:{event['id']}" and event["id"] not in seen:
            if move := view.see("note"):
                return move
            seen.append(event["id"])
        if event["id"] not in seen:
            return tidy(view) or to_event(view, event)
    return tidy(view) or to_form(view, facts["stops"][-1]) or fill_in(view, {"place": facts["code"]})
