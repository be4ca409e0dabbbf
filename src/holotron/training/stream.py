"""Conversations to tokens, exactly as a session of the engine would have seen them.

The first turn is rendered, every later one is bridged onto the log, replies are the tokens a model writes and the token
that ends its turn. That is how `agent.policies.engine` talks to the engine, so training and serving share one stream:

    render(goal, screenshot)  reply <end>  bridge(screenshot)  reply <end>  ...
                              learnt                           learnt

With `deltas`, screenshots are told as changes to the one before, as a session does it for a policy that asks for that.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from holotron.errors import ConfigError, InputError
from holotron.model.processor import Deltas, Processor, PromptImage
from holotron.training.samples import Sample, TokenSequence, rows_shown, tile_numbers, without_unseen

Message = Mapping[str, Any]


def conversation(
    processor: Processor,
    messages: Sequence[Message],
    learn: Collection[int] | None = None,
    deltas: Deltas | None = None,
) -> tuple[TokenSequence, list[PromptImage]]:
    """A conversation that ends in a reply, as one sequence and the pictures it looks at. `learn` are the messages to
    learn from; by default all replies. Image parts carry their pixels or tiles, as for `Processor.render`."""
    if not messages or messages[-1].get("role") != "assistant":
        raise InputError("a conversation to learn from must end with a reply")
    end = end_of_turn(processor)
    ids: list[int] = []
    learnt: list[bool] = []
    images: list[PromptImage] = []
    asked: list[Message] = []
    prompt_length = 0
    for number, message in enumerate(messages):
        if message.get("role") != "assistant":
            asked.append(message)
            continue
        prompt = processor.bridge(asked, after=ids, deltas=deltas) if ids else processor.render(asked, deltas=deltas)
        deltas = deltas.after(prompt) if deltas is not None else None
        prompt_length = prompt_length or len(prompt.ids)
        reply = [*reply_tokens(processor, message), end]
        ids += [*prompt.ids, *reply]
        learnt += [False] * len(prompt.ids) + [learn is None or number in learn] * len(reply)
        images += prompt.images
        asked = []
    shown, numbers = rows_shown(images), tile_numbers(images)
    sequence = TokenSequence(np.asarray(ids, np.int32), np.asarray(learnt), shown, numbers, prompt=prompt_length)
    return sequence, images


def reply_tokens(processor: Processor, message: Message) -> list[int]:
    """What the model itself should have written."""
    if message.get("tool_calls"):
        raise InputError("replies with native tool calls cannot be learnt yet; export in a dialect that writes text")
    content = message.get("content") or ""
    text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
    tokenizer = processor.tokenizer
    return tokenizer.encode(tokenizer.reply_shield(text))


@lru_cache(maxsize=8)
def end_of_turn(processor: Processor) -> int:
    """The token that ends a reply, as the chat template has it."""
    after = processor.bridge([{"role": "user", "content": ""}], after=[])
    for index in after.ids:
        if index in processor.tokenizer.eos_ids:
            return index
    raise ConfigError("the chat template ends replies with none of the tokenizer's end tokens")


def conversation_sample(
    processor: Processor,
    messages: Sequence[Message],
    learn: Collection[int] | None = None,
    deltas: Deltas | None = None,
) -> Sample:
    sequence, images = conversation(processor, messages, learn, deltas)
    empty = torch.empty((0, 3, 0, 0), dtype=torch.uint8)
    tiles = torch.cat([image.tiles for image in images]) if images else empty
    return without_unseen(Sample(tiles, (sequence,)))
