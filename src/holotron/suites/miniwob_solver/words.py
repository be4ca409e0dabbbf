"""Reading goals: the small grammar of MiniWoB++ instructions."""

from __future__ import annotations

import re

from holotron.errors import InputError

ORDINALS = {"1st": 1, "2nd": 2, "3rd": 3}


def quoted(goal: str) -> list[str]:
    """The strings in double quotes, in order."""
    return re.findall(r'"([^"]*)"', goal)


def parse(goal: str, pattern: str) -> tuple[str, ...]:
    """The groups of the pattern; an error that shows the goal when the page phrases it differently."""
    match = re.search(pattern, goal)
    if match is None:
        raise InputError(f"the solver does not understand the goal {goal!r} (expected {pattern!r})")
    return match.groups()


def ordinal(word: str) -> int:
    """'3rd' -> 3, '12th' -> 12."""
    return ORDINALS.get(word) or int(word.removesuffix("th"))


def listed(text: str, separator: str = ", ") -> list[str]:
    """'a, b' -> ['a', 'b']; 'nothing' -> []."""
    return [] if text == "nothing" else text.split(separator)


def rgb(colour: str) -> tuple[int, int, int]:
    """A computed CSS colour, 'rgb(1, 2, 3)' or 'rgba(1, 2, 3, 0.5)'."""
    r, g, b = re.findall(r"[\d.]+", colour)[:3]
    return round(float(r)), round(float(g)), round(float(b))
