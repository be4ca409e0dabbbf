"""Which function solves which task.

A solver is a function of the goal and the page as it is now; it returns the next action. It does not ask how the
page came to be like that, so it labels states that a learner reached just as well as its own.

    @solves("click-button")
    def click_button(goal: str, page: Page) -> Action: ...

Where one screen is not enough (the greatest of three cards that are shown one at a time) the function takes a third
argument, `memory`: a dict, empty at the start of the episode, filled from what the pages showed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from holotron.errors import InputError, PolicyError
from holotron.suites.miniwob_solver.page import Page
from holotron.types import Action

Memory = dict[str, Any]
F = TypeVar("F", bound=Callable[..., Action])


@dataclass(frozen=True, slots=True)
class TaskSolver:
    """How one task is solved. `question` is asked together with the dump; its answer is `page.answer`."""

    act: Callable[..., Action]
    question: str
    remembers: bool


SOLVERS: dict[str, TaskSolver] = {}


def solves(*names: str, question: str = "null") -> Callable[[F], F]:
    """Registers a function for these tasks.

    `question` is JavaScript: a function that returns whatever the task needs beside the dump (boxes of words, a
    variable of the page, pixels of a canvas). It gets `box`, which turns a DOM rectangle into page coordinates.
    """

    def register(function: F) -> F:
        remembers = len(inspect.signature(function).parameters) == 3
        for name in names:
            if name in SOLVERS:
                raise ValueError(f"two solvers for {name}")
            SOLVERS[name] = TaskSolver(function, question, remembers)
        return function

    return register


def solver_for(name: str) -> TaskSolver:
    if name not in SOLVERS:
        raise InputError(f"no scripted solver for the MiniWoB++ task {name!r}; docs/miniwob-solver.md lists them")
    return SOLVERS[name]


def solve(name: str, goal: str, page: Page, memory: Memory) -> Action:
    """The next action for this state. Deterministic; `memory` is updated in place and lives for one episode.

    `PolicyError` when the page is in a state the solver has no answer to.
    """
    solver = solver_for(name)
    try:
        return solver.act(goal, page, memory) if solver.remembers else solver.act(goal, page)
    except (LookupError, StopIteration) as error:
        raise PolicyError(f"the scripted solver is at a loss in {name}: {error}") from error
