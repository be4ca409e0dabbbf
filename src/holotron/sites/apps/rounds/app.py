"""A round: one address that shows the stop one has got to. What has been left behind is not shown again."""

from __future__ import annotations

from pathlib import Path

from holotron.sites.apps.rounds.words import WORDS
from holotron.sites.http import HttpResponse
from holotron.sites.state import Row
from holotron.sites.tasks import Brief
from holotron.sites.web import App, Link, Menu, NotFound, Visit

SCHEMA = """
create table rounds (id integer primary key, word text, length int, stop int);
create table stops (id integer primary key, place int, word text);
create table places (id integer primary key, name text);
create table entries (id integer primary key, word text);
"""
# Sixteen, as many kinds of values as `benchmarks/recall.py` has: guessing is right in 6.25 % of the cases.
PASS_WORDS = (
    "Amber", "Birch", "Cedar", "Dahlia", "Ember", "Fjord", "Grove", "Heron", "Ivory", "Juniper", "Koala", "Lemon",
    "Maple", "Nimbus", "Opal", "Quartz",
)  # fmt: skip
PLACES = (
    "Archive", "Boiler room", "Canteen", "Cellar", "Courtyard", "Gallery", "Garage", "Kitchen", "Laundry", "Library",
    "Lift", "Lobby", "Loft", "Meeting room", "Office", "Reception", "Roof", "Server room", "Staircase", "Storeroom",
    "Studio", "Terrace", "Workshop", "Yard",
)  # fmt: skip
WAYS = 4  # offered at every stop
LONGEST = 32


def fill(brief: Brief) -> None:
    """A stop's word is never the round's, so whoever enters what was seen last is wrong."""
    dice, state = brief.dice, brief.state
    word, *others = dice.sample(PASS_WORDS, len(PASS_WORDS))
    state.add("rounds", word=word, length=1, stop=0)
    for name in PLACES:
        state.add("places", name=name)
    place = 0
    for _ in range(LONGEST):
        place = dice.choice([number for number in range(1, len(PLACES) + 1) if number != place])
        state.add("stops", place=place, word=dice.choice(others))


def menu(visit: Visit) -> Menu:
    places = [
        Link("round", visit.t("round"), "/", "list", here=visit.path == "/"),
        Link("help", visit.t("help"), "/help", "star", here=visit.path == "/help"),
    ]
    return Menu(places, [])


app = App(
    "rounds",
    folder=Path(__file__).parent,
    schema=SCHEMA,
    words=WORDS,
    brands=(("Nightwatch", "nightwatch.example"), ("Rondo", "rondo.example"), ("Hausmeister", "hausmeister.example")),
    menu=menu,
    fill=fill,
    accounts=False,
    follows={"rounds": frozenset({"stop"})},
    irrevocable=frozenset({"entries"}),
)


def _round(visit: Visit) -> Row:
    return visit.state.get("select * from rounds")


def _stop(visit: Visit, number: int) -> Row:
    return visit.state.get("select s.*, p.name from stops s join places p on p.id = s.place where s.id = ?", number)


def _ways(visit: Visit, stop: int) -> list[Row]:
    """The next place among others, in an order that says nothing."""
    right = _stop(visit, stop + 1)["place"]
    others = [(right + 5 * number + stop) % len(PLACES) + 1 for number in range(1, 9)]
    chosen = [right, *dict.fromkeys(place for place in others if place != right)][:WAYS]
    return visit.state.all(f"select * from places where id in ({', '.join(map(str, chosen))}) order by name")


@app.get("/")
def here(visit: Visit) -> HttpResponse:
    return _page(visit)


def _page(visit: Visit) -> HttpResponse:
    now = _round(visit)
    if visit.state.one("select * from entries"):
        return visit.page("finished.html")
    if now["stop"] == 0:
        return visit.page("start.html", word=now["word"])
    if now["stop"] >= now["length"]:
        return visit.page("enter.html", words=", ".join(PASS_WORDS))
    number = now["stop"]
    return visit.page("stop.html", number=number, stop=_stop(visit, number), next=_stop(visit, number + 1),
                      ways=_ways(visit, number))  # fmt: skip


@app.get("/help")
def help_page(visit: Visit) -> HttpResponse:
    return visit.page("help.html")


@app.post("/start")
def start(visit: Visit) -> HttpResponse:
    visit.state.run("update rounds set stop = 1 where stop = 0")
    return visit.redirect("/")


@app.post("/go")
def go(visit: Visit) -> HttpResponse:
    now = _round(visit)
    if not 1 <= now["stop"] < now["length"]:
        raise NotFound("there is nowhere to go")
    if visit.number("place") == _stop(visit, now["stop"] + 1)["place"]:
        visit.state.run("update rounds set stop = stop + 1")
    else:
        visit.flash(visit.t("wrong_way"), "bad")
    return visit.redirect("/")


@app.post("/enter")
def enter(visit: Visit) -> HttpResponse:
    """A word that is none of them is a slip of the hand and may be mended; one of the others is a wrong answer."""
    now, said = _round(visit), visit.text("word").casefold()
    if now["stop"] < now["length"] or visit.state.one("select * from entries"):
        raise NotFound("not yet, or not again")
    known = {word.casefold(): word for word in PASS_WORDS}
    if said not in known:
        visit.errors["word"] = visit.t("no_such_word")
        return _page(visit)
    visit.state.add("entries", word=known[said])
    return visit.redirect("/")
