"""Reading: random strings that nobody has seen, at the sizes of MiniWoB++'s pages, in real Chromium.

    result = await probe_reading(policy, each=40)
    result["16 px"].characters, result["16 px"].exact, result["16 px"].found

A page shows four lines of two random words. The policy is asked to read one of the lines, given its first word, and to
point at a word. `characters` is how alike the line's second word and what was said are (1: equal), so a policy that
guesses likely words scores near nothing: there are no likely ones.
"""

from __future__ import annotations

import asyncio
import io
import random
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from html import escape

from PIL import Image

from holotron.agent.policies.base import Policy
from holotron.data.labels import Box, contains, union
from holotron.data.pages.make import MadePage, Size
from holotron.data.render import Renderer, Shot
from holotron.errors import PolicyError
from holotron.evals.looking import first_action, observation_of
from holotron.types import Action, Answer, Click, Observation, Task

ACTIONS = ("click", "answer")
SIZES = (10, 12, 13.333, 16, 20)  # CSS pixels: small print, body, buttons and fields, headings
PAGE = Size(160, 160, 2.0)
LINES = 4
_FONTS = ("sans-serif", "Arial", "Verdana", "serif", "monospace")
_LETTERS = string.ascii_letters + string.digits


@dataclass(frozen=True, slots=True)
class Reading:
    """Of one size of type. Shares of what was asked."""

    asked: int
    exact: float
    characters: float
    found: float


@dataclass(frozen=True, slots=True)
class _Lines:
    page: MadePage
    words: tuple[tuple[str, str], ...]
    chosen: int


async def probe_reading(
    policy: Policy,
    *,
    each: int = 40,
    seed: int = 0,
    sessions: int = 8,
    on_progress: Callable[[int], None] = lambda n: None,
) -> dict[str, Reading]:
    """`each` pages for each size of type; the same pages for every policy."""
    pages = _pages(each, seed)
    marks: dict[float, list[tuple[bool, float, bool]]] = {size: [] for size in SIZES}
    asked = 0

    async def work(renderer: Renderer) -> None:
        nonlocal asked
        for size, lines in pages:  # shared: each takes the next
            (shot,) = await renderer.render(lines.page)
            marks[size].append(await _ask(policy, lines, shot))
            asked += 1
            on_progress(asked)

    async with Renderer() as renderer:
        await asyncio.gather(*(work(renderer) for _ in range(sessions)))
    return {f"{size:g} px": _mean(found) for size, found in marks.items()}


def _pages(each: int, seed: int) -> Iterator[tuple[float, _Lines]]:
    for n in range(each):
        for size in SIZES:
            yield size, _page(size, random.Random(f"holotron reading {seed} {n} {size}"))


def _page(size: float, rng: random.Random) -> _Lines:
    longest = min(8, int(PAGE.width / size / 1.5))  # two words fit in a line, whatever the letters
    words = tuple((_word(rng, longest), _word(rng, longest)) for _ in range(LINES))
    pitch = PAGE.height // LINES
    lines = "".join(
        f'<div style="position:absolute;left:{rng.randint(2, 8)}px;top:{row * pitch + rng.randint(0, 8)}px">'
        f"{escape(first)} {escape(second)}</div>"
        for row, (first, second) in enumerate(words)
    )
    body = f'<body style="margin:0;font:{size}px {rng.choice(_FONTS)};white-space:nowrap">{lines}</body>'
    return _Lines(MadePage("reading", f"<!doctype html>{body}", PAGE, {}), words, rng.randrange(LINES))


def _word(rng: random.Random, longest: int) -> str:
    return "".join(rng.choice(_LETTERS) for _ in range(rng.randint(3, max(3, longest))))


async def _ask(policy: Policy, lines: _Lines, shot: Shot) -> tuple[bool, float, bool]:
    first, second = lines.words[lines.chosen]
    observation = await observation_of(Image.open(io.BytesIO(shot.image)), (PAGE.width, PAGE.height))
    said = await _act(policy, f'Read the line that starts with "{first}".', observation)
    text = said.content.removeprefix(first).strip() if isinstance(said, Answer) else ""
    pointed = await _act(policy, f'Find the text "{second}".', observation)
    box = _box_of(shot, f"{first} {second}", len(second))
    found = isinstance(pointed, Click) and contains(box, pointed.x, pointed.y)
    return text == second, SequenceMatcher(None, text, second, autojunk=False).ratio(), found


async def _act(policy: Policy, goal: str, observation: Observation) -> Action | None:
    try:
        return await first_action(policy, Task("reading", "line", goal=goal), observation)
    except PolicyError:
        return None


def _box_of(shot: Shot, line: str, last: int) -> Box:
    """Where the last characters of a line are."""
    written = next(found for found in shot.text if found.text == line)
    return union(shot.text.boxes[written.stop - last : written.stop])


def _mean(marks: list[tuple[bool, float, bool]]) -> Reading:
    exact, characters, found = (sum(column) / len(marks) for column in zip(*marks, strict=True))
    return Reading(len(marks), exact, characters, found)
