"""What the solver cannot do, or not always, and why. The measured figures are in docs/miniwob-solver.md."""

UNSOLVED = {
    "draw-circle": "needs a round stroke, and a drag is a straight one",
}

SAME_NAME = "in some seeds two messages are from the same sender, and nothing says which one is meant"

SOMETIMES = {
    "click-pie-nodelay": "the last slice pulls itself from under the pointer, and Chromium gives the press to what is "
    "behind it: no mouse action selects it",
    "email-inbox": SAME_NAME,
    "email-inbox-forward": SAME_NAME,
    "email-inbox-noscroll": SAME_NAME,
    "tic-tac-toe": "the best play wins 97 times in 100 when it moves first and 73 when it moves second; a draw is lost",
}
