"""Ways to say which element is meant: by text, role, icon, colour, order, state, place, and by parts of its text.

Every function here gives a description only if it fits one element of the screen and no other, so that an instruction
is never ambiguous. `Screen` knows what is on the screen; `describe` lists all that can be said about one element.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from holotron.data.colours import UNCLEAR
from holotron.data.labels import Box, Element, Line, Text, contains, middle
from holotron.data.pages.icons import words_for

# What people call things. The first word is the plainest.
NOUNS: dict[str, tuple[str, ...]] = {
    "button": ("button",),
    "link": ("link",),
    "textbox": ("field", "text field", "input", "text box"),
    "checkbox": ("checkbox", "check box"),
    "radio": ("radio button", "option"),
    "combobox": ("drop-down", "list", "select box"),
    "option": ("option", "entry"),
    "tab": ("tab",),
    "menuitem": ("menu item", "menu entry"),
    "switch": ("switch", "toggle"),
    "slider": ("slider",),
    "spinbutton": ("number field",),
    "treeitem": ("tree item", "entry"),
    "day": ("day",),
    "row": ("row", "message"),
    "card": ("card",),
    "swatch": ("square", "colour square"),
    "shape": ("shape",),
    "icon": ("icon",),
}
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
LONGEST = 60  # characters of text in a description
_STATES = {"checked": "checked", "selected": "selected", "disabled": "greyed-out", "expanded": "open"}


def normal(text: str) -> str:
    return " ".join(text.casefold().split())


@dataclass(frozen=True)
class DescribedScreen:
    """What can be seen, with the look-ups that descriptions need."""

    elements: Sequence[Element]
    text: Text

    @cached_property
    def targets(self) -> list[Element]:
        return [element for element in self.elements if element.clickable]

    @cached_property
    def rivals(self) -> list[Element]:
        """Everything that could be meant by a description, also what is half hidden or disabled."""
        return [element for element in self.elements if element.role in NOUNS]

    @cached_property
    def names(self) -> Counter[str]:
        return Counter(normal(element.name) for element in self.rivals)

    @cached_property
    def lines(self) -> list[Line]:
        return list(self.text)

    @cached_property
    def line_counts(self) -> Counter[str]:
        return Counter({text: len(boxes) for text, boxes in self.written_at.items()})

    @cached_property
    def written_at(self) -> defaultdict[str, list[Box]]:
        """Where each line's text is written."""
        found: defaultdict[str, list[Box]] = defaultdict(list)
        for line in self.lines:
            found[normal(line.text)].append(line.box)
        return found

    @cached_property
    def written(self) -> str:
        """All lines, for searching."""
        return "\n".join(normal(line.text) for line in self.lines)

    @cached_property
    def _unbroken(self) -> str:
        return self.written.replace("\n", " ")

    def shows(self, text: str) -> bool:
        """Can it be read somewhere, in one line or in several?"""
        return normal(text) in self._unbroken

    @cached_property
    def all_text(self) -> str:
        """Everything that is written, and what else things are called."""
        names = [normal(said) for element in self.elements for said in (element.name, element.value)]
        return "\n".join([self.written, *names])

    def of_role(self, role: str) -> list[Element]:
        return [element for element in self.rivals if element.role == role]

    def in_order(self, role: str) -> list[Element]:
        """In reading order: rows from the top, each from the left."""
        left = sorted(self.of_role(role), key=lambda e: e.centre[1])
        ordered: list[Element] = []
        while left:
            top = left[0]
            row = [e for e in left if e.centre[1] - top.centre[1] <= 0.5 * (top.box[3] - top.box[1])]
            ordered += sorted(row, key=lambda e: e.centre[0])
            left = [e for e in left if e not in row]
        return ordered


@dataclass(frozen=True, slots=True)
class Description:
    by: str
    phrase: str  # a noun phrase: 'the "Save" button'
    anchor: Box | None = None  # the text that the phrase quotes, where it stands beside the target and not on it


def describe(screen: DescribedScreen, target: Element, rng: random.Random) -> list[Description]:
    """All that can be said about the target without naming anything else as well."""
    makers = (_by_text, _by_role, _by_icon, _by_colour, _by_order, _by_state, _by_value, _within, _by_part, _by_place)
    return [found for make in makers for found in make(screen, target, rng)]


