"""Conversations to tokens, exactly as a session of the engine would have seen them.

The tokens come from `processor.continuation`, where the server and the agent get theirs, so training and serving share
one stream. Of it, the replies are learnt:

    render(goal, screenshot)  reply <end>  bridge(screenshot)  reply <end>  ...
                              learnt                           learnt

With `deltas`, screenshots are told as changes to the one before, as a session does it for a policy that asks for that.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import torch

from holotron.errors import InputError
from holotron.model.processor import Deltas, ImageConfig, Processor, PromptImage, TiledImage
from holotron.model.processor.continuation import Message, replay
from holotron.training.samples import Sample, TokenSequence, joined, rows_shown, tile_numbers, without_unseen
from holotron.training.sparse import condensed


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
    ids: list[int] = []
    learnt: list[bool] = []
    images: list[PromptImage] = []
    prompt_length = 0
    for prompt, reply, number in replay(processor, messages, deltas):
        prompt_length = prompt_length or len(prompt.ids)
        ids += [*prompt.ids, *reply]
        learnt += [False] * len(prompt.ids) + [learn is None or number in learn] * len(reply)
        images += prompt.images
    shown, numbers = rows_shown(images), tile_numbers(images)
    sequence = TokenSequence(np.asarray(ids, np.int32), np.asarray(learnt), shown, numbers, prompt=prompt_length)
    return sequence, images


def alone(processor: Processor, picture: TiledImage) -> TokenSequence:
    """A picture of which nothing is asked."""
    prompt = processor.encode_image(picture)
    ids = np.asarray(prompt.ids, np.int32)
    return TokenSequence(ids, np.zeros(len(ids), bool), rows_shown(prompt.images), prompt=len(ids))


def conversation_sample(
    processor: Processor,
    messages: Sequence[Message],
    learn: Collection[int] | None = None,
    deltas: Deltas | None = None,
) -> Sample:
    sequence, images = conversation(processor, messages, learn, deltas)
    empty = torch.empty((0, 3, 0, 0), dtype=torch.uint8)
    tiles, sizes = joined([image.tiles for image in images] or [empty])
    return as_read(Sample(tiles, (sequence,), sizes=sizes), processor.images, processor.tokenizer.image_id)


def as_read(sample: Sample, image: ImageConfig | None, image_token: int | None) -> Sample:
    """What nobody looks at left out: of sparse pictures all but the groups that are read, else whole tiles."""
    if image is None or not image.sparse:
        return without_unseen(sample)
    assert image_token is not None, "a model that sees has a token for it"
    return condensed(sample, image, image_token)
