"""Which elements to ask for: those that are easily mistaken for another, and roles in turns."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from holotron.data.describing import DescribedScreen, normal
from holotron.data.labels import Element

SMALL = 1200.0  # CSS pixels squared: a button of a toolbar, a link, a box to tick


def draw_targets(screen: DescribedScreen, rng: random.Random, count: int) -> list[Element]:
    """Different targets: two thirds small and mistakable, where there are such, the others anything. Left to chance,
    most would be the large ones that nothing else looks like."""
    any_ones = rng.sample(screen.targets, min(count, len(screen.targets)))
    hard = [e for e in screen.targets if e.area <= SMALL and mistakable(screen, e)]
    chosen = in_turns(hard, rng)[: 2 * count // 3]
    return chosen + [e for e in any_ones if e not in chosen][: count - len(chosen)]


def in_turns(elements: Sequence[Element], rng: random.Random) -> list[Element]:
    """In random order, the roles taking turns: a calendar has thirty days, but only one arrow."""
    seen: Counter[str] = Counter()
    turns = {}
    for element in rng.sample(elements, len(elements)):
        turns[element] = seen[element.role]
        seen[element.role] += 1
    return sorted(turns, key=turns.__getitem__)


def mistakable(screen: DescribedScreen, target: Element) -> bool:
    """Is there something else that shares a word with it, or looks like it?"""
    others = [e for e in screen.rivals if e is not target]
    if words := set(normal(target.name).split()):
        return any(words & set(normal(e.name).split()) for e in others)
    return sum(e.role == target.role for e in others) >= 2
