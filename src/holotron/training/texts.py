"""Skills of text alone: copy the right string out of the goal, change its case or format, look up, count, add.

    <user> Enter the username "kasie" and the password "7mEym" into the text fields and press login.
    <assistant> click 412 300   <user>   <assistant> type kasie   <user> ...  <assistant> type 7mEym
                not learnt                           learnt                               learnt

An episode without its pictures: the same turns and words, so that what is learnt here serves there. Strings are random,
which leaves no way but to copy; without pictures a sample costs next to nothing. Clicks stand where they would stand
and are not learnt: nobody could know them. Where more than copying is asked, the reply first says what it works with
(`read 7 + 5 | type 12`), as it will where that has to be read off a screen.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from holotron.agent.coordinates import Screen
from holotron.agent.dialects import make_dialect
from holotron.model.processor import Processor
from holotron.training.recipe import TextData
from holotron.training.samples import Sample
from holotron.training.stream import conversation
from holotron.types import Action, Click, Write

Lesson = tuple[str, list[Write]]  # a goal, and what is to be typed, field after field
_SCREEN = Screen((320, 320), (160, 160))


class Texts:
    """Endless; sample number n of a seed is always the same."""

    def __init__(self, data: TextData, processor: Processor) -> None:
        self._seed = data.seed
        self._processor = processor
        self._dialect = make_dialect(data.dialect)

    @property
    def size(self) -> None:
        return None

    def sample(self, index: int, rng: np.random.Generator) -> Sample:
        dice = Dice(np.random.default_rng([self._seed, index]))
        name = dice.pick([*SKILLS, *HARD])
        goal, typed = SKILLS[name](dice)
        messages: list[dict[str, Any]] = []
        learn = []
        for write in typed:
            for action in (Click(dice.number(2, 158), dice.number(2, 158)), write):
                messages.append({"role": "user", "content": "" if messages else goal + "\n"})
                messages.append({"role": "assistant", "content": self._say(action)})
            learn.append(len(messages) - 1)
        sequence, _ = conversation(self._processor, messages, learn)
        size = 0 if self._processor.images is None else self._processor.images.tile_size
        return Sample(torch.empty((0, 3, size, size), dtype=torch.uint8), (sequence,), name=name)

    def _say(self, action: Action) -> str:
        return self._dialect.render(action, _SCREEN)


class Dice:
    """Random words and numbers."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def number(self, low: int, high: int) -> int:
        return int(self._rng.integers(low, high + 1))

    def pick(self, items: list[Any]) -> Any:
        return items[self.number(0, len(items) - 1)]

    def string(self, low: int = 2, high: int = 8, letters: str = string.ascii_letters + string.digits) -> str:
        return "".join(self.pick(list(letters)) for _ in range(self.number(low, high)))

    def word(self) -> str:
        """Something one could pronounce."""
        syllables = [self.pick(list("bcdfghjklmnprstvwz")) + self.pick(list("aeiou")) for _ in range(self.number(1, 3))]
        return "".join(syllables) + self.pick(["", "", "n", "s", "r", "ll", "t"])

    def name(self) -> str:
        return self.word().capitalize()

    def text(self) -> str:
        return self.pick([self.word, self.name, self.string, lambda: f"{self.word()} {self.word()}"])()

    def words(self, low: int, high: int) -> list[str]:
        return [self.word() for _ in range(self.number(low, high))]


def writes(*contents: str) -> list[Write]:
    return [Write(content) for content in contents]


def ordinal(n: int) -> str:
    return f"{n}{'th' if 10 <= n % 100 <= 20 else {1: 'st', 2: 'nd', 3: 'rd'}.get(n % 10, 'th')}"


# -------------------------------------------------------------------------------------------------------------- skills


def _login(d: Dice) -> Lesson:
    user, password = d.word(), d.string()
    return f'Enter the username "{user}" and the password "{password}" into the text fields and press login.', writes(
        user, password
    )


def _password(d: Dice) -> Lesson:
    password = d.string()
    return f'Enter the password "{password}" into both text fields and press submit.', writes(password, password)


def _quoted(d: Dice) -> Lesson:
    """The k-th quoted string of several."""
    texts = [d.text() for _ in range(d.number(1, 3))]
    which = d.number(1, len(texts))
    goal = " and ".join(f'"{text}" into the {ordinal(n)} field' for n, text in enumerate(texts, start=1))
    if len(texts) == 1:
        return d.pick(['Enter "{}" into the text field and press Submit.', 'Reply with the text "{}".']).format(
            texts[0]
        ), writes(*texts)
    if d.number(0, 1):
        return f"Enter {goal}.", writes(*texts)
    return f"Of these, enter only the {ordinal(which)}: " + ", ".join(f'"{t}"' for t in texts), writes(texts[which - 1])


