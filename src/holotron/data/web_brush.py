"""The parts that painted web apps share: text in several sizes, icons, buttons, fields; headers, side bars, titles."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

from holotron.data.brush import Brush
from holotron.data.colours import RGB, colour_name, legible, mix, readable_on
from holotron.data.glyphs import Typeface
from holotron.data.icon_ink import icon_mask
from holotron.data.labels import Box, Element
from holotron.data.pages.icons import NAMES, words_for
from holotron.data.pages.make import Size
from holotron.data.pages.words import Words

_HEADER = ("bell", "gear", "cart", "user", "help", "mail", "search", "globe", "moon", "plus", "grid")


class WebBrush(Brush):
    def __init__(
        self, rng: random.Random, words: Words, face: Typeface, bold: Typeface, type_size: float, size: Size
    ) -> None:
        super().__init__(rng, words, face, type_size, (bold, type_size), size)
        dark = readable_on(self.background) == (255, 255, 255)
        lift = (255, 255, 255) if not dark else self.ink
        self.surface = mix(self.background, lift, rng.choice((0.0, 0.06, 0.6)) if not dark else 0.06)
        self.muted = legible(mix(self.ink, self.background, rng.uniform(0.25, 0.45)), self.surface, 3.5)
        self.line = mix(self.surface, self.ink, rng.uniform(0.08, 0.25))
        self.stroke = rng.choice((1.5, 2.0, 2.0))
        self.row = rng.uniform(2.0, 3.2) * type_size  # height of a line in lists and tables
        self.pad = rng.uniform(8, 20)

    # ------------------------------------------------------------------------------------------------------ small parts

    @contextmanager
    def _styled(self, size: float | None, bold: bool) -> Iterator[None]:
        before = self._face, self.size
        self._face = self._second[0] if bold else self._face
        self.size = round(size) if size else self.size
        yield
        self._face, self.size = before

    def _say(
        self,
        text: str,
        x: float,
        y: float,
        width: float,
        *,
        colour: RGB | None = None,
        size: float | None = None,
        bold: bool = False,
        element: int = -1,
    ) -> float:
        """A line, as much of it as fits; the height it took."""
        with self._styled(size, bold):
            self._put(self._fitting(text, width), x, y, colour or self.ink, x + width + 1, element)
            return self._height

    def _icon(self, name: str, x: float, y: float, side: float, colour: RGB) -> None:
        scale = self.canvas.scale
        mask = icon_mask(name, max(6, round(side * scale)), self.stroke)
        self.canvas.blend(mask, round(x * scale), round(y * scale), colour)

    def _icon_button(
        self, name: str, x: float, y: float, side: float, within: str = "", ground: RGB | None = None
    ) -> None:
        around = self.rng.choice((2.0, 4.0, 6.0))
        box = (x - around, y - around, x + side + around, y + side + around)
        face = ground or self.surface
        self._icon(name, x, y, side, legible(mix(self.ink, face, 0.2), face, 3))
        self.canvas.add(Element("button", box, name=words_for(name)[0], icon=name, within=within))

    def _press(self, text: str, x: float, y: float, *, main: bool, within: str = "", high: float = 0.0) -> Box:
        """A button as large as its text."""
        pad, tall = self.rng.uniform(8, 16), high or self.size * self.rng.uniform(1.9, 2.5)
        box = (x, y, x + self._measure(text) + 2 * pad, y + tall)
        face = self.accent if main else self.surface
        self.canvas.outlined(box, face, face if main else mix(face, self.ink, 0.3), radius=self.radius)
        name = colour_name(face) if main else ""
        number = self.canvas.add(Element("button", box, name=text, text=text, within=within, colour=name))
        ink = legible(readable_on(face) if main else self.ink, face)
        self._put(text, x + pad, y + (tall - self._height) / 2, ink, box[2], number)
        return box

    def _tick(self, x: float, y: float, name: str = "", within: str = "") -> None:
        side, ticked = 14.0, self.rng.random() < 0.3
        box = (x, y, x + side, y + side)
        self.canvas.outlined(
            box, self.accent if ticked else (255, 255, 255), mix(self.accent, (110, 110, 110), 0.7), radius=2
        )
        if ticked:
            self._icon("check", x + 1, y + 1, side - 2, (255, 255, 255))
        self.canvas.add(Element("checkbox", box, name=name, within=within, states=("checked",) if ticked else ()))

    def _box_to_type(self, x: float, y: float, width: float, high: float, name: str, *, search: bool = False) -> None:
        """A field; for searching, with a magnifying glass and a word that says so."""
        rng, box = self.rng, (x, y, x + width, y + high)
        ground = mix(self.surface, (255, 255, 255), 0.5)
        self.canvas.outlined(box, ground, mix(ground, (90, 90, 90), 0.45), radius=min(self.radius, high / 2))
        ink, left, room = legible(readable_on(ground), ground), x + 10, width - 34
        if search:
            self._icon("search", x + 8, y + (high - 16) / 2, 16, mix(ink, ground, 0.4))
            left, room = left + 22, room - 22
        role = "textbox" if search or rng.random() < 0.7 else "combobox"
        filled = not search and rng.random() < 0.6
        value = self._fitting(self.words.entry(), room) if filled else ""
        hint = "" if filled or rng.random() < 0.3 else self._fitting(self.words.label(2), room)
        number = self.canvas.add(Element(role, box, name=name or hint, text=value or hint, value=value))
        colour = ink if filled else legible(mix(ink, ground, 0.45), ground, 2.5)
        self._put(value or hint, left, y + (high - self._height) / 2, colour, x + width - 4, number)
        if role == "combobox":
            centre = y + high / 2
            self.canvas.polygon(
                (x + width - 18, centre - 3, x + width - 8, centre + 3), ((0, 0), (1, 0), (0.5, 1)), ink
            )

    def _paragraph(self, x: float, y: float, width: float, lines: int) -> float:
        top, step = y, round(self._height * self.rng.uniform(1.05, 1.35))
        for _ in range(lines):
            line = self.words.word()
            while self._measure(line) < width:
                line += " " + self.words.word()
            self._put(line.rsplit(" ", 1)[0], x, y, self.ink, x + width)
            y += step
        return y - top

    # -------------------------------------------------------------------------------------------------- bars and titles

    def header(self, width: float) -> float:
        rng, height = self.rng, self.rng.uniform(44, 66)
        ground = rng.choice((self.surface, self.surface, self.accent, mix(self.ink, self.accent, 0.15)))
        ink = legible(readable_on(ground), ground)
        self.canvas.rectangle((0, 0, width, height), ground)
        self.canvas.rectangle((0, height - 1, width, height), mix(ground, ink, 0.15))
        middle = (height - self._height) / 2
        x, brand = self.pad, self.words.label(2)
        with self._styled(self.size + 3, True):
            x = self._put(brand, x, (height - self._height) / 2, ink, width / 4)[2] + 28
        right = width - self.pad
        for name in rng.sample(_HEADER, rng.randint(0, 4)):
            right -= 36
            self._icon_button(name, right, (height - 20) / 2, 20, ground=ground)
        if rng.random() < 0.5:
            wide = rng.uniform(160, 320)
            right -= wide + 16
            self._box_to_type(right, (height - 32) / 2, wide, 32, "", search=True)
        while x < right - 60 and rng.random() < 0.85:
            label = self._fitting(self.words.label(2), right - x - 12)
            box = (x, middle, x + self._measure(label), middle + self._height)
            self._put(label, x, middle, ink, right, self._element("link", box, label))
            x = box[2] + rng.uniform(14, 30)
        return height

    def phone_bar(self, width: float) -> float:
        height = self.rng.uniform(48, 60)
        ground = self.rng.choice((self.surface, self.accent))
        self.canvas.rectangle((0, 0, width, height), ground)
        self._icon_button(self.rng.choice(("menu", "left")), 16, (height - 22) / 2, 22, ground=ground)
        self._icon_button(self.rng.choice(_HEADER), width - 38, (height - 22) / 2, 22, ground=ground)
        ink = legible(readable_on(ground), ground)
        self._say(self.words.label(3), 56, (height - self._height) / 2 - 1, width - 110, colour=ink, bold=True)
        return height

    def bottom_bar(self, width: float) -> float:
        high, count = 58.0, self.rng.randint(3, 5)
        top, each = self.canvas.height - high, width / count
        self.canvas.rectangle((0, top, width, top + high), self.surface)
        self.canvas.rectangle((0, top, width, top + 1), self.line)
        chosen = self.rng.randrange(count)
        for nth, icon in enumerate(self.rng.sample(NAMES, count)):
            colour = legible(self.accent, self.surface, 3) if nth == chosen else self.muted
            with self._styled(11, False):
                name = self._fitting(self.words.label(1), each - 8)
                box = (nth * each, top, (nth + 1) * each, top + high)
                number = self._element("tab", box, name, icon=icon, states=("selected",) if nth == chosen else ())
                self._put(name, nth * each + (each - self._measure(name)) / 2, top + 36, colour, box[2], number)
            self._icon(icon, nth * each + each / 2 - 11, top + 9, 22, colour)
        return high

    def side_bar(self, x: float, top: float, width: float) -> None:
        rng, step = self.rng, self.rng.uniform(28, 42)
        ground = rng.choice((self.surface, self.background, mix(self.background, self.ink, 0.05)))
        self.canvas.rectangle((x, top, x + width, self.canvas.height), ground)
        self.canvas.rectangle((x + width - 1, top, x + width, self.canvas.height), self.line)
        icons, y = rng.random() < 0.6, top + rng.uniform(8, 20)
        chosen, role = rng.randrange(12), rng.choice(("link", "link", "menuitem"))
        for nth in range(rng.randint(5, 22)):
            if rng.random() < 0.12:
                y += (
                    6
                    + self._say(self.words.label(2).upper(), x + 16, y + 6, width - 24, colour=self.muted, size=11)
                    + 6
                )
            at = x + (46 if icons else 18)
            name = self._fitting(self.words.label(2), width - (at - x) - 34)
            box = (x + 6, y, x + width - 6, y + step - 2)
            colour = legible(self.ink, ground, 4)
            if nth == chosen:
                face = mix(ground, self.accent, 0.2)
                self.canvas.rectangle(box, face, radius=self.radius)
                colour = legible(self.accent, face, 4)
            icon = rng.choice(NAMES) if icons else ""
            number = self._element(role, box, name, icon=icon, states=("selected",) if nth == chosen else ())
            if icon:
                self._icon(icon, x + 18, y + (step - 20) / 2, 18, colour)
            self._put(name, at, y + (step - 2 - self._height) / 2, colour, box[2], number)
            if rng.random() < 0.15:
                self._say(str(rng.randint(1, 240)), x + width - 36, y + (step - 14) / 2, 30, colour=self.muted, size=11)
            y += step

    def breadcrumb(self, x: float, y: float, width: float) -> float:
        for nth in range(self.rng.randint(2, 4)):
            if nth:
                x = self._put("/", x, y, self.muted, x + 20)[2] + 6
            name = self._fitting(self.words.label(2), 160)
            box = (x, y, x + self._measure(name), y + self._height)
            self._put(name, x, y, self.link, box[2] + 1, self._element("link", box, name))
            x = box[2] + 6
        return self._height

    def title_row(self, x: float, y: float, width: float) -> float:
        rng = self.rng
        high = self._say(self.words.label(4), x, y, width * 0.55, size=self.size * rng.uniform(1.3, 2.1), bold=True)
        right = x + width
        for nth in range(rng.randint(0, 3)):
            text = self._fitting(self.words.label(2), width * 0.2)
            right -= self._measure(text) + 34
            if right < x + width * 0.56:
                break
            right = self._press(text, right, y, main=nth == 0, high=max(24.0, self.size * 2.1))[0] - 6
        return max(high, self.size * 2.1)

    def tab_bar(self, x: float, y: float, width: float) -> float:
        at, height, chosen = x, self._height + 16, self.rng.randrange(4)
        for nth in range(self.rng.randint(3, 7)):
            name = self._fitting(self.words.label(2), x + width - at - 24)
            if not name:
                break
            box = (at, y, at + self._measure(name) + 24, y + height)
            colour = legible(self.accent, self.background, 4) if nth == chosen else self.muted
            number = self._element("tab", box, name, states=("selected",) if nth == chosen else ())
            self._put(name, at + 12, y + 8, colour, box[2], number)
            if nth == chosen:
                self.canvas.rectangle((at, y + height - 2, box[2], y + height), colour)
            at = box[2]
        self.canvas.rectangle((x, y + height, x + width, y + height + 1), self.line)
        return height

    def toolbar(self, x: float, y: float, width: float) -> float:
        at = x
        for name in self.rng.sample(NAMES, self.rng.randint(4, 12)):
            if at + 40 > x + width:
                break
            self._icon_button(name, at + 6, y + 6, 18)
            at += 38
        return 32.0
