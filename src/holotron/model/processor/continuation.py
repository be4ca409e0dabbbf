"""What comes next in a conversation: the one place where messages become the tokens of a session.

    said = Transcript()                                   # nothing yet
    prompt = said.next(processor, messages)               # the first turn: rendered whole
    said = said.asked(prompt).replied(tokens)             # with the tokens the model sampled
    prompt = said.next(processor, new_messages)           # every later turn: bridged onto the log, history untouched

The server, the agent and the trainer all come through here. So the stream a model is trained on (`replay`) is the
stream it is served with, token for token:

    render(goal, screenshot)  reply <end>  bridge(screenshot)  reply <end>  ...
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any, NamedTuple

from holotron.errors import ConfigError, InputError
from holotron.model.processor.deltas import Deltas
from holotron.model.processor.ink import check_unicode
from holotron.model.processor.processor import Processor, Prompt
from holotron.model.processor.reply import inked_reply
from holotron.model.processor.template import ChatTemplate

Message = Mapping[str, Any]

TAIL = 32  # tokens of a reply's end that the next turn may depend on: has the reply closed itself, and how far?
_PROBE: Sequence[Message] = ({"role": "user", "content": ""},)


@dataclass(frozen=True, slots=True)
class Transcript:
    """A conversation in a session's log, as far as its next turn depends on it. A value: a turn makes a new one, so a
    turn that fails leaves the old one as it was, and forks share it."""

    begun: bool = False  # something was said: the log ends in a reply
    tail: tuple[int, ...] = ()  # the last tokens of that reply
    deltas: Deltas | None = None  # to tell screenshots as changes to the one before; None: show all whole

    def next(
        self,
        processor: Processor,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] | None = None,
        thinking: bool = False,
        **variables: Any,
    ) -> Prompt:
        """What to append to the log for these new messages. `tools`, `thinking` and further keywords: see
        `Processor.render`."""
        if self.begun:
            return processor.bridge(messages, self.tail, tools, thinking, deltas=self.deltas, **variables)
        return processor.render(messages, tools, thinking, deltas=self.deltas, **variables)

    def asked(self, prompt: Prompt) -> Transcript:
        """When this prompt was appended."""
        return replace(self, deltas=self.deltas.after(prompt)) if self.deltas is not None else self

    def replied(self, reply: Sequence[int]) -> Transcript:
        """When the model then replied with these tokens."""
        return replace(self, begun=True, tail=tuple(reply[-TAIL:]))


# Names that a template's variables may not have: every parameter of the functions that hand them on.
_THROUGH = (Transcript.next, Processor.render, Processor.bridge, ChatTemplate.render)
RESERVED = {name for function in _THROUGH for name in signature(function).parameters} - {"thinking", "variables"}


class Exchange(NamedTuple):
    """One turn of a conversation as a session's log holds it."""

    prompt: Prompt
    reply: list[int]  # with the token that ends it
    message: int  # which message the reply is


def replay(processor: Processor, messages: Sequence[Message], deltas: Deltas | None = None) -> Iterator[Exchange]:
    """A recorded conversation, turn by turn, as a session would have held it whose model gave these replies."""
    said, asked = Transcript(deltas=deltas), list[Message]()
    for number, message in enumerate(messages):
        if message.get("role") != "assistant":
            asked.append(message)
            continue
        turn = Exchange(said.next(processor, asked), reply_tokens(processor, message), number)
        said, asked = said.asked(turn.prompt).replied(turn.reply), []
        yield turn


def reply_tokens(processor: Processor, message: Message) -> list[int]:
    """What the model itself would have written for this reply, to the end of its turn. Tags of reasoning and calls are
    tokens where a reader of replies takes them for such; quoted ones, and all other control tokens, are letters."""
    if message.get("tool_calls"):
        raise InputError("replies with native tool calls cannot be learnt yet; export in a dialect that writes text")
    content = message.get("content") or ""
    text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
    tokenizer, end = processor.tokenizer, processor.end_of_turn
    if end is None:
        raise ConfigError("neither the chat template nor the tokenizer says which token ends a reply")
    check_unicode(text)
    return [*tokenizer.encode_inked(inked_reply(text)), end]


def seam(processor: Processor, before: Transcript, left: Transcript) -> tuple[list[int], int]:
    """A turn that followed `left` is to follow `before` instead, because what was between is forgotten. Two replies may
    have ended differently (by their end token, or cut off): which tokens to insert before that turn, and how many of
    its own to leave out. Both bridges end alike, and differ only in how much of a reply's closing was left to write."""
    wanted, there = (processor.bridge(_PROBE, said.tail).ids for said in (before, left))
    extra = len(wanted) - len(there)
    return wanted[: max(0, extra)], max(0, -extra)