def _case(d: Dice) -> Lesson:
    text, upper = d.text(), bool(d.number(0, 1))
    goal = f'Type "{d.pick([text, text.upper(), text.lower()])}" in all {"upper" if upper else "lower"} case letters '
    return goal + "in the text input and press Submit.", writes(text.upper() if upper else text.lower())


def _date(d: Dice) -> Lesson:
    year, month, day = d.number(1990, 2030), d.number(1, 12), d.number(1, 28)
    return f"Enter {month:02d}/{day:02d}/{year} as the date and hit submit.", writes(f"{year}-{month:02d}-{day:02d}")


def _time(d: Dice) -> Lesson:
    hour, minute = d.number(0, 23), d.number(0, 59)
    shown = f"{(hour - 1) % 12 + 1}:{minute:02d} {'AM' if hour < 12 else 'PM'}"
    return f"Enter {shown} as the time and press submit.", writes(f"{hour:02d}:{minute:02d}")


def _nth_word(d: Dice) -> Lesson:
    words = d.words(3, 20)
    place = d.number(1, len(words))
    which, last = (ordinal(place), place) if d.number(0, 3) else ("last", len(words))
    counted = " ".join(f"{n} {word}" for n, word in enumerate(words[:last], start=1))
    goal = f"Find the {which} word in the paragraph and type that into the textbox: {' '.join(words)}."
    return goal, [Write(words[last - 1], read=counted)]


def _lookup(d: Dice) -> Lesson:
    table = {d.name(): d.text() for _ in range(d.number(2, 5))}
    asked = [d.pick(list(table)) for _ in range(d.number(1, 2))]
    lines = "; ".join(f"{key}: {value}" for key, value in table.items())
    return f"Enter the value of {', then '.join(asked)}. {lines}", [
        Write(table[key], read=f"{key} {table[key]}") for key in asked
    ]


def _sum(d: Dice) -> Lesson:
    """Mostly of digits, which a small network can learn by heart."""
    sign = d.pick(["+", "-", "x"])
    most = 9 if d.number(0, 2) else 12 if sign == "x" else 100
    a, b = d.number(0, most), d.number(0, most)
    result = {"+": a + b, "-": a - b, "x": a * b}[sign]
    problem = f"{a} {sign} {b}"
    goal = f"Solve the math problem and type your answer into the textbox: {problem} ="
    return goal, [Write(str(result), read=problem)]


def _algebra(d: Dice) -> Lesson:
    x, a = d.number(-20, 100), d.number(0, 9 if d.number(0, 2) else 100)
    plus, swapped = bool(d.number(0, 1)), bool(d.number(0, 1))
    left = (f"{a} + x" if swapped else f"x + {a}") if plus else (f"{a} - x" if swapped else f"x - {a}")
    right = x + a if plus else (a - x if swapped else x - a)
    problem = f"{left} = {right}"
    return f"Solve for x and type your answer into the textbox: {problem}", [Write(str(x), read=problem)]


def _forward(d: Dice) -> Lesson:
    sender, receiver = d.name(), d.name()
    goals = [
        f"Find the email by {sender} and forward that email to {receiver}.",
        f"Search for the mail {sender} sent you and send it to {receiver}.",
        f"forward {sender}'s last email to {receiver}",
        f"Send {receiver} the message that came from {sender}.",
    ]
    return d.pick(goals), writes(receiver)


def _fields(d: Dice) -> Lesson:
    genre, director, year = d.word(), d.name(), str(d.number(1950, 2025))
    values = {"genre": genre, "director": director, "year": year}
    order = [list(values)[n] for n in d._rng.permutation(3)]
    goal = f"Search for {genre} movies directed by {director} from year {year}."
    return f"{goal} Fields: {', '.join(order)}", writes(*(values[key] for key in order))


def _remove(d: Dice) -> Lesson:
    files = [f"{d.word()}.{d.pick(['png', 'gif', 'txt', 'py', 'zip', 'html'])}" for _ in range(d.number(2, 6))]
    wanted = d.pick(files)
    ending = wanted.rpartition(".")[2]
    found = next(file for file in files if file.endswith("." + ending))
    return f"Use the terminal to delete a file ending with the extension .{ending}: {' '.join(files)}", writes(
        f"rm {found}"
    )


def _start(d: Dice) -> Lesson:
    start, end = d.name(), d.word()
    return f'Enter an item that starts with "{start}" and ends with "{end}".', writes(start)


SKILLS: dict[str, Callable[[Dice], Lesson]] = {
    "login": _login,
    "password": _password,
    "quoted": _quoted,
    "case": _case,
    "date": _date,
    "time": _time,
    "nth_word": _nth_word,
    "lookup": _lookup,
    "sum": _sum,
    "algebra": _algebra,
    "forward": _forward,
    "fields": _fields,
    "remove": _remove,
    "start": _start,
}
HARD = ("nth_word", "lookup", "sum", "algebra", "remove")  # asked twice as often: copying is learnt first
