"""Blocks that nobody designed: a few parts drawn at random, arranged at random, repeated as lists repeat themselves.

Designed blocks can be learnt by heart: in a list of people the tools are on the right. Here what stands where says
nothing about what it is, so that a policy has to look: which of these is the link, and is it really the one below?
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape

from holotron.data.pages import icons
from holotron.data.pages.blocks import block
from holotron.data.pages.kit import Kit, div, span, tag

Part = Callable[[str], str]  # of a row's name

_BULLETS = ("✓", "•", "→", "–", "+", "#", "*")


def _draw_part(kit: Kit) -> Part:
    """One part of a template. Choices made here are the same in all rows, those made inside differ from row to row."""
    rng, words = kit.rng, kit.words
    tool, mixed, said = rng.choice(icons.NAMES), kit.chance(0.3), words.label(1)
    css = rng.choice(("", "m", "m s", "b", "s"))
    bullet, framed, long = rng.choice(_BULLETS), rng.choice(("", "", "framed")), rng.randint(1, 3)
    makers: tuple[tuple[float, Part], ...] = (
        (3, lambda name: span(name, css)),
        (2, lambda name: kit.link(name)),
        (3, lambda name: kit.link(words.label(long))),
        (1, lambda name: kit.link(said)),
        (2, lambda name: span(f"{bullet} ") + kit.link(words.label(long))),
        (4, lambda name: kit.icon_button("" if mixed else tool, framed)),
        (1, lambda name: kit.icon_button(tool) + span(str(rng.randint(0, 99)), "m s")),
        (1, lambda name: kit.icon(tool, 1)),
        (2, lambda name: kit.button(said if mixed else words.label(1))),
        (2, lambda name: span(words.label(long), css)),
        (1, lambda name: span(words.sentence(rng.randint(2, 7)), css, role="paragraph")),
        (1.5, lambda name: span(words.datum(), css)),
        (0.7, lambda name: tag("input", type="checkbox", named=name, checked=kit.chance(0.3))),
        (0.5, lambda name: kit.switch(name, kit.chance(0.5))),
        (0.5, lambda name: kit.input(named=name, style=f"width:{2 + 2 * long}em")),
        (0.5, lambda name: kit.avatar(name)),
    )
    return rng.choices([part for _, part in makers], [weight for weight, _ in makers])[0]


def _draw_row(kit: Kit, most: int, *, beside: bool) -> Callable[[], str]:
    """How all rows of a list are built: their parts, beside or below each other, and their frame."""
    rng = kit.rng
    parts = [_draw_part(kit) for _ in range(rng.randint(2, most))]
    fold = rng.randint(1, len(parts) - 1) if kit.chance(0.4) else 0  # those before it stand in a column of their own
    wide, side = rng.randrange(len(parts)), rng.choice(("", "", "end", "center"))
    frame = rng.choice(("", "", "line", "card", "halfset"))
    shape = f"border-radius:{rng.choice((0, 4, 10))}px;padding:{rng.uniform(1, 8):.0f}px;gap:{rng.uniform(2, 14):.0f}px"
    across = "row" if kit.fits(4 * len(parts)) else "row wrap"
    turning = kit.chance(0.2)  # some rows start from the other side

    def make() -> str:
        name = kit.words.label(2) if kit.chance(0.7) else kit.words.person()
        made = [div("grow" if beside and nth == wide else "", part(name)) for nth, part in enumerate(parts)]
        if turning and kit.chance(0.5):
            made.reverse()
        if fold:
            made = [div("" if beside else "row", *made[:fold]), *made[fold:]]
        css = across if beside else "col"
        style = shape + (f";justify-content:{side};align-items:{side}" if side and not beside else "")
        return div(f"{css} {frame}".strip(), *made, item=name, style=style)

    return make


@block(10, 8, weight=4)
def composed_list(kit: Kit) -> str:
    make = _draw_row(kit, 5 if kit.fits(20) else 4, beside=True)
    heading = tag("h3", escape(kit.words.label(2))) if kit.chance(0.3) else ""
    rows = [make() for _ in range(kit.count(2, 7, 2.4))]
    return div("col", heading, *rows, style=f"gap:{kit.rng.uniform(0, 8):.0f}px")


@block(10, 9, weight=4)
def composed_grid(kit: Kit) -> str:
    """Such things side by side, each with its parts below each other."""
    across = max(1, min(kit.rng.randint(2, 4), int(kit.width / (kit.style.size * 7))))
    make = _draw_row(kit, 5, beside=False)
    lines = [div("row top", *(div("grow", make()) for _ in range(across))) for _ in range(kit.count(1, 3, 6))]
    return div("col", *lines)
