"""Localisation: one look, one instruction, one click. Is it inside the element's box?

    result = await evaluate_localisation(policy, Path("data/heldout"))
    result.overall.rate, result.hash

Asked of any policy, as the first turn of an episode. An answer that is no click is a miss. The set's hash goes with the
figures, so that they can be compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from holotron.agent.policies.base import Policy
from holotron.data.labels import Page, contains
from holotron.data.labels import Sample as Question
from holotron.data.shards import content_hash, iter_pages
from holotron.errors import InputError, PolicyError
from holotron.evals.looking import first_action, observation_of
from holotron.evals.statistics import wilson
from holotron.types import Click, Task


@dataclass(frozen=True, slots=True)
class Hits:
    hits: int
    asked: int

    @property
    def rate(self) -> float:
        return self.hits / max(self.asked, 1)

    @property
    def interval(self) -> tuple[float, float]:
        return wilson(self.hits, self.asked)


@dataclass(frozen=True, slots=True)
class Localisation:
    overall: Hits
    by: dict[str, Hits]  # how the element was described: text, icon, colour, order ...
    errors: int  # questions that the policy could not take; they count as misses
    hash: str

    def to_json(self) -> dict[str, Any]:
        low, high = self.overall.interval
        return {**asdict(self), "accuracy": self.overall.rate, "low": low, "high": high}


async def evaluate_localisation(
    policy: Policy,
    folder: Path,
    *,
    sessions: int = 8,
    most: int | None = None,
    on_progress: Callable[[int, int], None] = lambda asked, hits: None,
) -> Localisation:
    """Ask every click of the set (or the first `most`), `sessions` at a time."""
    questions = ((page, q) for page in iter_pages(folder) for q in page.samples if q.kind in ("click", "find"))
    marks: list[tuple[str, bool]] = []
    errors = 0

    async def work() -> None:
        nonlocal errors
        for page, question in questions:  # shared: each takes the next
            if most is not None and len(marks) >= most:
                return
            place = len(marks)
            marks.append((question.by, False))
            try:
                marks[place] = (question.by, await _ask(policy, page, question))
            except PolicyError:
                errors += 1
            on_progress(len(marks), sum(hit for _, hit in marks))

    await asyncio.gather(*(work() for _ in range(sessions)))
    if not marks:
        raise InputError(f"{folder} asks for no clicks")
    by = {kind: _count([m for m in marks if m[0] == kind]) for kind in sorted({kind for kind, _ in marks})}
    return Localisation(_count(marks), by, errors, content_hash(folder))


async def _ask(policy: Policy, page: Page, question: Question) -> bool:
    height, width = page.image.shape[:2]
    viewport = (round(width / page.scale), round(height / page.scale))
    observation = await observation_of(Image.fromarray(page.image), viewport)
    action = await first_action(policy, Task("localisation", page.id, goal=question.instruction), observation)
    assert question.box is not None
    return isinstance(action, Click) and contains(question.box, action.x, action.y)


def _count(marks: list[tuple[str, bool]]) -> Hits:
    return Hits(sum(hit for _, hit in marks), len(marks))
