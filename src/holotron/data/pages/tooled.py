"""Blocks of rows and columns with small tools: first find the right line, then what belongs to it."""

from __future__ import annotations

from html import escape

from holotron.data.pages import icons
from holotron.data.pages.blocks import block
from holotron.data.pages.kit import Kit, div, span, tag


def _tools(kit: Kit, most: int) -> tuple[str, ...]:
    """The icons that every row of a list has."""
    return tuple(kit.rng.sample(icons.NAMES, kit.rng.randint(1, most)))


@block(10, 8)
def people(kit: Kit) -> str:
    tools, linked, rows = _tools(kit, 3 if kit.fits(18) else 2), kit.chance(0.5), []
    for _ in range(kit.count(2, 7, 2.6)):
        name = kit.words.person()
        shown = kit.link(name) if linked else span(name)
        about = div("m s cut", escape(kit.words.label(2)))
        buttons = div("row tight end", *(kit.icon_button(tool) for tool in tools))
        rows.append(div("row line thirdset", kit.avatar(name), div("grow", shown, about), buttons, item=name))
    return div("", *rows)


@block(12, 7)
def basket(kit: Kit) -> str:
    """Things with a number of pieces to raise, lower, and remove."""
    rows = []
    for _ in range(kit.count(1, 5, 2.6)):
        name = kit.words.label(2)
        number = span(str(kit.rng.randint(1, 12)), role="value", named=name)
        fewer, more = kit.icon_button("minus", "framed"), kit.icon_button("plus", "framed")
        price = span(kit.words.price(), "m") if kit.fits(18) else ""
        parts = (span(name, "grow cut"), fewer, number, more, price, kit.icon_button("trash"))
        rows.append(div("row line", *parts, item=name))
    return div("", *rows, div("row", span(kit.words.price(), "b grow"), kit.button(main=True)))


@block(10, 7)
def transfers(kit: Kit) -> str:
    """What is being copied or loaded, with how far it is."""
    tools, rows = _tools(kit, 2), []
    for _ in range(kit.count(2, 6, 2.6)):
        name, done = kit.words.label(2), kit.rng.randint(0, 100)
        filled = span("", style=f"display:block;height:4px;width:{done}%;background:var(--accent)")
        bar = div("", filled, style="background:var(--line)")
        head = div("row", span(name, "grow cut"), span(f"{done} %", "m s"))
        rows.append(div("row", div("grow", head, bar), *(kit.icon_button(tool) for tool in tools), item=name))
    return div("col", *rows)


@block(10, 9)
def columns(kit: Kit) -> str:
    """Headings side by side, with links below each."""
    made = []
    for _ in range(max(2, min(4, int(kit.width / (kit.style.size * 8))))):
        name = kit.words.label(1)
        entries = [div("", kit.link(kit.words.label(2))) for _ in range(kit.count(2, 6, 1.6))]
        made.append(div("grow", tag(kit.rng.choice(("h3", "h4")), escape(name)), *entries, item=name))
    return div("row top", *made)


@block(10, 9)
def comments(kit: Kit) -> str:
    tools, rows = _tools(kit, 3), []
    for _ in range(kit.count(1, 5, 4)):
        person = kit.words.person()
        head = div("row", span(person, "b"), span(kit.words.time(), "m s"))
        text = div("", escape(kit.words.sentence(kit.rng.randint(3, 9))), role="paragraph")
        counted = [kit.icon_button(tool) + span(str(kit.rng.randint(0, 99)), "m s") for tool in tools]
        rows.append(div("line thirdset", head, text, div("row", *counted), item=person))
    return div("", *rows)


@block(9, 7)
def reminders(kit: Kit) -> str:
    """Things to do: a box to tick, what it is, and what can be done with it."""
    tools, linked, rows = _tools(kit, 2), kit.chance(0.5), []
    for _ in range(kit.count(2, 8, 2)):
        name = kit.words.label(3)
        tick = tag("input", type="checkbox", named=name, checked=kit.chance(0.3))
        shown = div("grow cut", kit.link(name) if linked else escape(name))
        rows.append(div("row", tick, shown, *(kit.icon_button(tool) for tool in tools), item=name))
    return div("col", *rows)


@block(12, 8)
def comparison(kit: Kit) -> str:
    """A table of what which offer has, with a button below each."""
    offers = [kit.words.label(1) for _ in range(3 if kit.fits(22) else 2)]
    rows = [tag("tr", tag("th", role="none"), *(tag("th", escape(offer)) for offer in offers))]
    for _ in range(kit.count(2, 6, 1.9)):
        has = [
            kit.icon(kit.rng.choice(("check", "close")), 1) if kit.chance(0.7) else escape(kit.words.code())
            for _ in offers
        ]
        rows.append(tag("tr", tag("td", escape(kit.words.label(2))), *(tag("td", cell, role="none") for cell in has)))
    choose = [tag("td", kit.button(kit.words.label(1)), role="none", item=offer) for offer in offers]
    return tag("table", *rows, tag("tr", tag("td", role="none"), *choose))


@block(10, 7)
def notices(kit: Kit) -> str:
    rows = []
    for _ in range(kit.count(2, 6, 2.6)):
        text, more = kit.words.sentence(kit.rng.randint(2, 5)), kit.link(kit.words.word())
        when = span(kit.words.time(), "m s") if kit.chance(0.5) else ""
        body = div("grow", escape(text), " ", more, " ", when)
        rows.append(div("row line thirdset", kit.icon(), body, kit.icon_button("close"), item=text))
    return div("", *rows)
