"""The widgets of a painted page, and the colours they are painted in. `drawn` decides which page gets which."""

from __future__ import annotations

import random
from collections.abc import Callable

from holotron.data.canvas import Canvas
from holotron.data.colours import RGB, colour_name, hsl, legible, mix, readable_on
from holotron.data.glyphs import Typeface
from holotron.data.labels import Box, Element
from holotron.data.pages.kit import HUES
from holotron.data.pages.make import Size
from holotron.data.pages.words import Words

LINK = (0, 0, 238)
_SHAPES = {
    "triangle": ((0.5, 0.0), (1.0, 1.0), (0.0, 1.0)),
    "diamond": ((0.5, 0.0), (1.0, 0.5), (0.5, 1.0), (0.0, 0.5)),
    "arrow": ((0.0, 0.0), (1.0, 0.5), (0.0, 1.0)),
}


class Brush:
    """Paints the widgets of one page. A widget takes a place and a width and gives the height it used."""

    def __init__(
        self,
        rng: random.Random,
        words: Words,
        face: Typeface,
        type_size: float,
        second: tuple[Typeface, float],  # for what stands out
        size: Size,
    ) -> None:
        self.rng, self.words, self._face, self.size = rng, words, face, type_size
        self._second = second if words.language in second[0].languages else (face, type_size)
        ground = rng.random()
        hue = rng.uniform(0, 360)
        if ground < 0.45:
            background: RGB = (255, 255, 255)
        elif ground < 0.8:
            background = hsl(hue, rng.uniform(0, 0.5), rng.uniform(0.86, 0.99))
        else:
            background = hsl(hue, rng.uniform(0, 0.4), rng.uniform(0.03, 0.25))
        self.background = background
        self.ink = legible(mix(readable_on(background), hsl(hue, 0.6, 0.4), rng.choice((0.0, 0.0, 0.2))), background, 5)
        self.line = mix(background, self.ink, rng.uniform(0.15, 0.5))
        self.link = legible(LINK if rng.random() < 0.5 else hsl(rng.uniform(0, 360), 0.8, 0.45), background, 3.5)
        self.accent = hsl(rng.uniform(0, 360), rng.uniform(0.5, 0.9), rng.uniform(0.35, 0.55))
        self.radius = rng.choice((0.0, 0.0, 2.0, 3.0, 5.0, 9.0))
        self.canvas = Canvas(size.width, size.height, size.scale, background)
        self._widgets: tuple[Callable[[float, float, float], float], ...] = (
            self.prose, self.prose, self.plain_line, self.plain_line, self.plain_line, self.links, self.buttons,
            self.field, self.choices, self.tabs, self.table, self.shapes, self.card, self.rule,
        )  # fmt: skip

    def fill(self, x: float, y: float, width: float) -> None:
        while y < self.canvas.height - self.size:
            y += self.rng.choice(self._widgets)(x, y, width) + self.rng.uniform(1, 7)

    def scatter(self) -> None:
        """Small things at odd places."""
        rng, height = self.rng, self.size * 2.6
        columns = max(1, int(self.canvas.width / (self.size * 8)))
        cells = [(c, r) for c in range(columns) for r in range(int(self.canvas.height / height))]
        width = self.canvas.width / columns
        for column, row in rng.sample(cells, min(len(cells), rng.randint(3, 16))):
            x, y = column * width + rng.uniform(0, 12), row * height + rng.uniform(0, self.size * 0.8)
            rng.choice((self._button, self._link, self._word, self._word, self._swatch))(x, y, width - 14)

    # ------------------------------------------------------------------------------------------------------ small parts

    def _put(self, text: str, x: float, y: float, colour: RGB, clip: float, element: int = -1) -> Box:
        return self.canvas.write(text, x, y, self._face.path, self.size, colour, element=element, clip=clip)

    def _stand_out(self, text: str, x: float, y: float, colour: RGB, clip: float) -> float:
        """Write in the page's other typeface; the height it took."""
        face, size = self._second
        self.canvas.write(text, x, y, face.path, size, colour, clip=clip)
        return size * 1.25

    def _measure(self, text: str) -> float:
        return sum(map(self._face.advance, text)) * self.size

    @property
    def _height(self) -> float:
        above, below = self._face.box_heights(self.size)
        return above + below

    def _element(self, role: str, box: Box, name: str = "", **more: object) -> int:
        return self.canvas.add(Element(role=role, box=box, name=name, text=name, **more))  # type: ignore[arg-type]

    def _word(self, x: float, y: float, width: float) -> float:
        text = self.words.code() if self.rng.random() < 0.4 else self.words.label(2)
        if self.rng.random() < 0.3:
            return self._stand_out(text, x, y, self.ink, x + width)
        self._put(text, x, y, self.ink, x + width)
        return self._height

    def _link(self, x: float, y: float, width: float) -> float:
        text = self._fitting(self.words.label(2), width)
        if not text:
            return 0.0
        box = (x, y, x + self._measure(text), y + self._height)
        number = self._element("link", box, text)
        self._put(text, x, y, self.link, x + width, number)
        if self.rng.random() < 0.7:
            under = y + self._face.box_heights(self.size)[0] + 1
            self.canvas.rectangle((x, under, box[2], under + 1), self.link)
        return self._height

    def _button(self, x: float, y: float, width: float) -> float:
        pad = self.rng.uniform(2, 8)
        text = self._fitting(self.words.label(2), width - 2 * pad)
        if not text:
            return 0.0
        tall = self.rng.uniform(1, 4)
        box = (x, y, x + self._measure(text) + 2 * pad, y + self._height + 2 * tall)
        kind = self.rng.random()
        face: RGB = (239, 239, 239) if kind < 0.5 else self.background if kind < 0.65 else self.accent
        if kind > 0.85:
            face = hsl(self.rng.choice(HUES), 0.85, 0.5)
        self.canvas.outlined(box, face, mix(face, (0, 0, 0), 0.4), radius=self.radius)
        name = colour_name(face) if kind > 0.65 else ""
        number = self._element("button", box, text, colour=name)
        self._put(text, x + pad, y + tall, legible(readable_on(face), face), box[2], number)
        return box[3] - box[1]

    def _swatch(self, x: float, y: float, width: float) -> float:
        colour = hsl(self.rng.choice(HUES), 0.85, 0.5)
        side = min(self.rng.uniform(6, 20), max(4.0, width))
        box = (x, y, x + side, y + side)
        kind = self.rng.choice(("circle", "square", *_SHAPES))
        if kind == "circle":
            self.canvas.disc(box, colour)
        elif kind == "square":
            self.canvas.rectangle(box, colour)
        else:
            self.canvas.polygon(box, _SHAPES[kind], colour)
        self.canvas.add(Element("shape", box, name=kind, colour=colour_name(colour)))
        return side

    def _fitting(self, text: str, width: float) -> str:
        """As many of its words as fit; something short if none does."""
        words = text.split(" ")
        while words and self._measure(" ".join(words)) > width:
            words.pop()
        short = " ".join(words) or text[:3]
        return short if self._measure(short) <= width else ""

    # ---------------------------------------------------------------------------------------------------------- widgets

    def prose(self, x: float, y: float, width: float) -> float:
        """A few lines of running text, some words of it links."""
        top, step, space = y, round(self._height * self.rng.uniform(1.0, 1.3)), self._measure(" ")
        for _ in range(self.rng.randint(1, 4)):
            at, line = x, ""
            while True:
                word = self.words.word()
                if at + self._measure(line + word) > x + width:
                    break
                if self.rng.random() < 0.08:
                    self._put(line, at, y, self.ink, x + width)
                    at += self._measure(line)
                    number = self._element("link", (at, y, at + self._measure(word), y + self._height), word)
                    self._put(word, at, y, self.link, x + width, number)
                    at, line = at + self._measure(word) + space, ""
                else:
                    line += word + " "
            self._put(line.rstrip(), at, y, self.ink, x + width)
            y += step
        return y - top

    def plain_line(self, x: float, y: float, width: float) -> float:
        faint = legible(mix(self.ink, self.background, 0.4), self.background, 3)
        colour = self.ink if self.rng.random() < 0.7 else faint
        text = " ".join(self.words.datum() if self.rng.random() < 0.5 else self.words.word() for _ in range(4))
        if self.rng.random() < 0.3:
            return self._stand_out(text, x, y, colour, x + width)
        self._put(text, x, y, colour, x + width)
        return self._height * 1.1

    def links(self, x: float, y: float, width: float) -> float:
        top = y
        for _ in range(self.rng.randint(1, 4)):
            y += self._link(x, y, width) + self.rng.uniform(0, 4)
        return y - top

    def buttons(self, x: float, y: float, width: float) -> float:
        at, tallest = x, 0.0
        for _ in range(self.rng.randint(1, 3)):
            tallest = max(tallest, self._button(at, y, x + width - at))
            at = max((e.box[2] for e in self.canvas.elements[-1:]), default=at) + self.rng.uniform(3, 9)
        return tallest

    def field(self, x: float, y: float, width: float) -> float:
        """A label and a box to type in, or to choose from."""
        label = self._fitting(self.words.label(2), width * 0.5)
        beside = self.rng.random() < 0.4
        shown = self._put(label, x, y + 3 if beside else y, self.ink, x + width)
        left, top = (shown[2] + 4, y) if beside else (x, y + self._height + 1)
        right = min(x + width, left + self.rng.uniform(50, 140))
        box = (left, top, right, top + self._height + 4)
        self.canvas.outlined(box, mix(self.background, (255, 255, 255), 0.6), self.line, radius=min(self.radius, 3))
        value = self._fitting(self.words.entry(), right - left - 14) if self.rng.random() < 0.7 else ""
        role = self.rng.choice(("textbox", "textbox", "combobox"))
        number = self.canvas.add(Element(role, box, name=label, text=value, value=value))
        ink = readable_on(mix(self.background, (255, 255, 255), 0.6))
        self._put(value, left + 3, top + 2, ink, right - 3, number)
        if role == "combobox":
            middle = (box[1] + box[3]) / 2
            self.canvas.polygon((right - 9, middle - 2, right - 3, middle + 2), ((0, 0), (1, 0), (0.5, 1)), ink)
        return box[3] - y

    def choices(self, x: float, y: float, width: float) -> float:
        top, role, side = y, self.rng.choice(("checkbox", "radio")), max(9.0, self.size)
        for _ in range(self.rng.randint(1, 5)):
            name, ticked = self._fitting(self.words.label(2), width - side - 5), self.rng.random() < 0.3
            box = (x, y, x + side, y + side)
            round_ = side if role == "radio" else 1.5
            face = self.accent if ticked and role == "checkbox" else (255, 255, 255)
            self.canvas.outlined(box, face, (110, 110, 110), radius=round_)
            if ticked:
                inset = side * 0.28
                mark = (255, 255, 255) if role == "checkbox" else self.accent
                self.canvas.rectangle((x + inset, y + inset, x + side - inset, y + side - inset), mark, radius=round_)
            self.canvas.add(Element(role, box, name=name, states=("checked",) if ticked else ()))
            self._put(name, x + side + 4, y + (side - self._height) / 2, self.ink, x + width)
            y += side + self.rng.uniform(2, 5)
        return y - top

    def tabs(self, x: float, y: float, width: float) -> float:
        at, height = x, self._height + 6
        chosen = self.rng.randrange(3)
        for nth in range(3):
            name = self._fitting(self.words.label(1), x + width - at - 10)
            if not name:
                break
            box = (at, y, at + self._measure(name) + 10, y + height)
            face = self.accent if nth == chosen else mix(self.background, self.ink, 0.1)
            self.canvas.rectangle(box, face, radius=min(self.radius, 4))
            number = self._element("tab", box, name, states=("selected",) if nth == chosen else ())
            self._put(name, at + 5, y + 3, legible(readable_on(face), face), box[2], number)
            at = box[2] + 2
        self.canvas.rectangle((x, y + height, x + width, y + height + 1), self.line)
        return height + 2

    def table(self, x: float, y: float, width: float) -> float:
        columns, rows = self.rng.randint(2, 3 if width < 240 else 5), self.rng.randint(2, 5)
        step, across, top = self._height + self.rng.uniform(2, 6), width / columns, y
        heads = [self._fitting(self.words.label(1), across - 4) for _ in range(columns)]
        for row in range(rows):
            first = ""
            for column in range(columns):
                left = x + column * across
                text = heads[column] if row == 0 else self._fitting(self.words.datum(), across - 4)
                first = first or text
                role = "columnheader" if row == 0 else "cell"
                box = (left, y, left + across, y + step)
                number = self.canvas.add(Element(role, box, name=heads[column], text=text, within=first if row else ""))
                self._put(text, left + 2, y + 1, self.ink, left + across, number)
            self.canvas.rectangle((x, y + step - 1, x + width, y + step), self.line)
            y += step
        return y - top

    def shapes(self, x: float, y: float, width: float) -> float:
        at, tallest = x, 0.0
        for _ in range(self.rng.randint(1, 5)):
            if at + 22 < x + width:
                tallest = max(tallest, self._swatch(at, y, 20))
                at += self.rng.uniform(22, 30)
        return tallest

    def card(self, x: float, y: float, width: float) -> float:
        """A panel with a line or two on it."""
        inside = mix(self.background, self.ink, self.rng.uniform(0.04, 0.12))
        height = self._height * 2 + 10
        self.canvas.outlined((x, y, x + width, y + height), inside, self.line, radius=self.radius)
        ink = legible(self.ink, inside, 4.5)
        self._put(self._fitting(self.words.label(3), width - 8), x + 4, y + 3, ink, x + width - 4)
        self._put(self._fitting(self.words.sentence(5), width - 8), x + 4, y + 5 + self._height, ink, x + width - 4)
        return height

    def rule(self, x: float, y: float, width: float) -> float:
        self.canvas.rectangle((x, y, x + width, y + self.rng.choice((1, 1, 2))), self.line)
        return 3.0
