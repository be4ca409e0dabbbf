"""Guessing, searching and playing: what to do next depends on the answer to the last move."""

from __future__ import annotations

import re
from functools import cache

import numpy as np

from holotron.suites.miniwob_solver.moves import at, click, fill, first, press_submit
from holotron.suites.miniwob_solver.page import Page, Rect
from holotron.suites.miniwob_solver.registry import Memory, solves
from holotron.suites.miniwob_solver.words import parse
from holotron.types import Action, Click, Hover, Wait


@solves("generate-number")
def generate_number(goal: str, page: Page) -> Action:
    shown = page.get(id="display-number").text
    return press_submit(page, "Submit" if shown.isdigit() and _fits(int(shown), goal) else "Generate")


def _fits(number: int, goal: str) -> bool:
    if match := re.search(r"(less|greater) than (\d+)", goal):
        return number < int(match[2]) if match[1] == "less" else number > int(match[2])
    return number % 2 == (1 if "odd" in goal else 0)


@solves("odd-or-even")
def odd_or_even(goal: str, page: Page) -> Action:
    for row in page.all("div", css="row"):
        name = "Odd" if int(page.get(css="display-number", within=row).text) % 2 else "Even"
        button = page.get("button", text=name, within=row)
        if not button.has_class("selected"):
            return click(page, button)
    return press_submit(page)


# Halving without a memory: in a search tree every number has one place, so the last answer says where to go next.
NEXT_GUESS = {5: (2, 7), 2: (0, 3), 7: (6, 8)}


@solves("guess-number")
def guess_number(goal: str, page: Page) -> Action:
    hint = page.find(id="lower") or page.find(id="higher")
    guess = 5
    if hint is not None:
        guess = next_guess(int(parse(hint.text, r"than (-?\d+)")[0]), higher=hint.id == "higher")
    return first(fill(page, page.get("input"), str(guess)), press_submit(page))


def next_guess(last: int, *, higher: bool) -> int:
    return NEXT_GUESS.get(last, (last - 1, last + 1))[higher]


@solves("find-greatest")
def find_greatest(goal: str, page: Page, memory: Memory) -> Action:
    """One card shows at a time: turn each over, then go back to the greatest."""
    cards = page.all("div", css="card")
    seen = memory.setdefault("cards", {})
    for i, card in enumerate(cards):
        if not card.has_class("hidden"):
            seen[i] = int(card.text)
    for i, card in enumerate(cards):
        if i not in seen:
            return click(page, card, element="card")
    greatest = cards[max(seen, key=lambda i: seen[i])]
    return click(page, greatest, element="card") if greatest.has_class("hidden") else press_submit(page)


@solves("stock-market")
def buy_when_low(goal: str, page: Page) -> Action:
    """The price moves ten times a second, by 1.5 at most: the farther it is above the limit, the longer to wait."""
    limit = float(parse(goal, r"less than \$([\d.]+\d)")[0])
    shown = page.get(id="stock-price").text.removeprefix("$")
    price = float(shown) if shown else limit + 1
    if price <= limit:
        return click(page, page.get("button", id="buy"))
    return Wait(0.1 * max(1, min(10, int((price - limit) / 1.5))))


# ------------------------------------------------------------------------------------------------------- tic-tac-toe

LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))


@solves("tic-tac-toe")
def play_tic_tac_toe(goal: str, page: Page) -> Action:
    squares = [page.get(id=f"ttt-{i}") for i in range(9)]
    board = "".join("X" if s.has_class("mark-x") else "O" if s.has_class("mark-o") else " " for s in squares)
    return click(page, squares[best_square(board)], element="square")


def best_square(board: str) -> int:
    """The move that wins most often: the opponent plays at random 55 times in 100, else wins or blocks if it can."""
    free = [i for i in range(9) if board[i] == " "]
    if wins := _completes(board, "X", free):
        return wins[0]
    return max(free, key=lambda i: (round(_after_x(board, i), 9), i == 4, -i))


