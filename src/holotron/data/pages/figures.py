"""Blocks with more to look at than text: cards, calendars, posts, charts, shapes, keypads; and the held-out ones."""

from __future__ import annotations

import math
from html import escape

from holotron.data.colours import from_hex, hsl, to_hex
from holotron.data.pages import icons
from holotron.data.pages.blocks import block
from holotron.data.pages.kit import HUES, Kit, div, flag, span, tag

_PLAIN = (*(to_hex(hsl(hue, 0.85, 0.47)) for hue in HUES), "#111111", "#808080")
_SIGNS = "ABCDEFGHJKLMNPQRTUVWXYZabdefghkmnpqrt0123456789"
_WEEKS = (tuple("SMTWTFS"), tuple("MTWTFSS"), ("Su", "Mo", "Tu", "We", "Th", "Fr", "Sa"))


@block(9, 12)
def cards(kit: Kit) -> str:
    across = max(1, min(5, int(kit.width / (kit.style.size * kit.rng.uniform(10, 14)))))
    em, made = kit.style.size, []
    for _ in range(across * kit.rng.randint(1, 3)):
        name = kit.words.label(3)
        picture = kit.picture(em * 6, em * kit.rng.uniform(2.5, 4)) if kit.chance(0.6) else ""
        text = div("m s", escape(kit.words.sentence(5)), role="paragraph") if kit.chance(0.5) else ""
        price = span(kit.words.price(), "b", role="value", named=name)
        tools = (kit.button() if kit.chance(0.6) else "") + (kit.icon_button("heart") if kit.chance(0.4) else "")
        title = tag("h3", escape(name))
        made.append(
            div("card col", picture, title, text, div("row wrap", price, tools), role="card", named=name, item=name)
        )
    grid = f"display:grid;gap:{kit.style.gap:g}px;grid-template-columns:repeat({across},minmax(0,1fr))"
    return div("", *made, style=grid)


@block(11, 11)
def calendar(kit: Kit) -> str:
    start, days = kit.rng.randrange(7), kit.rng.choice((28, 30, 31))
    chosen = kit.rng.randint(1, days) if kit.chance(0.5) else 0
    size = min(kit.style.size * 2.6, (kit.width - 2 * kit.style.gap - 2) / 7)
    cell = f"width:{size:.2f}px;text-align:center;padding:{max(1, kit.style.gap * 0.2):.1f}px 0"
    title = span(f"{kit.words.label(1)} {kit.rng.randint(1990, 2040)}", "grow b middle")
    week = [span(name, "m", style=cell) for name in kit.rng.choice(_WEEKS)]
    blank = [span("", style=cell) for _ in range(start)]
    numbers = [
        span(
            str(day), "on hand" if day == chosen else "hand", role="day", style=cell, aria_selected=flag(day == chosen)
        )
        for day in range(1, days + 1)
    ]
    head = div("row", kit.icon_button("left"), title, kit.icon_button("right"))
    grid = div("", *week, *blank, *numbers, style=f"display:flex;flex-wrap:wrap;width:{size * 7 + 0.1:.2f}px")
    return div("card", head, grid, style="width:fit-content")


@block(11, 9)
def posts(kit: Kit) -> str:
    made = []
    for _ in range(kit.count(1, 5, 5)):
        author = kit.words.person()
        handle, when = span("@" + kit.words.word().lower(), "m s cut"), span(kit.words.time(), "m s end")
        head = div("row", kit.avatar(author) if kit.chance(0.6) else "", span(author, "b"), handle, when)
        names = kit.rng.sample(("heart", "reply", "share", "star", "more", "flag"), 3)
        tools = div("row", *(kit.icon_button(name) for name in names))
        text = tag("p", escape(kit.words.sentence(kit.rng.randint(3, 12))))
        made.append(div("line thirdset", head, text, tools, item=author))
    return div("", *made)


@block(10, 9)
def results(kit: Kit) -> str:
    """What a search finds: title, address, summary."""
    made = []
    for _ in range(kit.count(1, 6, 4)):
        title, address = kit.words.label(4), f"www.{kit.words.word().lower()}.com/{kit.words.code().lower()}"
        text = tag("p", escape(kit.words.sentence(kit.rng.randint(4, 14))))
        made.append(
            div(
                "", div("", kit.link(title), style="font-size:1.1em"), div("m s cut", escape(address)), text, item=title
            )
        )
    return div("col", *made)


