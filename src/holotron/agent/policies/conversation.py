"""A model as a policy: dialect + history + something that completes chats.

`Conversation` is the session of every model-backed policy, remote or in-process. Each turn it adds what is seen,
lets the history policy select, lets the dialect write the request, and hands it to a `Chat`. A chat sees whole
requests; one that holds a session with its server finds out by comparison what is new (`new_messages`) and sends only
that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from holotron.agent.dialects.base import Dialect, Output
from holotron.agent.history import History, Turn
from holotron.agent.messages import Message
from holotron.types import Completion, Observation, Reply, Task


class Chat(Protocol):
    """One conversation with a model."""

    async def complete(self, messages: Sequence[Message], output: Output) -> Completion: ...

    async def close(self) -> None: ...


class Conversation:
    def __init__(self, task: Task, dialect: Dialect, history: History, chat: Chat) -> None:
        self._task = task
        self._dialect = dialect
        self._history = history
        self._chat = chat
        self._turns: list[Turn] = []
        self._instruction = ""

    def instruct(self, text: str) -> None:
        self._instruction = "\n".join(filter(None, (self._instruction, text)))

    async def act(self, observation: Observation, *, feedback: str = "", must_answer: bool = False) -> Reply:
        turn = await asyncio.to_thread(self._see, observation, feedback, must_answer)
        view = self._history.view([*self._turns, turn])
        messages = self._dialect.messages(self._task, view)
        completion = await self._chat.complete(messages, self._dialect.output(must_answer=must_answer))
        self._instruction = ""  # said; a request that is broken off is made again with it
        reply = self._dialect.parse(completion, turn.screen, must_answer=must_answer)
        self._turns.append(replace(turn, reply=reply, said=reply.completion.text))
        return reply

    def _see(self, observation: Observation, feedback: str, must_answer: bool) -> Turn:
        image, screen = self._dialect.look(observation)
        seen = bool(self._turns) and self._turns[-1].observation is observation
        shown = None if seen else image
        return Turn(
            len(self._turns), observation, shown, screen, feedback, must_answer, instruction=self._instruction
        )  # fmt: skip

    async def close(self) -> None:
        await self._chat.close()


def new_messages(known: Sequence[Message], messages: Sequence[Message]) -> Sequence[Message] | None:
    """What a session that holds `known` and its own reply to that has not seen of `messages`; None if the history was
    rewritten, so that the session cannot be continued."""
    own = len(known)  # where the session's reply stands; it holds the very tokens that were sampled
    if list(messages[:own]) != list(known) or len(messages) < own + 2 or messages[own].role != "assistant":
        return None
    return messages[own + 1 :]
