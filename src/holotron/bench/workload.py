"""What an agent does to its model, as numbers: every step shows a screenshot and some text and gets a short reply.

The default is **agent-100**: 100 sessions at once share a system prompt of 1,024 tokens; each of 6 steps appends 2,304
screenshot tokens and 96 of text and generates 128; a session's next step starts when its last one ended. Tokens are
random, and the same for the same seed.

What is sent depends on the *history*:

    append   everything stays; a step adds its own tokens                     (a session's natural use)
    window   each step sends anew: all texts, but only the last k screenshots (what most agents do today)
    epoch    append for n steps, then start over from a summary and the last k steps

Of later screenshots a share may be as it was (`unchanged`). With screenshot deltas only the rest is sent, with an
address for every 64 tokens of the screen: that is how changes were scattered on recorded episodes (see
docs/screenshot-deltas.md). With real pictures (`screens`) it is the left part that stays, and the processor that cuts
them.

Late steps of long sessions can be measured without the early ones: `begun` steps are taken to have been made when the
clock starts. What sessions remember of them is made up (see `made_up`), which changes nothing about how long it takes.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from holotron.errors import ConfigError

History = Literal["append", "window", "epoch"]
RUN = 64  # tokens of a screen for each run of changes
ADDRESS = 3  # tokens before each run


@dataclass(frozen=True)
class Workload:
    sessions: int = 100
    steps: int = 6  # per session while the clock runs
    system_tokens: int = 1024
    screenshot_tokens: int = 2304
    text_tokens: int = 96
    generate_tokens: int = 128
    history: History = "append"
    window: int = 3  # screenshots kept (window), steps kept when starting over (epoch)
    epoch_steps: int = 12
    summary_tokens: int = 256  # an epoch starts with one
    picture: tuple[int, int] | None = None  # a real screenshot of this size per step, in place of screenshot tokens
    unchanged: float = 0.0  # share of every later screenshot that is as before
    deltas: bool = False  # send only what has changed
    begun: int = 0  # steps before those
    temperature: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.unchanged <= 1:
            raise ConfigError(f"the unchanged share of a screenshot is between 0 and 1, not {self.unchanged}")
        if self.deltas and self.history != "append":
            raise ConfigError("screenshot deltas are measured with the history append")
        if self.begun and (self.history == "epoch" or self.picture):
            raise ConfigError("steps can be skipped with the histories append and window, without pictures")

    @property
    def step_tokens(self) -> int:
        return self.screenshot_tokens + self.text_tokens

    def shown_tokens(self, step: int) -> int:
        """Screenshot tokens of a step. Whole, if telling the changes would not be shorter."""
        if not self.deltas or step == 0:
            return self.screenshot_tokens
        kept = round(self.screenshot_tokens * (1 - self.unchanged))
        runs = min(kept, -(-self.screenshot_tokens // RUN))
        return min(self.screenshot_tokens, 1 + kept + ADDRESS * runs)

    def context_after(self, steps: int) -> int:
        """Tokens of a session that keeps everything, after so many steps."""
        turn = self.text_tokens + self.generate_tokens
        shown = self.screenshot_tokens * steps if self.picture else sum(map(self.shown_tokens, range(steps)))
        return self.system_tokens + steps * turn + shown

    @property
    def longest_context(self) -> int:
        """The most tokens a session ever has."""
        turn = self.step_tokens + self.generate_tokens
        all_steps = self.begun + self.steps
        if self.history == "append":
            return self.context_after(all_steps)
        if self.history == "window":
            dropped = max(0, all_steps - self.window) * self.screenshot_tokens
            return self.system_tokens + all_steps * turn - dropped
        started_over = self.summary_tokens + self.window * turn if self.steps > self.epoch_steps else 0
        return self.system_tokens + started_over + min(self.steps, self.epoch_steps) * turn

    def ideal_computed(self) -> int:
        """Prompt tokens of one session that a perfect memory computes: those after the first that differs from what was
        sent and said before, whose last token nobody has read yet."""
        if self.history == "epoch" or self.deltas:
            raise ConfigError("the ideal is known for the histories append and window")
        known: list[tuple[str, int, int]] = [("system", 0, self.system_tokens)]
        computed = 0
        for step in range(self.begun + self.steps):
            now = self._pieces(step)
            same = 0
            for (*what, length), (*other, there) in zip(now, known, strict=False):
                if what != other:
                    break
                same += min(length, there)
            if step >= self.begun:
                computed += sum(length for *_, length in now) - same
            known = [*now, ("reply", step, self.generate_tokens - 1)]
        return computed

    def _pieces(self, step: int) -> list[tuple[str, int, int]]:
        """What the prompt of a step is made of: kind, step, tokens."""
        pieces = [("system", 0, self.system_tokens)]
        for n in range(step + 1):
            if self.history == "append" or n > step - self.window:
                pieces.append(("screenshot", n, self.screenshot_tokens))
            pieces.append(("text", n, self.text_tokens))
            if n < step:
                pieces.append(("reply", n, self.generate_tokens))
        return pieces

    def ideal_cached_share(self) -> float:
        """Of all prompt tokens, those that need not be computed again: what a perfect cache would find."""
        prompt = computed = 0
        before = self.context_after(self.begun)
        for step in range(self.begun, self.begun + self.steps):
            context = before + self.shown_tokens(step) + self.text_tokens
            prompt += context
            computed += context - before
            before = context + self.generate_tokens
        return 1 - computed / prompt if self.history == "append" and prompt else float("nan")


@dataclass(frozen=True)
class Sent:
    """What one step sends: tokens after what the session has, or (`anew`) after the system prompt."""

    tokens: list[int]
    anew: bool
    shown: tuple[tuple[int, int, int], ...] = ()  # screenshots among them, of a window: step, first token and length


@dataclass
class Agent:
    """One session's side of the workload."""

    workload: Workload
    number: int
    vocabulary: range  # token ids to draw from
    steps: list[tuple[list[int], list[int]]] = field(default_factory=list)  # screenshot and text of each
    replies: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for _ in range(self.workload.begun):
            self.next()
            self.replied(self._some(random.Random(f"{self.number}/{len(self.replies)}"), self.workload.generate_tokens))

    def said(self) -> list[int]:
        """All that was sent and replied so far, if everything is kept."""
        return [token for turn in self._turns(0, len(self.replies)) for token in turn]

    def next(self) -> Sent:
        w, step = self.workload, len(self.steps)
        draw = random.Random(f"{w.seed}/{self.number}/{step}")
        self.steps.append((self._some(draw, w.shown_tokens(step)), self._some(draw, w.text_tokens)))
        screenshot, text = self.steps[-1]
        if w.history == "window":
            return self._windowed()
        if w.history == "epoch" and step > 0 and step % w.epoch_steps == 0:
            summary = self._some(random.Random(f"{w.seed}/{self.number}/summary/{step}"), w.summary_tokens)
            kept = [token for turn in self._turns(step - w.window, step) for token in turn]
            return Sent([*summary, *kept, *screenshot, *text], anew=True)
        return Sent([*screenshot, *text], anew=False)

    def replied(self, tokens: Sequence[int]) -> None:
        self.replies.append(list(tokens))

    def _turns(self, start: int, end: int) -> list[list[int]]:
        """Whole past steps, with their replies."""
        numbers = range(max(0, start), end)
        return [[*self.steps[n][0], *self.steps[n][1], *self.replies[n]] for n in numbers]

    def _windowed(self) -> Sent:
        tokens: list[int] = []
        shown: list[tuple[int, int, int]] = []
        for n, (screenshot, text) in enumerate(self.steps):
            if n > len(self.steps) - 1 - self.workload.window:
                shown.append((n, len(tokens), len(screenshot)))
                tokens += screenshot
            tokens += text
            tokens += self.replies[n] if n < len(self.replies) else []
        return Sent(tokens, anew=len(self.steps) > 1, shown=tuple(shown))

    def _some(self, draw: random.Random, count: int) -> list[int]:
        return draw.choices(self.vocabulary, k=count)


def system_prompt(workload: Workload, vocabulary: range) -> list[int]:
    return random.Random(f"{workload.seed}/system").choices(vocabulary, k=workload.system_tokens)
