"""Painted pages that look like web apps on a laptop or a phone: tables, cards, forms, lists of messages, articles.

Type is as large as on real pages (body text of 12 to 16 CSS pixels, captions of 11, headings up to 30), layouts are
dense, and most things are easily mistaken for another: every row has the same tools, every card the same button.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holotron.data.colours import RGB, hsl, legible, mix, readable_on
from holotron.data.labels import Element
from holotron.data.pages.icons import NAMES
from holotron.data.web_brush import WebBrush

BODY = (12.0, 13.0, 13.0, 14.0, 14.0, 14.0, 15.0, 16.0, 16.0)  # CSS pixels, of running text
NARROW = 600  # CSS pixels: pages less wide have one column
_TOOLS = ("pencil", "trash", "more", "eye", "copy", "star", "share", "download", "heart", "flag", "reply", "close")

Block = Callable[[float, float, float], float]  # x, y and width to the height that it took


class WebPage(WebBrush):
    # ------------------------------------------------------------------------------------------------------ whole pages

    def page(self) -> None:
        if self.rng.random() < 0.08:
            self._dialog()
        elif self.canvas.width < NARROW:
            self._phone()
        else:
            self._laptop()

    def _laptop(self) -> None:
        rng, width, height = self.rng, self.canvas.width, self.canvas.height
        top = self.header(width) if rng.random() < 0.85 else 0.0
        left, right = 0.0, width
        if rng.random() < 0.6:
            left = rng.uniform(160, 260)
            self.side_bar(0.0, top, left)
        if rng.random() < 0.25:
            right -= rng.uniform(220, 320)
            self._fill_with((self.facts, self.choices_list, self.links_list, self.stats, self.calendar),
                            right + 12, top + 16, width - right - 28)  # fmt: skip
        room = min(right - left - 2 * self.pad, rng.choice((1e9, 1e9, 960.0, 820.0)))
        x = left + self.pad + (rng.choice((0.0, 0.5)) * (right - left - 2 * self.pad - room))
        y = top + rng.uniform(8, 24)
        if rng.random() < 0.3:
            y += self.breadcrumb(x, y, room) + 8
        if rng.random() < 0.85:
            y += self.title_row(x, y, room) + rng.uniform(8, 18)
        if rng.random() < 0.3:
            y += self.tab_bar(x, y, room) + rng.uniform(8, 16)
        columns = rng.choice((1, 1, 1, 2)) if room > 560 else 1
        gap, blocks = rng.uniform(16, 32), (
            self.data_table, self.data_table, self.data_table, self.cards, self.cards, self.form, self.messages,
            self.messages, self.article, self.article, self.stats, self.facts, self.links_list, self.toolbar,
            self.calendar,
        )  # fmt: skip
        across = (room - gap * (columns - 1)) / columns
        for nth in range(columns):
            self._fill_with(blocks, x + nth * (across + gap), y, across, height - (30 if rng.random() < 0.2 else 0))

    def _phone(self) -> None:
        rng, width, height = self.rng, self.canvas.width, self.canvas.height
        y = self.phone_bar(width) + rng.uniform(6, 16)
        below = height
        if rng.random() < 0.5:
            below -= self.bottom_bar(width)
        margin = rng.uniform(10, 20)
        if rng.random() < 0.6:
            y += self.title_row(margin, y, width - 2 * margin) + 10
        blocks = (self.cards, self.form, self.messages, self.messages, self.article, self.stats, self.facts,
                  self.links_list, self.data_table, self.choices_list, self.tab_bar, self.calendar)  # fmt: skip
        self._fill_with(blocks, margin, y, width - 2 * margin, below)

    def _dialog(self) -> None:
        rng, width, height = self.rng, self.canvas.width, self.canvas.height
        self.canvas.rectangle((0, 0, width, height), mix(self.background, (0, 0, 0), 0.45))
        across, high = min(width - 24, rng.uniform(360, 620)), min(height - 40, rng.uniform(260, 600))
        x, y = (width - across) / 2, (height - high) / 2
        self.canvas.rectangle((x, y, x + across, y + high), self.surface, radius=self.radius)
        self._icon_button("close", x + across - 36, y + 12, 20)
        y += 20 + self._say(self.words.label(3), x + 20, y + 16, across - 80, size=self.size + 4, bold=True)
        y += self._paragraph(x + 20, y + 6, across - 40, 2) + 12
        self.form(x + 20, y, across - 40)

    def _fill_with(
        self,
        blocks: Sequence[Block],
        x: float,
        y: float,
        width: float,
        below: float | None = None,
    ) -> None:
        below = self.canvas.height if below is None else below
        while y < below - 2 * self.size and width > 80:
            y += max(self.size, self.rng.choice(blocks)(x, y, width)) + self.rng.uniform(12, 28)

    # ----------------------------------------------------------------------------------------------------------- blocks

    def data_table(self, x: float, y: float, width: float) -> float:
        """Rows of the same kind, each with the same tools."""
        rng, top, step = self.rng, y, max(self.row, 22.0)
        ticks, tools = rng.random() < 0.4, rng.sample(_TOOLS, rng.choice((0, 1, 2, 2, 3)))
        left, right = x + (30 if ticks else 8), x + width - 30 * len(tools)
        columns = max(2, min(rng.randint(2, 7), int((right - left) / 90)))
        across, badge = (right - left) / columns, rng.randrange(1, 8)
        stripes, words_of_rows = rng.random() < 0.3, rng.random() < 0.25
        self.canvas.rectangle((x, y, x + width, y + step), mix(self.surface, self.ink, rng.choice((0.0, 0.05))))
        heads = []
        for column in range(columns):
            with self._styled(max(11.0, self.size - 1), True):
                head = self._fitting(self.words.label(1), across - 10)
                box = (left + column * across, y, left + (column + 1) * across, y + step)
                number = self.canvas.add(Element("columnheader", box, name=head, text=head))
                self._put(head, box[0] + 2, y + (step - self._height) / 2, self.muted, box[2], number)
            heads.append(head)
        y += step
        for nth in range(rng.randint(3, 16)):
            if y + step > self.canvas.height:
                break
            if stripes and nth % 2:
                self.canvas.rectangle((x, y, x + width, y + step), mix(self.surface, self.ink, 0.04))
            self.canvas.rectangle((x, y, x + width, y + 1), self.line)
            name = self._fitting(self.words.person() if words_of_rows else self.words.label(3), across - 10)
            middle = y + (step - self._height) / 2
            self._table_row(name, heads, left, middle, across, badge)
            if ticks:
                self._tick(x + 8, y + (step - 14) / 2, within=name)
            for place, tool in enumerate(tools):
                self._icon_button(tool, right + 8 + 30 * place, y + (step - 16) / 2, 16, within=name)
            y += step
        return y - top

    def _table_row(self, name: str, heads: list[str], x: float, y: float, across: float, badge: int) -> None:
        for column, head in enumerate(heads):
            left, text = x + column * across + 2, name if not column else self._fitting(self.words.datum(), across - 22)
            box = (left, y - 4, left + across - 4, y + self._height + 4)
            if not column and self.rng.random() < 0.5:
                box = (left, y, left + self._measure(text), y + self._height)
                self._put(text, left, y, self.link, left + across, self._element("link", box, text))
                continue
            colour = self.ink
            if column == badge:
                ground = hsl(self.rng.choice((0, 40, 140, 210)), 0.6, 0.85)
                self.canvas.rectangle(
                    (left - 2, y - 2, left + self._measure(text) + 12, y + self._height + 2), ground, radius=8
                )
                left, colour = left + 5, legible(readable_on(ground), ground)
            number = self.canvas.add(Element("cell", box, name=head, text=text, within=name if column else ""))
            self._put(text, left, y, colour, left + across, number)

    def cards(self, x: float, y: float, width: float) -> float:
        rng, gap = self.rng, self.rng.uniform(10, 20)
        columns = max(1, int(width / rng.uniform(170, 300)))
        across, picture = (width - gap * (columns - 1)) / columns, rng.choice((0.0, 60.0, 110.0, 150.0))
        label = self._fitting(self.words.label(2), across * 0.5) if rng.random() < 0.6 else ""
        lines, tool, price = rng.randint(0, 2), rng.choice(("", "", *_TOOLS)), rng.random() < 0.5
        high = picture + (3 + lines) * self._height + 2.3 * self.size + 24
        rows = max(1, min(4, int((self.canvas.height - y) / high)))
        for place in range(columns * rows):
            row, column = divmod(place, columns)
            self._card(
                x + column * (across + gap), y + row * (high + gap), across, high, picture, lines, label, tool, price
            )
        return rows * (high + gap)

    def _card(
        self,
        x: float,
        y: float,
        width: float,
        high: float,
        picture: float,
        lines: int,
        label: str,
        tool: str,
        price: bool,
    ) -> None:
        self.canvas.outlined((x, y, x + width, y + high), self.surface, self.line, radius=self.radius)
        if picture:
            ground = hsl(self.rng.uniform(0, 360), 0.35, self.rng.uniform(0.6, 0.9))
            self.canvas.rectangle((x + 1, y + 1, x + width - 1, y + picture), ground)
            self._icon(
                self.rng.choice(NAMES), x + width / 2 - 16, y + picture / 2 - 16, 32, mix(ground, (0, 0, 0), 0.4)
            )
        at, room = y + picture + 8, width - 24
        with self._styled(self.size + 1, True):
            title = self._fitting(self.words.label(3), room - 24)
            box = (x + 12, at, x + 12 + self._measure(title), at + self._height)
            link = self.rng.random() < 0.5
            number = self._element("link" if link else "heading", box, title)
            self._put(title, x + 12, at, self.link if link else self.ink, x + width, number)
            at += self._height + 3
        for _ in range(lines):
            at += self._say(self.words.sentence(9), x + 12, at, room, colour=self.muted, size=max(11.0, self.size - 1))
        if price:
            at += self._say(self.words.price(), x + 12, at, room, bold=True) + 2
        if tool:
            self._icon_button(tool, x + width - 32, y + picture + 8, 18, within=title)
        self._press(
            label or self._fitting(self.words.label(2), room - 34), x + 12, at + 4, main=bool(label), within=title
        )

    def form(self, x: float, y: float, width: float) -> float:
        rng, top = self.rng, y
        columns = 2 if width > 480 and rng.random() < 0.4 else 1
        gap, high, beside = 20.0, rng.uniform(26, 40), columns == 1 and width > 360 and rng.random() < 0.3
        across = min((width - gap * (columns - 1)) / columns, rng.uniform(260, 640))
        for _ in range(rng.randint(2, 7)):
            for column in range(columns):
                left = x + column * (across + gap)
                label = self._fitting(self.words.label(3), across * (0.32 if beside else 0.8))
                if beside:
                    self._say(label, left, y + (high - self._height) / 2, across * 0.34)
                    self._box_to_type(left + across * 0.36, y, across * 0.64, high, label)
                else:
                    self._say(label, left, y, across, bold=rng.random() < 0.1)
                    self._box_to_type(left, y + self._height + 4, across, high, label)
            y += high + (0 if beside else self._height + 4) + rng.uniform(8, 16)
        if rng.random() < 0.5:
            for _ in range(rng.randint(1, 4)):
                name = self._fitting(self.words.label(3), width - 40)
                self._tick(x, y + 1, name=name)
                y += max(18.0, self._say(name, x + 22, y, width - 30)) + 5
        at = x
        for nth in range(rng.randint(1, 3)):
            text = self._fitting(self.words.label(2), width / 3)
            at = self._press(text, at, y + 4, main=nth == 0)[2] + 10
        return y + 4 + 2.5 * self.size - top

    def messages(self, x: float, y: float, width: float) -> float:
        """A list as of mails: who, what about, when; a tick and a star before each."""
        rng, top = self.rng, y
        marks, stars, two = rng.random() < 0.5, rng.random() < 0.5, width < 520 or rng.random() < 0.3
        step = self._height * (2.6 if two else 1.0) + rng.uniform(10, 20)
        for _ in range(rng.randint(4, 18)):
            if y + step > self.canvas.height:
                break
            unread, at = rng.random() < 0.4, x + 6
            subject = self._fitting(self.words.sentence(rng.randint(2, 6)).rstrip(".!?"), width * 0.4)
            number = self.canvas.add(Element("row", (x, y, x + width, y + step), name=subject, text=subject))
            middle = y + (step - (2.1 if two else 1.0) * self._height) / 2
            if marks:
                self._tick(at, middle + 1, within=subject)
                at += 26
            if stars:
                self._icon_button("star", at, middle, 15, within=subject)
                at += 28
            date, right = self.words.date() if rng.random() < 0.5 else self.words.time(), x + width - 84
            self._say(date, right, middle, 80, colour=self.muted, size=max(11.0, self.size - 1))
            who = max(60.0, (right - at) * (1.0 if two else 0.25) - 10)
            self._say(self.words.person(), at, middle, who, bold=unread)
            if two:
                self._say(subject, at, middle + self._height * 1.1, right - at, colour=self.ink, element=number)
            else:
                self._say(subject, at + who + 10, middle, right - at - who - 14, bold=unread, element=number)
            self.canvas.rectangle((x, y + step - 1, x + width, y + step), self.line)
            y += step
        return y - top

    def article(self, x: float, y: float, width: float) -> float:
        top, room = y, min(width, 760.0)
        if self.rng.random() < 0.6:
            y += self._say(self.words.label(4), x, y, room, size=self.size * 1.4, bold=True) + 6
        for _ in range(self.rng.randint(1, 3)):
            y += self.prose(x, y, room) + self.size * 0.8
        return y - top

    def stats(self, x: float, y: float, width: float) -> float:
        count = max(1, min(self.rng.randint(2, 5), int(width / 110)))
        each, high = width / count, self.size * 5.2
        for nth in range(count):
            box = (x + nth * each, y, x + (nth + 1) * each - 10, y + high)
            self.canvas.outlined(box, self.surface, self.line, radius=self.radius)
            name, value = (
                self._fitting(self.words.label(2), each - 34),
                self._fitting(self.words.datum(), (each - 30) / 2),
            )
            number = self.canvas.add(Element("value", box, name=name, text=value))
            self._say(name, box[0] + 10, y + 8, each - 30, colour=self.muted)
            self._say(
                value, box[0] + 10, y + self.size * 2.2, each - 26, size=self.size * 1.6, bold=True, element=number
            )
        return high

    def facts(self, x: float, y: float, width: float) -> float:
        """Names and what they are, in two columns."""
        top, left = y, min(width * 0.45, 200.0)
        for _ in range(self.rng.randint(3, 9)):
            name, value = self._fitting(self.words.label(2), left - 12), self._fitting(self.words.datum(), width - left)
            self._say(name, x, y, left, colour=self.muted)
            box = (x + left, y, x + left + self._measure(value), y + self._height)
            number = self.canvas.add(Element("value", box, name=name, text=value))
            self._say(value, x + left, y, width - left, element=number)
            y += self._height + self.rng.uniform(4, 10)
        return y - top

    def links_list(self, x: float, y: float, width: float) -> float:
        top = y
        y += self._say(self.words.label(2), x, y, width, bold=True) + 6
        for _ in range(self.rng.randint(3, 9)):
            y += self._link(x, y, width) + self.rng.uniform(3, 9)
        return y - top

    def choices_list(self, x: float, y: float, width: float) -> float:
        head = self._say(self.words.label(2), x, y, width, bold=True) + 6
        return head + self.choices(x, y + head, width)

    def calendar(self, x: float, y: float, width: float) -> float:
        cell, start, chosen = min(44.0, width / 7), self.rng.randrange(7), self.rng.randint(1, 28)
        self._say(self.words.label(2), x + 30, y, width - 60, bold=True)
        self._icon_button("left", x + 4, y, 16)
        self._icon_button("right", x + 7 * cell - 22, y, 16)
        y += self._height + 10
        for day in range(1, self.rng.choice((28, 30, 31)) + 1):
            row, column = divmod(start + day - 1, 7)
            box = (x + column * cell, y + row * cell * 0.8, x + (column + 1) * cell, y + (row + 1) * cell * 0.8)
            ink: RGB = self.ink
            if day == chosen:
                self.canvas.rectangle(box, self.accent, radius=self.radius)
                ink = legible(readable_on(self.accent), self.accent)
            text, states = str(day), ("selected",) if day == chosen else ()
            number = self._element("day", box, text, states=states)
            left = (box[0] + box[2] - self._measure(text)) / 2
            self._put(text, left, (box[1] + box[3] - self._height) / 2, ink, box[2], number)
        return self._height + 10 + 6 * cell * 0.8
