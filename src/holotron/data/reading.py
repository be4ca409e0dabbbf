"""Questions about what is written on a screen, each with the one right answer."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from holotron.data.describing import LONGEST, NOUNS, DescribedScreen, normal
from holotron.data.labels import Box, Line, union

_COUNTED = {"button": "buttons", "link": "links", "checkbox": "checkboxes", "radio": "radio buttons", "tab": "tabs",
            "textbox": "fields", "shape": "shapes", "swatch": "coloured squares"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReadingQuestion:
    by: str
    text: str  # "{point}" stands for the point, which each model writes in its own way
    answer: str = ""
    point: tuple[float, float] | None = None
    box: Box | None = None  # where the answer is to be found


def questions(screen: DescribedScreen, rng: random.Random) -> Iterator[ReadingQuestion]:
    """One question of each kind that the screen allows, in random order."""
    makers = [_line_at, _word_at, _value, _cell, _below, _rest_of_line, _count, _ticked]
    rng.shuffle(makers)
    for make in makers:
        found = make(screen, rng)
        if found is not None:
            yield found


def find_text(screen: DescribedScreen, rng: random.Random) -> ReadingQuestion | None:
    """Some words that are written in one place only, to be pointed at."""
    lines = [line for line in screen.lines if len(line.text) > 1]
    for line in rng.sample(lines, min(4, len(lines))):
        words = line.text.split(" ")
        first = rng.randrange(len(words))
        some = words[first : first + rng.choice((1, 1, 2, 3, len(words)))]
        text = " ".join(some)
        if 1 < len(text) <= LONGEST and '"' not in text and screen.written.count(normal(text)) == 1:
            start = line.start + len(" ".join([*words[:first], ""]))
            box = union(screen.text.boxes[start : start + len(text)])
            ask = rng.choice(
                ('Find the text "{}".', 'Point at "{}".', 'Where is "{}" written?', 'Click on the text "{}".')
            )
            return ReadingQuestion("text", ask.format(text), box=box)
    return None


def _pick(rng: random.Random, lines: list[Line]) -> Line | None:
    fitting = [line for line in lines if 0 < len(line.text) <= LONGEST]
    return rng.choice(fitting) if fitting else None


def _point_in(screen: DescribedScreen, rng: random.Random, start: int, stop: int) -> tuple[float, float]:
    left, top, right, bottom = (float(v) for v in screen.text.boxes[rng.randrange(start, stop)])
    return (left + right) / 2, (top + bottom) / 2


def _line_at(screen: DescribedScreen, rng: random.Random) -> ReadingQuestion | None:
    line = _pick(rng, screen.lines)
    if line is None:
        return None
    ask = rng.choice(("What is written at {point}?", "Read the line at {point}.", "Which text is at {point}?"))
    return ReadingQuestion("line at", ask, line.text, _point_in(screen, rng, line.start, line.stop), line.box)


def _word_at(screen: DescribedScreen, rng: random.Random) -> ReadingQuestion | None:
    word = _pick(rng, list(screen.text.words()))
    if word is None:
        return None
    ask = rng.choice(("Which word is at {point}?", "Read the word at {point}."))
    return ReadingQuestion("word at", ask, word.text, _point_in(screen, rng, word.start, word.stop), word.box)


def _value(screen: DescribedScreen, rng: random.Random) -> ReadingQuestion | None:
    """What stands behind a name: a field's content, a figure, a fact."""
    named = [
        e for e in screen.elements if e.role in ("value", "textbox", "combobox") and e.exposed and e.text and e.name
    ]
    rng.shuffle(named)
    for element in named:
        name = element.name.rstrip(":")
        said = element.text if element.role == "value" else element.value
        if said == element.text and '"' not in name and sum(e.name.rstrip(":") == name for e in named) == 1:
            ask = rng.choice(('What is the value of "{}"?', 'What does "{}" show?', 'Read the value of "{}".'))
            if normal(name) in screen.written:
                return ReadingQuestion("value", ask.format(name), said, box=element.box)
    return None


def _cell(screen: DescribedScreen, rng: random.Random) -> ReadingQuestion | None:
    cells = [e for e in screen.elements if e.role == "cell" and e.exposed and e.text and e.name and e.within]
    rng.shuffle(cells)
    headers = {normal(e.text) for e in screen.elements if e.role == "columnheader" and e.exposed}
    for cell in cells:
        same = [c for c in cells if c.name == cell.name and c.within == cell.within]
        readable = screen.line_counts[normal(cell.within)] == 1 and normal(cell.name) in headers
        if len(same) == 1 and readable and normal(cell.text) != normal(cell.within) and '"' not in cell.within:
            ask = rng.choice(
                ('What is the "{}" of "{}"?', 'Read the "{}" of "{}".', "In the table, what is the {} of {}?")
            )
            return ReadingQuestion("cell", ask.format(cell.name, cell.within), cell.text, box=cell.box)
    return None


def _below(screen: DescribedScreen, rng: random.Random) -> ReadingQuestion | None:
    """The line under another one."""
    for above in rng.sample(screen.lines, min(6, len(screen.lines))):
        if not 1 < len(above.text) <= 40 or screen.line_counts[normal(above.text)] != 1 or '"' in above.text:
            continue
        height = above.box[3] - above.box[1]
        under = [
            line for line in screen.lines
            if 0 <= line.box[1] - above.box[3] + 2 < 1.2 * height and abs(line.box[0] - above.box[0]) < height
        ]  # fmt: skip
        if len(under) == 1 and len(under[0].text) <= LONGEST:
            return ReadingQuestion(
                "below", f'Which text is directly below "{above.text}"?', under[0].text, box=under[0].box
            )
    return None


def _rest_of_line(screen: DescribedScreen, rng: random.Random) -> ReadingQuestion | None:
    line = _pick(rng, [line for line in screen.lines if " " in line.text])
    if line is None:
        return None
    start = line.text.split(" ")[0]
    same = [other for other in screen.lines if normal(other.text).startswith(normal(start))]
    if len(same) > 1 or '"' in start:
        return None
    return ReadingQuestion("line start", f'Read the line that starts with "{start}".', line.text, box=line.box)


def _count(screen: DescribedScreen, rng: random.Random) -> ReadingQuestion | None:
    kinds = [role for role in _COUNTED if 0 < len(screen.of_role(role)) <= 12]
    if not kinds:
        return None
    role = rng.choice(kinds)
    counted = screen.of_role(role)
    if not all(e.exposed for e in counted):
        return None
    return ReadingQuestion("count", f"How many {_COUNTED[role]} are there?", str(len(counted)))


def _ticked(screen: DescribedScreen, rng: random.Random) -> ReadingQuestion | None:
    boxes = [e for e in screen.elements if e.role in ("checkbox", "radio", "switch") and e.exposed and e.name]
    if not boxes:
        return None
    box = rng.choice(boxes)
    if '"' in box.name or screen.names[normal(box.name)] != 1 or not screen.shows(box.name):
        return None
    word = "on" if box.role == "switch" else "checked"
    answer = "yes" if "checked" in box.states else "no"
    return ReadingQuestion("state", f'Is the {NOUNS[box.role][0]} "{box.name}" {word}?', answer, box=box.box)
