"""Frames: how blocks are arranged into a page, and what may lie on top of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from html import escape

from holotron.data.pages import composed, figures, icons, tooled  # noqa: F401  (they register their blocks)
from holotron.data.pages.blocks import BLOCKS, Block
from holotron.data.pages.kit import Kit, div, span, tag

Maker = Callable[[Kit, bool], str]


@dataclass(frozen=True, slots=True)
class Frame:
    name: str
    make: Maker  # of a kit, and whether held-out blocks are used
    width: float  # least, CSS pixels
    weight: float
    held_out: bool


FRAMES: dict[str, Frame] = {}


def frame(width: float = 0, *, weight: float = 1.0, held_out: bool = False) -> Callable[[Maker], Maker]:
    def register(make: Maker) -> Maker:
        FRAMES[make.__name__] = Frame(make.__name__, make, width, weight, held_out)
        return make

    return register


def stack(kit: Kit, held_out: bool, *, width: float, height: float, css: str = "inset") -> str:
    """A column of blocks, as many as fill the room."""
    inner = replace(kit, width=width - 2 * kit.style.gap, height=height)
    pieces = []
    for chosen in _pick_blocks(inner, held_out, height):
        kit.used.append(chosen.name)
        piece = chosen.make(inner)
        if chosen.name not in ("cards", "calendar", "player", "accordion") and kit.chance(0.2):
            piece = div("card", piece)
        pieces.append(piece)
    return div(f"col apart {css}".strip(), *pieces)


def _pick_blocks(kit: Kit, held_out: bool, room: float) -> list[Block]:
    allowed = [b for b in BLOCKS.values() if b.held_out == held_out]
    fitting = [b for b in allowed if kit.fits(b.width)] or [min(allowed, key=lambda b: b.width)]
    picked: list[Block] = []
    while room > 0 and len(picked) < 6:
        picked += kit.rng.choices(fitting, [b.weight for b in fitting])
        room -= picked[-1].height * kit.style.size + kit.style.gap
    return picked


def top_bar(kit: Kit) -> str:
    room = int((kit.width - 14 * kit.style.size) / (6.5 * kit.style.size))
    items = [kit.link(kit.words.label(1)) for _ in range(max(0, min(kit.rng.randint(1, 5), room)))]
    names = kit.rng.sample(icons.NAMES, kit.rng.randint(0, 3) if kit.fits(16) else 1)
    hint = kit.words.label(1)
    look = kit.input(placeholder=hint, named=hint, style="width:11em") if kit.fits(45) and kit.chance(0.5) else ""
    tools = div("row end", look, *(kit.icon_button(name) for name in names))
    title = span(kit.words.label(2), "b", style="font-size:1.15em;white-space:nowrap")
    return div("bar row", kit.icon_button("menu") if kit.chance(0.4) else "", title, *items, tools)


def side_bar(kit: Kit, width: float) -> str:
    now, pictures = kit.rng.randrange(6), kit.chance(0.5)
    rows = []
    for i in range(kit.count(4, 12, 2.2)):
        name = span(kit.words.label(2), "cut")
        rows.append(div("it sel" if i == now else "it", kit.icon(ems=1.1) if pictures else "", name, role="link",
                        aria_current="page" if i == now else None))  # fmt: skip
    return div("card square fixed", *rows, style=f"width:{width:g}px;padding:{kit.style.gap / 2:g}px 0")


# ------------------------------------------------------------------------------------------------------------- frames


@frame(weight=3)
def plain(kit: Kit, held_out: bool) -> str:
    return stack(kit, held_out, width=kit.width, height=kit.height)


@frame(weight=1.2)
def scattered(kit: Kit, held_out: bool) -> str:
    """Small things at odd places, none over another: the page of the smallest tasks."""
    em = kit.style.size
    columns = max(1, int(kit.width / (em * 9)))
    cell = kit.width / columns, em * 3
    cells = [(column, row) for column in range(columns) for row in range(int(kit.height / cell[1]))]
    makers: tuple[Callable[[], str], ...] = (
        kit.button,
        kit.button,
        kit.link,
        kit.coloured_button,
        kit.icon_button,
        lambda: kit.button(disabled=kit.chance(0.3)),
        lambda: span(kit.words.label(2), role="paragraph"),
        lambda: kit.choice("checkbox", kit.words.label(1)),
        lambda: kit.input(named=kit.words.label(1), style="width:6em"),
        lambda: kit.swatch(kit.rng.uniform(1, 2)),
    )
    pieces = []
    for column, row in kit.rng.sample(cells, min(len(cells), kit.rng.randint(3, 14))):
        x, y = column * cell[0] + kit.rng.uniform(1, em * 1.5), row * cell[1] + kit.rng.uniform(1, em)
        place = f"position:absolute;left:{x:.1f}px;top:{y:.1f}px;max-width:{kit.width - x:.1f}px"
        pieces.append(div("", kit.rng.choice(makers)(), style=place))
    return "".join(pieces)


@frame(weight=1.5)
def barred(kit: Kit, held_out: bool) -> str:
    return top_bar(kit) + stack(kit, held_out, width=kit.width, height=kit.height - 3 * kit.style.size)


@frame(380, weight=1.5)
def columns(kit: Kit, held_out: bool) -> str:
    across = 3 if kit.width > 800 and kit.chance(0.4) else 2
    head = top_bar(kit) if kit.chance(0.6) else ""
    parts = [div("grow", stack(kit, held_out, width=kit.width / across, height=kit.height)) for _ in range(across)]
    return head + div("row top tight", *parts)


@frame(420, weight=2)
def application(kit: Kit, held_out: bool) -> str:
    """Header, navigation at the side, content."""
    side = min(240.0, max(110.0, kit.width * kit.rng.uniform(0.16, 0.26)))
    middle = div("grow", stack(kit, held_out, width=kit.width - side, height=kit.height))
    return top_bar(kit) + div("row full tight", side_bar(kit, side), middle)


@frame(640)
def three_panes(kit: Kit, held_out: bool) -> str:
    """Navigation, a list, a detail: mail programs, file managers."""
    side, middle = kit.width * 0.18, kit.width * 0.34
    listing = BLOCKS[kit.rng.choice(("mails", "files", "results"))].make(replace(kit, width=middle))
    detail = stack(kit, held_out, width=kit.width - side - middle, height=kit.height)
    panes = (side_bar(kit, side), div("fixed", listing, style=f"width:{middle:g}px"), div("grow", detail))
    return top_bar(kit) + div("row full tight", *panes)


@frame()
def card_in_middle(kit: Kit, held_out: bool) -> str:
    """A single card: signing in, one question, one decision."""
    width = min(kit.width - 8, kit.style.size * kit.rng.uniform(18, 30))
    content = stack(kit, held_out, width=width, height=kit.height * 0.55, css="")
    return div("centre", div("card", tag("h2", escape(kit.words.label(4))), content, style=f"width:{width:g}px"))


@frame(held_out=True)
def bottom_bar(kit: Kit, held_out: bool) -> str:
    """Like a phone: content, and navigation with icons at the foot."""
    foot = [div("caption", kit.icon(), span(kit.words.label(1), "s"), role="tab") for _ in range(kit.rng.randint(3, 5))]
    bar = div("card row square foot flush", *foot, style="justify-content:space-around")
    return stack(kit, held_out, width=kit.width, height=kit.height - 5 * kit.style.size) + bar


@frame(held_out=True)
def right_rail(kit: Kit, held_out: bool) -> str:
    """Content, and a narrow column of links at the right."""
    width = max(70.0, kit.width * 0.27)
    middle = div("grow", stack(kit, held_out, width=kit.width - width, height=kit.height))
    rail = [div("", kit.link(kit.words.label(2))) for _ in range(kit.count(4, 14, 1.7))]
    return div("row top tight", middle, div("col s fixed inset", *rail, style=f"width:{width:g}px;overflow:hidden"))


@frame(held_out=True)
def footed(kit: Kit, held_out: bool) -> str:
    """A banner, content, and a footer full of small links."""
    banner = div("on inset", tag("h1", escape(kit.words.label(4))), span(kit.words.sentence(5)))
    content = stack(kit, held_out, width=kit.width, height=kit.height - 9 * kit.style.size)
    small = [kit.link(kit.words.label(1)) for _ in range(max(3, int(kit.width / (7 * kit.style.size))))]
    return banner + content + div("bar row wrap s foot", *small)


# ------------------------------------------------------------------------------------------------- on top of the page


def dialog(kit: Kit) -> str:
    """A question over the page, which shows dimly behind it."""
    title = kit.words.label(3)
    close = kit.icon_button("close", "end") if kit.chance(0.7) else ""
    head = div("row", tag("h3", escape(title), style="margin:0"), close)
    body = tag("p", escape(kit.words.sentence(kit.rng.randint(3, 9))))
    field = kit.text_field(above=True) if kit.chance(0.3) else ""
    answers = div("row wrap", *(kit.button(main=i == 0) for i in range(kit.rng.randint(1, 3))))
    width = min(kit.width * 0.9, kit.style.size * kit.rng.uniform(14, 28))
    box = div(
        "card col", head, body, field, answers, role="dialog", named=title, item=title, style=f"width:{width:g}px"
    )
    return div("veil", box)


def popup_menu(kit: Kit) -> str:
    rows = [div("it", span(kit.words.label(2)), role="menuitem") for _ in range(kit.count(2, 6, 3))]
    x, y = kit.rng.uniform(0, kit.width * 0.5), kit.rng.uniform(0, kit.height * 0.5)
    return div("pop", *rows, role="menu", style=f"left:{x:.0f}px;top:{y:.0f}px")


def consent(kit: Kit) -> str:
    text = span(kit.words.sentence(6), "grow")
    return div("card row wrap foot", text, kit.button(main=True), kit.button())


OVERLAYS = (dialog, popup_menu, consent)
