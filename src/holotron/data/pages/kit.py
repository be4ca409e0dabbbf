"""The kit a page is built with: its random stream, its words, its style, and the small widgets everything is made of.

Widgets are HTML strings. Roles and names that the browser cannot know are written into `data-` attributes, which
`labels.js` reads: `data-role`, `data-name`, `data-item` (the row, card or section that things belong to), `data-icon`,
`data-colour`, and `data-key` (how a scripted episode finds its way).
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape

from holotron.data.colours import hsl, readable_on, to_hex
from holotron.data.pages import icons
from holotron.data.pages.style import Style
from holotron.data.pages.words import Words

HUES = (2, 32, 55, 120, 185, 225, 275, 325)  # that everyone calls by the same name
_VOID = frozenset({"input", "img", "br", "hr"})
_DATA = {"role": "data-role", "named": "data-name", "item": "data-item", "key": "data-key", "colour": "data-colour"}


def tag(name: str, /, *content: str, **attributes: object) -> str:
    """An element. `css` is its class; underscores become hyphens; what is None, False or "" is left out."""
    written = []
    for key, value in attributes.items():
        if value is None or value is False or value == "":
            continue
        key = "class" if key == "css" else _DATA.get(key) or key.rstrip("_").replace("_", "-")
        written.append(f" {key}" if value is True else f' {key}="{escape(str(value), quote=True)}"')
    head = f"<{name}{''.join(written)}>"
    return head if name in _VOID else f"{head}{''.join(content)}</{name}>"


def div(css: str, *content: str, **attributes: object) -> str:
    return tag("div", *content, css=css, **attributes)


def span(text: str, css: str = "", **attributes: object) -> str:
    """A stretch of text; `text` is plain, not HTML."""
    return tag("span", escape(text), css=css, **attributes)


def flag(value: bool) -> str:
    """How ARIA writes truth."""
    return "true" if value else "false"


@dataclass
class Kit:
    rng: random.Random
    words: Words
    style: Style
    width: float  # of the room at hand, CSS pixels
    height: float
    ids: Iterator[int] = field(default_factory=itertools.count)  # shared by all kits of a page, like
    used: list[str] = field(default_factory=list)  # the names of its blocks

    def id(self) -> str:
        return f"e{next(self.ids)}"

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def fits(self, ems: float) -> bool:
        """Is there room for this many ems side by side?"""
        return self.width >= ems * self.style.size

    def count(self, low: int, high: int, ems: float) -> int:
        """How many things of that height to put here: as many as chance says, but not far beyond the room."""
        room = max(low, int(self.height / (ems * self.style.size)) + 1)
        return min(self.rng.randint(low, high), room)

    def mark(self, expanded: bool) -> str:
        """The small triangle beside things that fold."""
        size, turn = round(self.style.size * 0.7), 90 if expanded else 0
        path = f'<path d="M2 0l7 5-7 5z" fill="currentColor" transform="rotate({turn} 5 5)"/>'
        return f'<svg width="{size}" height="{size}" viewBox="0 0 10 10">{path}</svg>'

    # --------------------------------------------------------------------------------------------- buttons and links

    def icon(self, name: str | None = None, ems: float = 1.25) -> str:
        return icons.svg(name or self.rng.choice(icons.NAMES), round(self.style.size * ems), self.style.stroke)

    def button(self, text: str = "", *, icon: str = "", main: bool = False, **attributes: object) -> str:
        if not icon and self.style.buttons != "native" and self.chance(0.12):
            icon = self.rng.choice(icons.NAMES)
        drawing = self.icon(icon, 1.0) if icon else ""
        return tag(
            "button", drawing, escape(text or self.words.label()), css="btn main" if main else "btn", **attributes
        )

    def coloured_button(self, text: str = "") -> str:
        """A button with a background of its own, in a colour that mostly has a name."""
        hue = self.rng.choice(HUES) + self.rng.uniform(-4, 4)
        colour = hsl(hue, self.rng.uniform(0.65, 0.95), self.rng.uniform(0.45, 0.6))
        background, ink = to_hex(colour), to_hex(readable_on(colour))
        return self.button(text, style=f"background:{background};color:{ink};border-color:{background}")

    def icon_button(self, name: str = "", css: str = "", **attributes: object) -> str:
        return tag("button", self.icon(name or None), css=f"ic {css}".strip(), **attributes)

    def link(self, text: str = "", **attributes: object) -> str:
        return tag(
            "a", escape(text or self.words.label()), href="#", css=self.rng.choice(("", "", "quiet")), **attributes
        )

    # ---------------------------------------------------------------------------------------------------------- fields

    def input(self, *, style: str = "", type: str = "text", **attributes: object) -> str:
        """A text field. `named` says what it is called where no visible label does."""
        style = style or f"width:{self.rng.randint(7, 15)}em;max-width:100%"
        return tag("input", css="fld", type=type, style=style, **attributes)

    def labelled(self, label: str, control: str, id: str, *, above: bool) -> str:
        """A visible label with its field, above it or beside it."""
        text = tag("label", escape(label), for_=id)
        return div("", div("", text), control, item=label) if above else div("row wrap", text, control, item=label)

    def text_field(self, *, above: bool) -> str:
        """A field with its label, empty, with a hint, or filled in."""
        label, id = self.words.label(2), self.id()
        value = self.words.entry() if self.chance(0.35) else ""
        hint = self.words.label(2) if not value and self.chance(0.25) else ""
        kind = "password" if self.chance(0.06) else "text"
        control = self.input(value=value, placeholder=hint, type=kind, id=id)
        return self.labelled(label + self.rng.choice(("", "", ":")), control, id, above=above)

    def select(self, *, above: bool) -> str:
        label, id = self.words.label(2), self.id()
        options = [tag("option", escape(self.words.label(2))) for _ in range(self.rng.randint(2, 5))]
        return self.labelled(label, tag("select", *options, css="fld", id=id), id, above=above)

    def choice(self, kind: str, label: str, **attributes: object) -> str:
        """A checkbox or radio button with its label."""
        id = self.id()
        return div("row", tag("input", type=kind, id=id, **attributes), tag("label", escape(label), for_=id))

    def switch(self, label: str, on: bool, **attributes: object) -> str:
        return tag(
            "span", "<span></span>", css="switch", role="switch", named=label, aria_checked=flag(on), **attributes
        )

    def slider(self, label: str) -> str:
        value = self.rng.randint(0, 100)
        return tag("input", type="range", min="0", max="100", value=value, named=label, style="width:7em;max-width:50%")

    # -------------------------------------------------------------------------------------------------------- pictures

    def swatch(self, ems: float) -> str:
        """A plain square of colour."""
        colour = to_hex(hsl(self.rng.choice(HUES), 0.85, 0.5))
        if self.chance(0.15):
            colour = self.rng.choice(("#000000", "#ffffff", "#808080"))
        size = round(self.style.size * ems)
        style = f"width:{size}px;height:{size}px;background:{colour}"
        return tag("span", css="square-colour", role="swatch", style=style)

    def picture(self, width: float, height: float) -> str:
        """A made-up photograph: a gradient with a few figures."""
        rng, id = self.rng, self.id()
        hue = rng.uniform(0, 360)
        top, low = to_hex(hsl(hue, 0.5, 0.75)), to_hex(hsl(hue + 60, 0.5, 0.45))
        stops = tag("stop", stop_color=top) + tag("stop", offset="1", stop_color=low)
        figures = "".join(
            tag("circle", cx=rng.randint(0, 100), cy=rng.randint(20, 100), r=rng.randint(5, 30),
                fill=to_hex(hsl(hue + rng.uniform(60, 200), 0.5, rng.uniform(0.3, 0.8))))
            for _ in range(rng.randint(1, 4))
        )  # fmt: skip
        gradient = tag("linearGradient", stops, id=id, x2="0", y2="1")
        ground = tag("rect", width="100", height="100", fill=f"url(#{id})")
        return tag("svg", gradient, ground, figures, role="image", width=f"{width:g}", height=f"{height:g}",
                   viewBox="0 0 100 100", preserveAspectRatio="none")  # fmt: skip

    def avatar(self, name: str) -> str:
        return span(name[:1].upper(), "avatar", style=f"background:{to_hex(hsl(self.rng.uniform(0, 360), 0.45, 0.42))}")
