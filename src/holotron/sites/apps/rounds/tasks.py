"""One template for each distance: so many steps lie between seeing the word and the page that asks for it."""

from __future__ import annotations

from holotron.sites.apps.rounds.app import LONGEST
from holotron.sites.checks import Added
from holotron.sites.solver.view import PageView
from holotron.sites.tasks import Assignment, Brief, Length, Templates
from holotron.types import Action, Wait

templates = Templates("rounds")

DISTANCES = (1, 2, 4, 8, 16, LONGEST)


def template_name(distance: int) -> str:
    """Two digits, so that a list in order of names is in order of distances."""
    return f"rounds-{distance:02d}"


def plan(view: PageView) -> Action | None:
    if view.page == "help":
        return view.click("go:round")
    if view.page == "start":
        return view.see("word") or view.click("start")
    if view.page == "enter":
        return view.fill("field:word", view.facts["word"]) or view.click("send")
    number = view.page.partition(":")[2]
    if not number:  # the page has not come yet
        return Wait(1.0)
    return view.click(f"to:{view.state.value('select place from stops where id = ?', int(number) + 1)}")


def _make(brief: Brief, distance: int) -> Assignment:
    brief.state.run("update rounds set length = ?", distance)
    brief.trouble(cookies=False, newsletter=0)  # a step more would be another distance
    word = brief.state.value("select word from rounds")
    return Assignment(
        goal=brief.say(
            "The first page shows the pass word of this round. Start the round, go on from stop to stop as the pages "
            "say, and enter the pass word at the end. The words of the stops do not matter.",
            "Do the round: note the pass word on the first page, follow the stops, and at the end enter that pass "
            "word, not the word of a stop.",
        ),
        wanted=(Added("entries", word=word),),
        facts={"word": word},
    )


def _register(distance: int) -> None:
    length: Length = "short" if distance <= 2 else "medium" if distance <= 8 else "long"
    decorate = templates.add(template_name(distance).partition("-")[2], length, plan=plan, about=("recall",))
    decorate(lambda brief: _make(brief, distance))


for _distance in DISTANCES:
    _register(_distance)