@cache
def _after_x(board: str, square: int) -> float:
    board = board[:square] + "X" + board[square + 1 :]
    if _won(board, "X"):
        return 1.0
    free = [i for i in range(9) if board[i] == " "]
    if not free:
        return 0.0  # a draw is not a win
    reply = _completes(board, "O", free) or _completes(board, "X", free)
    clever = [reply[0]] if reply else free
    return 0.55 * _mean_after_o(board, free) + 0.45 * _mean_after_o(board, clever)


def _mean_after_o(board: str, squares: list[int]) -> float:
    total = 0.0
    for o in squares:
        after = board[:o] + "O" + board[o + 1 :]
        free = [i for i in range(9) if after[i] == " "]
        if not _won(after, "O") and free:
            total += max(_after_x(after, i) for i in free)
    return total / len(squares)


def _completes(board: str, player: str, free: list[int]) -> list[int]:
    return [i for i in free if _won(board[:i] + player + board[i + 1 :], player)]


def _won(board: str, player: str) -> bool:
    return any(all(board[i] == player for i in line) for line in LINES)


# ---------------------------------------------------------------------------------------------------------- hot-cold

MOUSE = """(box) => {
  if (!('mouseWatch' in window)) {
    window.mouseWatch = null;
    document.addEventListener('mousemove', (e) => { window.mouseWatch = new DOMRect(e.clientX, e.clientY); }, true);
  }
  return window.mouseWatch && box(window.mouseWatch).slice(0, 2);
}"""
RINGS = {"HOT": (0, 5), "WARM": (5, 10), "COLD": (10, 40), "ICE COLD": (40, 1000)}


@solves("hot-cold", question=MOUSE)
def find_hot_spot(goal: str, page: Page, memory: Memory) -> Action:
    """Every signal leaves a ring in which the spot can be; hover where the next signal tells most."""
    signal = page.find(id="signal")
    heard = memory.setdefault("heard", [])
    plane = page.get(id="touch-area").rect
    if signal is not None and page.answer is not None:
        x, y = page.answer
        if signal.text == "HOT":
            return Click(x, y, element="the hot spot")
        if plane.contains(Rect(x, y, 0, 0)) and (x, y, signal.text) not in heard:
            heard.append((x, y, signal.text))
    return Hover(*next_probe(plane, heard))


def next_probe(plane: Rect, heard: list[tuple[float, float, str]]) -> tuple[float, float]:
    """The point whose signal leaves the fewest places for the hot spot, given the signals heard so far."""
    x, y = _grid(plane, 1)
    possible = np.ones(len(x), bool)
    for px, py, signal in heard:
        near, far = RINGS[signal]
        distance = np.hypot(x - px, y - py)
        possible &= (distance >= near) & (distance < far)
    x, y = x[possible], y[possible]
    if not len(x):
        return at(plane.centre)
    thin = 1 + len(x) // 400  # a few hundred places stand for them all
    x, y = x[::thin], y[::thin]
    probes_x, probes_y = (np.concatenate(pair) for pair in zip(_grid(plane, 6), (x, y), strict=True))
    # Expected number of places left after each probe: the sum of squares of the ring counts (HOT leaves none).
    distance = np.hypot(probes_x[:, None] - x[None], probes_y[:, None] - y[None])
    rings = [(distance >= near) & (distance < far) for name, (near, far) in RINGS.items() if name != "HOT"]
    left = sum(ring.sum(1).astype(float) ** 2 for ring in rings)
    best = int(np.argmin(left))
    return at((float(probes_x[best]), float(probes_y[best])))


def _grid(plane: Rect, step: int) -> tuple[np.ndarray, np.ndarray]:
    across, down = np.arange(plane.x + 2, plane.right, step), np.arange(plane.y + 2, plane.bottom, step)
    x, y = np.meshgrid(across, down)
    return x.ravel(), y.ravel()
