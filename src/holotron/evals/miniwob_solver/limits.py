"""What the solver cannot do, or not always, and why. Measured figures are in docs/miniwob-solver.md."""

UNSOLVED = {
    "draw-circle": "needs a round stroke; a drag is a straight one",
}

SOMETIMES = {
    "click-pie-nodelay": "the last slice pulls itself from under the pointer, and Chromium gives the press to what lies "
    "behind it: no mouse action selects it",
    "tic-tac-toe": "the best play wins about 85 times in 100 against this opponent (97 moving first, 73 moving second), "
    "and a draw counts as lost",
}
