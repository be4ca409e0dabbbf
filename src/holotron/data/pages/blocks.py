"""Blocks: the parts pages are stacked from. Each is a function of the kit that gives one piece of HTML.

`BLOCKS` lists them with the room they need, in ems of the page's type size, so that the same blocks fill a page of 160
pixels and one of 1280.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape

from holotron.data.colours import hsl, to_hex
from holotron.data.pages import icons
from holotron.data.pages.kit import Kit, div, flag, span, tag

Maker = Callable[[Kit], str]


@dataclass(frozen=True, slots=True)
class Block:
    name: str
    make: Maker
    width: float  # ems
    height: float  # ems, roughly
    weight: float
    held_out: bool


BLOCKS: dict[str, Block] = {}


def block(width: float, height: float, *, weight: float = 1.0, held_out: bool = False) -> Callable[[Maker], Maker]:
    def register(make: Maker) -> Maker:
        BLOCKS[make.__name__] = Block(make.__name__, make, width, height, weight, held_out)
        return make

    return register


# ------------------------------------------------------------------------------------------------------------- forms


@block(10, 9, weight=1.5)
def form(kit: Kit) -> str:
    above = kit.chance(0.5)
    makers = [kit.text_field] * 4 + [kit.select]
    rows = [kit.rng.choice(makers)(above=above) for _ in range(kit.count(1, 5, 3.2))]
    if kit.chance(0.2):
        rows.append(kit.choice("checkbox", kit.words.label(4), checked=kit.chance(0.5)))
    if kit.fits(16) and kit.chance(0.15):
        notes = "\n".join(" ".join(kit.words.word() for _ in range(2)) for _ in range(2))
        rows.append(tag("textarea", escape(notes), css="fld", rows="2", style="width:14em", named=kit.words.label(1)))
    buttons = [kit.button(main=True), *(kit.button() for _ in range(kit.rng.choice((0, 0, 1))))]
    title = tag("h3", escape(kit.words.label(4))) if kit.chance(0.3) else ""
    return div("col", title, *rows, div("row wrap", *buttons))


@block(8, 8, weight=1.5)
def choices(kit: Kit) -> str:
    kind, group, count = kit.rng.choice(("checkbox", "radio")), kit.id(), kit.count(2, 8, 1.7)
    ticked = {kit.rng.randrange(count)} if kind == "radio" else {i for i in range(count) if kit.chance(0.3)}
    rows = [kit.choice(kind, kit.words.label(2), name=group, checked=i in ticked) for i in range(count)]
    body = div("col", *rows, style=f"gap:{kit.style.gap * kit.rng.uniform(0.1, 0.6):.1f}px")
    if kit.chance(0.25):
        body = tag("fieldset", tag("legend", escape(kit.words.label(2))), body)
    return div("col start", body, kit.button(main=True) if kit.chance(0.7) else "")


@block(9, 2, weight=0.8)
def search(kit: Kit) -> str:
    name = kit.words.label(1)
    entry = kit.input(named=name, placeholder=name, style="flex:1;min-width:0")
    return div("row", entry, kit.icon_button("search", "framed") if kit.chance(0.5) else kit.button())


@block(9, 7)
def suggestions(kit: Kit) -> str:
    """A field with the list of proposals open under it."""
    start = kit.words.word()[:2]
    items = [start + kit.words.word() for _ in range(kit.rng.randint(2, 5))]
    rows = [div("it sel" if i == 0 else "it", escape(item), role="option") for i, item in enumerate(items)]
    room = "width:11em;max-width:100%"
    return div("", kit.input(named=kit.words.label(2), value=start, style=room), div("pop still", *rows, style=room))


@block(10, 6)
def settings(kit: Kit) -> str:
    rows = []
    for _ in range(kit.count(2, 6, 2.4)):
        label, kind = kit.words.label(3), kit.rng.random()
        switch = kit.switch(label, kit.chance(0.5))
        control = switch if kind < 0.5 else kit.slider(label) if kind < 0.75 else kit.button(kit.words.label(1))
        hint = div("m s cut", escape(kit.words.sentence(4))) if kit.fits(24) and kit.chance(0.4) else ""
        rows.append(div("row line thirdset", div("grow", div("cut", escape(label)), hint), control, item=label))
    return div("", *rows)


@block(8, 3, weight=0.7)
def stepper(kit: Kit) -> str:
    label = kit.words.label(2)
    field = kit.input(named=label, value=kit.rng.randint(0, 99), style="width:4em;text-align:center")
    less, more = kit.icon_button("minus", "framed"), kit.icon_button("plus", "framed")
    return div("row wrap", span(label), less, field, more, item=label)


# ------------------------------------------------------------------------------------------------- text and links


@block(8, 6, weight=1.6)
def paragraph(kit: Kit) -> str:
    """Prose with links in it."""
    parts = []
    for _ in range(kit.count(1, 4, 2.5)):
        words = [escape(kit.words.word()) for _ in range(kit.rng.randint(4, 14))]
        words[0] = words[0][:1].upper() + words[0][1:]
        for place in range(1, len(words), 3):
            if kit.chance(0.22):
                words[place] = kit.link(kit.words.word())
        parts.append(" ".join(words) + kit.rng.choice(".?!,;"))
    title = tag(kit.rng.choice(("h2", "h3")), escape(kit.words.label(4))) if kit.chance(0.4) else ""
    return div("", title, tag("p", " ".join(parts)))


@block(6, 6)
def links(kit: Kit) -> str:
    rows = [tag("li", kit.link(kit.words.label(4))) for _ in range(kit.count(2, 9, 1.6))]
    return tag("ul", *rows, css="bullets" if kit.chance(0.4) else "")


@block(7, 5, weight=1.4)
def lines(kit: Kit) -> str:
    """Plain text of all sizes: something to read."""
    rows = []
    for _ in range(kit.count(2, 9, 1.7)):
        pieces = [kit.words.code() if kit.chance(0.35) else kit.words.word() for _ in range(kit.rng.randint(1, 5))]
        size = f"font-size:{kit.rng.uniform(0.85, 1.7):.2f}em" if kit.chance(0.2) else ""
        css = kit.rng.choice(("", "", "", "m", "s", "b", "m s"))
        rows.append(div(css, escape(" ".join(pieces)), role="paragraph", style=size))
    return div("", *rows, style=kit.rng.choice(("", "", "text-align:center", "text-align:right")))


@block(9, 5)
def facts(kit: Kit) -> str:
    """Names with values: what a person reads off a page."""
    rows = []
    for _ in range(kit.count(2, 7, 1.7)):
        name = kit.words.label(2)
        key = span(name + ":", kit.rng.choice(("m", "b")), style="min-width:35%")
        rows.append(div("row", key, span(kit.words.datum(), role="value", named=name), item=name))
    return div("", *rows)


@block(8, 2, weight=0.7)
def breadcrumbs(kit: Kit) -> str:
    names = [kit.words.label(1) for _ in range(kit.rng.randint(2, 4 if kit.fits(24) else 3))]
    parts = [kit.link(name) for name in names[:-1]] + [span(names[-1], role="paragraph")]
    return div("", f" {escape(kit.rng.choice('/›>»'))} ".join(parts))


@block(9, 2, weight=0.7)
def pages(kit: Kit) -> str:
    """Page numbers."""
    count = kit.rng.randint(3, 7 if kit.fits(20) else 5)
    current = kit.rng.randint(1, count)
    items = []
    for n in range(1, count + 1):
        now = n == current
        items.append(tag("a", str(n), href="#", css="it on" if now else "it", aria_current="page" if now else None,
                         style="padding:1px .5em"))  # fmt: skip
    before, after = (
        tag("a", escape(sign), href="#") for sign in kit.rng.choice((("<", ">"), ("«", "»"), ("Prev", "Next")))
    )
    return div("row", before, *items, after)


@block(10, 3, weight=0.7)
def notice(kit: Kit) -> str:
    hue = kit.rng.choice((5, 45, 130, 210))
    ground, ink, edge = (to_hex(hsl(hue, 0.7, lightness)) for lightness in (0.9, 0.2, 0.6))
    colours = f"background:{ground};color:{ink};border:1px solid {edge};border-radius:{kit.style.radius:g}px"
    close = kit.icon_button("close", "end", style="color:inherit") if kit.chance(0.6) else ""
    sign = kit.icon(kit.rng.choice(("info", "warning", "check")))
    return div("row halfset", sign, span(kit.words.sentence(4), "grow"), close, role="alert", style=colours)


# ------------------------------------------------------------------------------------------------------ rows of things


@block(6, 3, weight=1.6)
def buttons(kit: Kit) -> str:
    coloured, made = kit.chance(0.3), []
    for _ in range(kit.count(1, 6, 1.2)):
        usual = kit.button(main=kit.chance(0.2), disabled=kit.chance(0.05))
        made.append(kit.coloured_button() if coloured else usual)
    return div("row wrap" if kit.chance(0.7) else "col start", *made)


@block(7, 2.5)
def toolbar(kit: Kit) -> str:
    room = max(3, int(kit.width / (kit.style.size * 1.25 + kit.style.gap + 6)))
    names = kit.rng.sample(icons.NAMES, min(kit.rng.randint(3, 12), room))
    framed = "framed" if kit.chance(0.4) else ""
    return div("row", *(kit.icon_button(name, framed) for name in names), style="gap:2px")


@block(9, 7, weight=1.4)
def tabs(kit: Kit) -> str:
    names = [kit.words.label(1) for _ in range(kit.rng.randint(2, 6 if kit.fits(32) else 3))]
    now = kit.rng.randrange(len(names))
    heads = [
        div("tab on" if i == now else "tab", escape(name), role="tab", aria_selected=flag(i == now))
        for i, name in enumerate(names)
    ]
    return div("", div("tabs", *heads), div("halfset", paragraph(kit)))


@block(8, 7)
def accordion(kit: Kit) -> str:
    count = kit.count(2, 5, 2)
    unfolded = kit.rng.randrange(count + 1)
    rows = []
    for i in range(count):
        now = i == unfolded
        name, css = span(kit.words.label(3)), "it line sel" if now else "it line"
        rows.append(div(css, kit.mark(now), name, role="button", aria_expanded=flag(now)))
        if now:
            rows.append(div("halfset", paragraph(kit)))
    return div("card flush", *rows)


@block(7, 8)
def menu(kit: Kit) -> str:
    """A menu, with one of its entries opened to the side where there is room."""
    pictures, count = kit.chance(0.3), kit.count(2, 7, 1.9)
    parent = kit.rng.randrange(count) if kit.fits(18) and kit.chance(0.5) else None

    def entry(opened: bool) -> str:
        lead = kit.icon(ems=1) if pictures else ""
        more = tag("span", kit.mark(False), css="end") if opened else ""
        rule = div("hr") if kit.chance(0.1) else ""
        name = span(kit.words.label(2))
        return div("it sel" if opened else "it", lead, name, more, role="menuitem") + rule

    first = div("pop still", *(entry(i == parent) for i in range(count)))
    second = "" if parent is None else div("pop still", *(entry(False) for _ in range(kit.rng.randint(2, 4))))
    return div("row top tight", first, second)


@block(7, 8)
def tree(kit: Kit) -> str:
    rows: list[str] = []

    def grow(depth: int) -> None:
        for _ in range(kit.rng.randint(1, 4 if depth == 0 else 3)):
            if len(rows) > 14:
                return
            folder = kit.chance(0.55)
            opened = folder and depth < 3 and kit.chance(0.6)
            lead = kit.mark(opened) if folder else span("", style="width:.7em")
            picture, name = kit.icon("folder" if folder else "file", 1), span(kit.words.label(2))
            folds, indent = flag(opened) if folder else None, f"margin-left:{depth * 1.1:g}em;gap:3px"
            rows.append(div("row hand snug", lead, picture, name, role="treeitem", aria_expanded=folds, style=indent))
            if opened:
                grow(depth + 1)

    grow(0)
    return div("", *rows)


@block(12, 9, weight=1.4)
def table(kit: Kit) -> str:
    words, wide = kit.words, kit.fits(24)
    columns = [words.label(1) for _ in range(kit.rng.randint(2, 6 if kit.fits(45) else 4 if wide else 3))]
    makers = [kit.rng.choice((words.datum, words.code, words.word, words.price, words.date)) for _ in columns]
    makers[0] = kit.rng.choice((words.person, words.word))
    tools = kit.rng.choice(((), (), ("pencil", "trash"), ("more",), ("eye", "download"))) if wide else ()
    ticks = wide and kit.chance(0.25)
    empty = tag("th", role="none")
    head = [tag("th", escape(name)) for name in columns]
    rows = [tag("tr", empty if ticks else "", *head, empty if tools else "")]
    for _ in range(kit.count(2, 14, 1.9)):
        texts = [make() for make in makers]
        cells = [tag("td", escape(text), named=name) for text, name in zip(texts, columns, strict=True)]
        if kit.chance(0.2):
            cells[0] = tag("td", kit.link(texts[0]), named=columns[0])
        if ticks:
            cells.insert(
                0, tag("td", tag("input", type="checkbox", named=texts[0], checked=kit.chance(0.15)), role="none")
            )
        if tools:
            cells.append(tag("td", div("row tight", *(kit.icon_button(name) for name in tools)), role="none"))
        rows.append(tag("tr", *cells, css="sel" if kit.chance(0.06) else "", item=texts[0]))
    return tag("table", *rows)


@block(11, 10)
def mails(kit: Kit) -> str:
    """A list of messages: sender, subject, some first words, small tools."""
    tools = kit.rng.choice((("star", "trash"), ("trash",), ("star",), ("reply", "right", "trash"), ()))
    rows = []
    for _ in range(kit.count(2, 10, 3)):
        sender, subject = kit.words.person(), kit.words.sentence(kit.rng.randint(1, 4)).rstrip(".!?")
        when = span(kit.words.time(), "m s") if kit.fits(16) else ""
        head = div("row", span(sender, "grow cut b" if kit.chance(0.3) else "grow cut"), when)
        body = div("cut", escape(subject)) + div("m s cut", escape(kit.words.sentence(9)))
        lead = tag("input", type="checkbox", named=sender) + kit.avatar(sender) if kit.fits(28) else ""
        side = div("row tight", *(kit.icon_button(name) for name in tools))
        rows.append(div("row line thirdset hand sel" if kit.chance(0.08) else "row line thirdset hand", lead,
                        div("grow", head, body), side, role="row", named=subject, item=sender))  # fmt: skip
    return div("", *rows)
