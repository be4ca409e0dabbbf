"""Tickets, flights and food: compare offers, choose, order."""

from __future__ import annotations

import re

from holotron.suites.miniwob_solver.dates import choose_date
from holotron.suites.miniwob_solver.moves import (
    bring_into_view,
    click,
    complete,
    first,
    first_of,
    press_submit,
)  # fmt: skip
from holotron.suites.miniwob_solver.page import Page, PageElement
from holotron.suites.miniwob_solver.registry import Memory, solves
from holotron.suites.miniwob_solver.words import parse
from holotron.types import Action


def _price(page: Page, offer: PageElement) -> int:
    return int(parse(page.get("button", within=offer).text, r"\$(\d+)")[0])


def _minutes(page: Page, offer: PageElement) -> int:
    hours, minutes = parse(page.get(css="time-duration", within=offer).text, r"(\d+)h (\d+)m")
    return 60 * int(hours) + int(minutes)


@solves("buy-ticket")
def buy_ticket(goal: str, page: Page) -> Action:
    value = _minutes if "duration" in goal else _price
    best = max if "longest" in goal or "most expensive" in goal else min
    return click(page, page.get("button", within=best(page.all(css="flight"), key=lambda f: value(page, f))))


@solves("book-flight", "book-flight-nodelay")
def book_flight(goal: str, page: Page, memory: Memory) -> Action:
    kind, start, end, day = parse(goal, r"Book the (\w+) one-way flight from: (.*) to: (.*) on (\S+?)\.?$")
    flights = page.all(css="flight")
    if flights:
        cities = [page.get(css=c, within=flights[0]).text for c in ("depart-city", "arrive-city")]
        if start in cities[0] and end in cities[1] and page.get(css="flight-date").text == day:
            return _choose_flight(page, flights, kind, memory)
        return click(page, page.get("button", id="menu-back"))
    fields = (page.get("input", id="flight-from"), start), (page.get("input", id="flight-to"), end)
    airport = first_of(_airport(page, field, name) for field, name in fields)
    date = choose_date(page, page.get("input", id="datepicker"), day)
    if page.find(css="ui-datepicker-title") is not None:
        airport = None  # an open calendar lies over the other fields: first things first
    return first(airport, date, press_submit(page, "Search"))


def _airport(page: Page, field: PageElement, name: str) -> Action | None:
    """The goal names a city or an airport code; the field wants an entry of its own list, 'City, ST (CODE)'."""

    def fits(entry: str) -> bool:
        return entry.startswith(f"{name} (") or entry.endswith(f"({name})")

    return complete(page, field, name, fits)


def _choose_flight(page: Page, flights: list[PageElement], kind: str, memory: Memory) -> Action:
    """Only one offer fits on the screen: scroll past all of them before going back to the best."""
    value = _minutes if kind == "shortest" else _price
    shows = [page.get(css="time-duration" if kind == "shortest" else "flight-price", within=f) for f in flights]
    seen = memory.setdefault("seen", [])
    seen.extend(i for i, e in enumerate(shows) if e.point is not None and i not in seen)
    unseen = [e for i, e in enumerate(shows) if i not in seen]
    if unseen:
        return bring_into_view(page, unseen[0]) or click(page, unseen[0])
    return click(page, page.get("button", within=min(flights, key=lambda f: value(page, f))))


@solves("order-food")
def order_food(goal: str, page: Page) -> Action:
    """Press + beside the dishes; of several that fit, the first one on the menu is ordered again."""
    dishes = page.all(css="food-item")
    counts = [int(page.get(css="quantity", within=d).text or 0) for d in dishes]
    if match := re.search(r"Order (\d+) items that are (\S+)", goal):
        fitting = [page.find("img", within=d, where=lambda e: e.attributes["alt"] == match[2]) for d in dishes]
        wanted = [0] * len(dishes)
        wanted[next(i for i, f in enumerate(fitting) if f is not None)] = int(match[1])
    else:
        names = parse(goal, r"one of each item: (.*)")[0].split(", ")
        wanted = [int(page.get(css="item-name", within=d).text in names) for d in dishes]
    for dish, have, want in zip(dishes, counts, wanted, strict=True):
        if have != want:
            return click(page, page.get(css="add" if have < want else "remove", within=dish))
    return press_submit(page, "Order!")