def noun(element: Element, rng: random.Random) -> str:
    if element.role == "shape":
        return element.name if len(element.name) > 1 else f'"{element.name}"'
    return rng.choice(NOUNS[element.role])


def _named(screen: DescribedScreen, element: Element) -> bool:
    """Has it a name that can be read on the screen? Pages also give names that only they know."""
    name = element.name
    usable = 0 < len(name) <= LONGEST and '"' not in name and element.role not in ("shape", "swatch")
    return usable and screen.shows(name)


def _by_text(screen: DescribedScreen, target: Element, rng: random.Random) -> Iterator[Description]:
    if not _named(screen, target):
        return
    name = normal(target.name)
    label = _label_beside(screen, target, target.name)
    if screen.names[name] == 1:
        yield Description("text", f'"{target.name}"', label)
    if sum(normal(e.name) == name for e in screen.of_role(target.role)) == 1:
        what = noun(target, rng)
        yield Description("text", rng.choice((f'the "{target.name}" {what}', f'the {what} "{target.name}"')), label)


def _label_beside(screen: DescribedScreen, target: Element, text: str) -> Box | None:
    """Where that is written, if it is in one place only and not on the target."""
    boxes = screen.written_at[normal(text)] + screen.written_at[normal(text) + ":"]
    if len(boxes) != 1 or contains(target.box, *middle(boxes[0])):
        return None
    return boxes[0]


def _by_role(screen: DescribedScreen, target: Element, rng: random.Random) -> Iterator[Description]:
    if target.role not in ("shape", "icon") and len(screen.of_role(target.role)) == 1:
        yield Description("role", f"the {noun(target, rng)}")


def _icon_words(screen: DescribedScreen, icon: str) -> list[str]:
    """Names of an icon that are not also written somewhere."""
    return [word for word in words_for(icon) if normal(word) not in screen.all_text]


def _bare_icon(element: Element) -> bool:
    return bool(element.icon) and not element.text


def _by_icon(screen: DescribedScreen, target: Element, rng: random.Random) -> Iterator[Description]:
    same = [e for e in screen.rivals if e.icon == target.icon]
    if target.icon and len(same) == 1 and (words := _icon_words(screen, target.icon)):
        word = rng.choice(words)
        if _bare_icon(target):
            yield Description("icon", rng.choice((f"the {word} icon", f"the {word} button", f"the icon for {word}")))
        else:
            yield Description("icon", f"the {noun(target, rng)} with the {word} icon")


def _by_colour(screen: DescribedScreen, target: Element, rng: random.Random) -> Iterator[Description]:
    if not target.colour or target.colour == UNCLEAR or target.role not in ("button", "swatch", "shape"):
        return
    same = [e for e in screen.of_role(target.role) if target.role != "shape" or e.name == target.name]
    if sum(e.colour in (target.colour, UNCLEAR) for e in same) == 1 and len(same) > 1:
        yield Description("colour", f"the {target.colour} {noun(target, rng)}")
    if target.role == "shape" and sum(e.colour in (target.colour, UNCLEAR) for e in screen.of_role("shape")) == 1:
        yield Description("colour", f"the {target.colour} {rng.choice(('shape', 'figure', 'item'))}")


def _by_order(screen: DescribedScreen, target: Element, rng: random.Random) -> Iterator[Description]:
    if target.role in ("shape", "icon", "day", "swatch"):
        return
    ordered = screen.in_order(target.role)
    if any(_bare_icon(e) for e in ordered):
        return  # is a bare heart the third button? People would not count like that
    place = ordered.index(target)
    if len(ordered) > 1 and all(e.exposed for e in ordered):
        if place < min(len(ordered), len(ORDINALS)):
            yield Description("order", f"the {ORDINALS[place]} {noun(target, rng)}")
        if place == len(ordered) - 1:
            yield Description("order", f"the last {noun(target, rng)}")


def _by_state(screen: DescribedScreen, target: Element, rng: random.Random) -> Iterator[Description]:
    others = screen.of_role(target.role)
    for state in target.states:
        if state in _STATES and len(others) > 1 and sum(state in e.states for e in others) == 1:
            yield Description("state", f"the {_STATES[state]} {noun(target, rng)}")


