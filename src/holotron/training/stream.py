"""Conversations to tokens, exactly as a session of the engine would have seen them.

The first turn is rendered, every later one is bridged onto the log, replies are the tokens a model writes and the token
that ends its turn. That is how `agent.policies.engine` talks to the engine, so training and serving share one stream:

    render(goal, screenshot)  reply <end>  bridge(screenshot)  reply <end>  ...
                              learnt                           learnt
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from holotron.errors import ConfigError, InputError
from holotron.model.processor import Processor, PromptImage, tile_count
from holotron.training.samples import Sample, TokenSequence

Message = Mapping[str, Any]


def conversation(
    processor: Processor, messages: Sequence[Message], learn: Collection[int] | None = None
) -> tuple[TokenSequence, Tensor]:
    """A conversation that ends in a reply, as one sequence and the tiles it looks at. `learn` are the messages to learn
    from; by default all replies. Image parts carry their pixels, as for `Processor.render`."""
    if not messages or messages[-1].get("role") != "assistant":
        raise InputError("a conversation to learn from must end with a reply")
    end = end_of_turn(processor)
    ids: list[int] = []
    learnt: list[bool] = []
    tiles: list[Tensor] = []
    asked: list[Message] = []
    prompt_length = 0
    for number, message in enumerate(messages):
        if message.get("role") != "assistant":
            asked.append(message)
            continue
        prompt = processor.bridge(asked, after=ids) if ids else processor.render(asked)
        prompt_length = prompt_length or len(prompt.ids)
        reply = [*reply_tokens(processor, message), end]
        ids += [*prompt.ids, *reply]
        learnt += [False] * len(prompt.ids) + [learn is None or number in learn] * len(reply)
        tiles += [image.tiles for image in prompt.images]
        asked = []
    pictures = torch.cat(tiles) if tiles else torch.empty((0, 3, 0, 0), dtype=torch.uint8)
    sequence = TokenSequence(
        np.asarray(ids, np.int32), np.asarray(learnt), tuple(range(len(pictures))), prompt=prompt_length
    )
    return sequence, pictures


class CountingProcessor(Processor):
    """Writes prompts about a picture that is tiled already: it is counted, not cut and hashed again."""

    def __init__(self, processor: Processor) -> None:
        super().__init__(
            processor.tokenizer,
            processor.template,
            processor.images,
            limits=processor.limits,
            image_limits=processor.image_limits,
        )

    def _image(self, pixels: np.ndarray, start: int) -> PromptImage:
        height, width = pixels.shape[:2]
        count = tile_count(width, height, self._eyes())
        return PromptImage(start, count * self._eyes().tokens_per_tile, torch.empty(count, 0), ())


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
    processor: Processor, messages: Sequence[Message], learn: Collection[int] | None = None
) -> Sample:
    sequence, tiles = conversation(processor, messages, learn)
    return Sample(tiles, (sequence,))
