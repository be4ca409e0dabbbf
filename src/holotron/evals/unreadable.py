"""Replies of a run that held no action: how many, and one of them.

    found = unreadable(RunReader(Path("runs/eval")))
    found.replies, found.of, found.example, found.why

They are failures of the agent. But where there are many of them, the model speaks another language than the one it is
read in, and the score says nothing about what it can do.
"""

from __future__ import annotations

from dataclasses import dataclass

from holotron.quoting import one_line
from holotron.rollouts.store import RunReader


@dataclass(frozen=True, slots=True)
class Unreadable:
    replies: int
    of: int  # all replies
    example: str  # the first of them, and
    why: str  # what was wrong with it

    def __str__(self) -> str:
        hint = "; is another --dialect or --frame the model's own?" if 2 * self.replies > self.of else ""
        said = repr(self.example) if self.example else "an empty one"
        return f"{self.replies} of {self.of} replies could not be read, such as {said} ({self.why}){hint}"


def unreadable(run: RunReader) -> Unreadable | None:
    """None: every reply was read."""
    replies = of = 0
    example = why = ""
    for _, steps in run.rows():
        for step in steps:
            of += 1
            if step["reply_error"]:
                if not replies:
                    example, why = one_line(step["text"], 120), one_line(step["reply_error"], 200)
                replies += 1
    return Unreadable(replies, of, example, why) if replies else None
