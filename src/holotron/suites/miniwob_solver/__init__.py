"""A scripted solver of MiniWoB++: the source of demonstrations.

It acts through the same pixel actions as everyone else. It may read the DOM to decide where, but only what is on the
screen counts: hidden content is looked for in order, lists are scrolled, values that were on an earlier screen are
remembered. So its decisions can be explained from the goal and the screenshots, and imitated from them.

    page.py, dump.js   what is on the page
    registry.py        @solves("task"), solve(name, goal, page, memory) -> Action
    moves.py           click, fill, check, scroll into view ...
    policy.py          the solver as a policy for agents and rollouts
    measure.py         python -m holotron.suites.miniwob_solver: the table in docs/miniwob-solver.md
    the rest           the tasks, by family
"""

from holotron.suites.miniwob_solver import (  # noqa: F401  (importing a family registers its tasks)
    choosing,
    clicking,
    dates,
    dragging,
    drawing,
    editing,
    games,
    mail,
    reading,
    shapes,
    shopping,
    sliding,
    social,
    typing_text,
    unfolding,
)
from holotron.suites.miniwob_solver.page import Page, parse_page, read_page
from holotron.suites.miniwob_solver.policy import SolverPolicy, SolverSession
from holotron.suites.miniwob_solver.registry import SOLVERS, Memory, solve, solver_for, solves

__all__ = [
    "SOLVERS",
    "Memory",
    "Page",
    "SolverPolicy",
    "SolverSession",
    "parse_page",
    "read_page",
    "solve",
    "solver_for",
    "solves",
]