def _by_value(screen: DescribedScreen, target: Element, rng: random.Random) -> Iterator[Description]:
    value = target.value
    if target.role not in ("textbox", "combobox") or not 0 < len(value) <= LONGEST or '"' in value or "\n" in value:
        return
    if target.text and sum(normal(e.value) == normal(target.value) for e in screen.rivals) == 1:
        phrase = rng.choice(('that contains "{}"', 'with the value "{}"', 'that shows "{}"')).format(target.value)
        yield Description("value", f"the {noun(target, rng)} {phrase}")


def _within(screen: DescribedScreen, target: Element, rng: random.Random) -> Iterator[Description]:
    """By the row, card or section it is part of."""
    place = target.within
    if not 0 < len(place) <= LONGEST or '"' in place or normal(place) == normal(target.name):
        return
    if screen.line_counts[normal(place)] + screen.line_counts[normal(place) + ":"] != 1:
        return  # not written there, or in two places
    inside = [e for e in screen.rivals if e.within == place]
    where = rng.choice(('of "{}"', 'that belongs to "{}"', 'for "{}"'))
    anchor = _label_beside(screen, target, place)
    if _bare_icon(target) and sum(e.icon == target.icon for e in inside) == 1:
        yield Description("within", f"the {words_for(target.icon)[0]} icon {where.format(place)}", anchor)
    elif _named(screen, target) and sum(normal(e.name) == normal(target.name) for e in inside) == 1:
        yield Description("within", f'the {noun(target, rng)} "{target.name}" {where.format(place)}', anchor)
    if sum(e.role == target.role for e in inside) == 1:
        yield Description("within", f"the {noun(target, rng)} {where.format(place)}", anchor)


def _by_part(screen: DescribedScreen, target: Element, rng: random.Random) -> Iterator[Description]:
    name = normal(target.name)
    if not _named(screen, target) or len(name) < 5:
        return
    length = rng.randint(3, max(3, len(name) - 2))
    start = rng.randrange(len(name) - length + 1)
    others = [normal(e.name) for e in screen.of_role(target.role)]
    what = noun(target, rng)
    for how, part, test in (
        ("starts with", target.name[:length], str.startswith),
        ("ends with", target.name[-length:], str.endswith),
        ("contains", target.name[start : start + length], str.__contains__),
    ):
        if part.strip() == part and sum(test(other, normal(part)) for other in others) == 1:
            yield Description("part", f'the {what} that {how} "{part}"')


# ----------------------------------------------------------------------------------------------- by place on the screen


def _by_place(screen: DescribedScreen, target: Element, rng: random.Random) -> Iterator[Description]:
    """By a text nearby: the button below it, the field to its right."""
    rivals = screen.of_role(target.role)
    reach = 4 * (target.box[3] - target.box[1])
    for line in screen.lines:
        if not 1 < len(line.text) <= 40 or '"' in line.text or screen.line_counts[normal(line.text)] != 1:
            continue
        for side in ("below", "above", "right", "left"):
            distance = _distance(line.box, target.box, side)
            if distance is None or distance > reach:
                continue
            nearer = [d for e in rivals if e is not target and (d := _distance(line.box, e.box, side)) is not None]
            if all(d > 1.5 * distance + 4 for d in nearer):
                where = side if side in ("below", "above") else f"to the {side} of"
                yield Description("place", f'the {noun(target, rng)} {where} "{line.text}"', line.box)


def _distance(anchor: Box, box: Box, side: str) -> float | None:
    """How far the box is from the anchor on that side; None when it is not there, or not in line with it."""
    along = 0 if side in ("below", "above") else 1
    overlap = min(anchor[along + 2], box[along + 2]) - max(anchor[along], box[along])
    if overlap < 0.5 * min(anchor[along + 2] - anchor[along], box[along + 2] - box[along]):
        return None
    gap = {
        "below": box[1] - anchor[3],
        "above": anchor[1] - box[3],
        "right": box[0] - anchor[2],
        "left": anchor[0] - box[2],
    }[side]
    return gap if gap > -1 else None