@block(10, 6)
def figures(kit: Kit) -> str:
    """Key figures with a small chart."""
    tiles = []
    for _ in range(kit.rng.randint(1, 4 if kit.fits(34) else 2)):
        name = kit.words.label(2)
        number = kit.words.price() if kit.chance(0.5) else kit.words.number(3)
        value = div("large b", escape(number), role="value", named=name)
        tiles.append(div("card grow", div("m s", escape(name)), value, item=name))
    bars = [kit.rng.uniform(8, 58) for _ in range(kit.rng.randint(4, 12))]
    step, colour = 200 / len(bars), to_hex(kit.style.accent)
    drawn = [
        tag(
            "rect",
            x=f"{i * step + 2:.1f}",
            y=f"{60 - bar:.1f}",
            width=f"{step - 4:.1f}",
            height=f"{bar:.1f}",
            fill=colour,
        )
        for i, bar in enumerate(bars)
    ]
    chart = tag("svg", *drawn, role="image", width="100%", height=f"{kit.style.size * 4:g}", viewBox="0 0 200 60",
                preserveAspectRatio="none")  # fmt: skip
    return div("col", div("row", *tiles), chart if kit.chance(0.7) else "")


# --------------------------------------------------------------------------------------------------- shapes and signs


@block(8, 9, weight=1.3)
def shapes(kit: Kit) -> str:
    """Coloured figures and signs at random places: circles, squares, triangles, letters, digits."""
    rng = kit.rng
    width, height = min(kit.width, rng.choice((120, 150, 220))), min(kit.height, rng.choice((80, 110, 140)))
    cell = rng.uniform(22, 34)
    places = [(column, row) for column in range(int(width // cell)) for row in range(int(height // cell))]
    drawn = []
    for column, row in rng.sample(places, min(len(places), rng.randint(2, 12))):
        size = cell * rng.choice((0.42, 0.62, 0.85))
        x, y = (n * cell + rng.uniform(0, cell - size) + size / 2 for n in (column, row))
        drawn.append(_figure(kit, x, y, size / 2))
    return tag("svg", *drawn, width=f"{width:g}", height=f"{height:g}", viewBox=f"0 0 {width:g} {height:g}")


def _figure(kit: Kit, x: float, y: float, r: float) -> str:
    fill = kit.rng.choice(_PLAIN)
    name = kit.rng.choice(("circle", "square", "rectangle", "triangle", "sign", "sign", "star", "pentagon"))
    marks = {"role": "shape", "named": name, "fill": fill, "colour": f"rgb{from_hex(fill)}"}
    match name:
        case "circle":
            return tag("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=f"{r:.1f}", **marks)
        case "square" | "rectangle":
            h = r if name == "square" else r * 0.6
            return tag("rect", x=f"{x - r:.1f}", y=f"{y - h:.1f}", width=f"{2 * r:.1f}", height=f"{2 * h:.1f}", **marks)
        case "sign":
            sign = kit.rng.choice(_SIGNS)
            place = {"x": f"{x:.1f}", "y": f"{y + 0.7 * r:.1f}", "font-size": f"{2 * r:.1f}", "text-anchor": "middle"}
            return tag("text", sign, **{**marks, "named": sign}, **place)
        case _:
            return tag("polygon", points=_corners(name, x, y, r), **marks)


def _corners(name: str, x: float, y: float, r: float) -> str:
    corners = {"triangle": 3, "pentagon": 5, "star": 10}[name]
    points = []
    for i in range(corners):
        length = r * 0.45 if name == "star" and i % 2 else r
        angle = 2 * math.pi * i / corners - math.pi / 2
        points.append(f"{x + length * math.cos(angle):.1f},{y + length * math.sin(angle):.1f}")
    return " ".join(points)


@block(7, 8, weight=0.8)
def keypad(kit: Kit) -> str:
    across = kit.rng.randint(3, 4)
    signs = [kit.words.string(kit.rng.randint(1, 2)) for _ in range(across * kit.rng.randint(2, 4))]
    if kit.chance(0.4):
        signs = list("123456789*0#")
    keys = [tag("button", escape(sign), css="btn", style="justify-content:center") for sign in signs]
    grid = f"display:grid;gap:{kit.style.gap / 3:.1f}px;width:fit-content;grid-template-columns:repeat({across},auto)"
    return div("", *keys, style=grid)


@block(7, 4, weight=0.7)
def swatches(kit: Kit) -> str:
    size = kit.rng.uniform(1.2, 2.2)
    return div("row wrap", *(kit.swatch(size) for _ in range(kit.rng.randint(3, 9))))


@block(8, 6, weight=0.8)
def icon_grid(kit: Kit) -> str:
    """Icons with captions, as on a start screen."""
    names = kit.rng.sample(icons.NAMES, kit.rng.randint(3, 9))
    made = [div("caption", kit.icon(name, 2), div("s", escape(kit.words.label(1))), role="button") for name in names]
    return div("row wrap", *made, style=f"gap:{kit.style.gap:g}px")


@block(20, 9)
def files(kit: Kit) -> str:
    rows = []
    for _ in range(kit.count(3, 10, 2)):
        name = f"{kit.words.word()}.{kit.rng.choice(('pdf', 'txt', 'png', 'csv', 'doc', 'zip'))}"
        size = span(f"{kit.rng.randint(1, 999)} {kit.rng.choice(('KB', 'MB'))}", "m")
        cells = (
            kit.icon("file", 1.2),
            span(name, "grow cut"),
            size,
            span(kit.words.date(), "m"),
            kit.icon_button("more"),
        )
        rows.append(div("row line hand", *cells, role="row", named=name, item=name))
    return div("", *rows)


# ----------------------------------------------------------------------------------------------- held-out arrangements


@block(10, 10, held_out=True)
def kanban(kit: Kit) -> str:
    columns = []
    for _ in range(max(2, min(4, int(kit.width / (kit.style.size * 9))))):
        name, notes = kit.words.label(1), []
        for _ in range(kit.count(1, 4, 3)):
            notes.append(
                div("card row", kit.link(kit.words.label(2)), kit.icon_button("more", "end"), style="padding:2px 4px")
            )
        columns.append(div("col grow", tag("h3", escape(name)), *notes, kit.button(), item=name))
    return div("row top", *columns)


@block(10, 10, held_out=True)
def pricing(kit: Kit) -> str:
    plans = []
    for _ in range(max(2, min(4, int(kit.width / (kit.style.size * 9))))):
        name = kit.words.label(1)
        perks = [tag("li", "✓ ", kit.link(kit.words.label(2))) for _ in range(kit.rng.randint(2, 4))]
        price = div("large", escape(kit.words.price()), role="value", named=name)
        buy = kit.button(main=kit.chance(0.4))
        plans.append(div("card col middle grow", tag("h3", escape(name)), price, tag("ul", *perks), buy, item=name))
    return div("row full", *plans)


@block(10, 10, held_out=True)
def chat(kit: Kit) -> str:
    rows = []
    for _ in range(kit.count(2, 6, 3)):
        person, mine = kit.words.person(), kit.chance(0.5)
        words = escape(kit.words.sentence(kit.rng.randint(2, 6))) + " "
        quote = kit.link(kit.words.word()) if kit.chance(0.4) and not mine else ""
        shape = "border-radius:10px;padding:3px 7px;max-width:75%"
        bubble = div("card on" if mine else "card", words, quote, style=shape, role="paragraph")
        tool = kit.icon_button(kit.rng.choice(("reply", "heart", "more")))
        side = "justify-content:flex-end" if mine else ""
        rows.append(div("row", *((tool, bubble) if mine else (bubble, tool)), item=person, style=side))
    hint = kit.words.label(2)
    entry = kit.input(placeholder=hint, named=hint, style="flex:1;min-width:0")
    return div("col", *rows, div("row", kit.icon_button("paperclip"), entry, kit.button()))


@block(12, 8, held_out=True)
def player(kit: Kit) -> str:
    tracks = []
    for nth in range(1, kit.count(3, 7, 2) + 1):
        name, length = kit.words.label(3), f"{kit.rng.randint(1, 9)}:{kit.rng.randint(10, 59)}"
        parts = (span(f"{nth}.", "m"), kit.link(name), span(length, "m end"), kit.icon_button("heart"))
        tracks.append(div("row line", *parts, item=name))
    controls = [kit.icon_button(name) for name in ("undo", "left", "play", "right", "volume")]
    return div("card", div("row", *controls), *tracks)


@block(11, 8, held_out=True)
def agenda(kit: Kit) -> str:
    rows = []
    for _ in range(kit.count(3, 8, 2.4)):
        name = kit.words.label(3)
        stripe = span("", style=f"width:4px;align-self:stretch;background:{kit.rng.choice(_PLAIN)}")
        tool = kit.icon_button(kit.rng.choice(("pencil", "close", "bell")), "end")
        when = span(kit.words.time(), "m s", style="width:5em")
        rows.append(div("row", when, stripe, kit.link(name), tool, item=name))
    return div("col", *rows)
