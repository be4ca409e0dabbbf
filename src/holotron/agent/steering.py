"""A person's hand on one episode: what may be asked of it, and how far that has come.

    steering = Steering()
    episode = SteeredEpisode(environment, policy, task, steering=steering)      # see `steered`
    steering.give(Pause())                                  # from the same event loop, at any moment
    steering.give(Edit(step=3, action=Click(40, 20), reason="the other button"))

Paused, an agent still thinks, and stands still before it acts: what it is about to do can be looked at, let through
(`OneStep`), changed (`Edit`) or refused. A person who takes over acts in the agent's place, at once if it is thinking,
otherwise as soon as its action is done. What comes too late is refused with a sentence (`NotNow`), never done to
another step.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Literal

from holotron.errors import InputError
from holotron.types import Action

MOST_WAITING = 50  # actions of a person that have not been made yet


class NotNow(InputError):
    """The command does not fit the moment."""


@dataclass(frozen=True, slots=True)
class Pause:
    pass


@dataclass(frozen=True, slots=True)
class Resume:
    pass


@dataclass(frozen=True, slots=True)
class OneStep:
    """Let this one action through, and stay paused."""

    step: int


@dataclass(frozen=True, slots=True)
class Edit:
    """Do this instead."""

    step: int
    action: Action
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Refuse:
    step: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Instruct:
    """Something to add to the task; told with the next turn."""

    text: str


@dataclass(frozen=True, slots=True)
class TakeOver:
    pass


@dataclass(frozen=True, slots=True)
class Do:
    """What the person who has taken over does."""

    action: Action


@dataclass(frozen=True, slots=True)
class Look:
    """Show the screen as it is now, to the person who has taken over."""


@dataclass(frozen=True, slots=True)
class HandBack:
    text: str = ""  # a word to the agent


@dataclass(frozen=True, slots=True)
class Stop:
    pass


Command = Pause | Resume | OneStep | Edit | Refuse | Instruct | TakeOver | Do | Look | HandBack | Stop
Ruling = Edit | Refuse | Literal["go", "taken", "stop"]


class Steering:
    def __init__(self, *, paused: bool = False) -> None:
        self.paused = paused
        self.taken = False  # a person has control, or gets it in a moment
        self.stopping = False
        self.held: int | None = None  # the step before whose action the agent stands still
        self._ruling: OneStep | Edit | Refuse | None = None
        self._instructions: list[str] = []
        self._hands: deque[Do | Look | HandBack] = deque()
        self._changed = asyncio.Event()

    def give(self, command: Command) -> None:
        """Take a command, or say why not (`NotNow`)."""
        if self.stopping:
            raise NotNow("the episode is being stopped")
        match command:
            case Pause():
                self.paused = True
            case Resume():
                self.paused = False
            case OneStep() | Edit() | Refuse():
                if self.held != command.step or self._ruling is not None:
                    raise NotNow("the agent is not waiting before that step any more")
                self._ruling = command
            case Instruct():
                if not command.text.strip():
                    raise NotNow("the instruction is empty")
                self._instructions.append(command.text.strip())
            case TakeOver():
                if self.taken:
                    raise NotNow("a person has control already")
                self.taken = True
            case Do() | Look() | HandBack():
                self._by_hand(command)
            case Stop():
                self.stopping = True
        self._changed.set()

    def _by_hand(self, command: Do | Look | HandBack) -> None:
        if isinstance(command, Look) and (self._hands or not self.taken):
            return  # the screen is shown after every action anyway, and whoever has handed back need not be told
        if not self.taken:
            raise NotNow("take over first: the agent has control")
        if len(self._hands) >= MOST_WAITING:
            raise NotNow(f"{MOST_WAITING} actions are waiting to be made; let the page catch up")
        self._hands.append(command)

    # -------------------------------------------------------------------------------------------- for the episode

    async def interrupted(self) -> None:
        """Returns when the agent has to leave off thinking."""
        while not (self.taken or self.stopping):
            await self._next_change()

    async def ruling(self, step: int) -> Ruling:
        """What becomes of the action that the agent stands before; waits while it is paused."""
        self.held = step
        try:
            while True:
                if self.stopping:
                    return "stop"
                if (said := self._ruling) is not None:  # said before somebody took over, so it is done first
                    return said if isinstance(said, Edit | Refuse) else "go"
                if self.taken:
                    return "taken"
                if not self.paused:
                    return "go"
                await self._next_change()
        finally:
            self.held = self._ruling = None

    async def by_hand(self) -> Do | Look | HandBack | None:
        """The next thing that a person does; None: the episode is to be stopped."""
        while not self._hands and not self.stopping:
            await self._next_change()
        return None if self.stopping else self._hands.popleft()

    def handed_back(self) -> None:
        self.taken = False
        self._hands.clear()

    def instructions(self) -> list[str]:
        said, self._instructions = self._instructions, []
        return said

    async def _next_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()
