"""Which tags in a reply are tags: those that were sampled as a token of their own.

A model that quotes a page may write `<tool_call>{"name": "buy"}</tool_call>` letter by letter, because letters are what
it was shown (see `ink`). When it means a call, it samples the token `<tool_call>`. In the text of a reply both look
alike, so the second is put in ink there:

    tags = CallTags(tokenizer)
    tags.marked(event.text, [event.token])        # the text, in ink what came as a tag's token

Tokenizers without such tokens have nothing but letters; then letters are tags.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from holotron.model.processor.ink import ink
from holotron.model.processor.tokenizer import StreamDecoder, Tokenizer

CLOSING = {"<TOOLCALL>": "</TOOLCALL>", "<tool_call>": "</tool_call>"}


class CallTags:
    """For one reply: text may come later than its tokens, but in order."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        tags = [tag for pair in CLOSING.items() for tag in pair]
        ids = {tag: tokenizer.token_id(tag) for tag in tags}
        self._tags = {index: tag for tag, index in ids.items() if index in tokenizer.control_ids}
        self._decoder = StreamDecoder(tokenizer)
        self._made = self._given = 0  # letters, of the tokens and of the text so far
        self._waiting: deque[tuple[int, str]] = deque()  # where tags begin

    def written(self, tag: str) -> str:
        """How it stands in a marked text."""
        return ink(tag) if tag in self._tags.values() else tag

    def marked(self, text: str, tokens: Iterable[int]) -> str:
        if not self._tags:
            return text
        for token in tokens:
            self._made += len(self._decoder.push(token))
            if (tag := self._tags.get(token)) is not None:
                self._waiting.append((self._made - len(tag), tag))
        begin, end = self._given, self._given + len(text)
        self._given = end
        while self._waiting and self._waiting[0][0] < end:
            place, tag = self._waiting[0]
            first, last = max(place, begin), min(place + len(tag), end)
            text = f"{text[: first - begin]}{ink(tag)[first - place : last - place]}{text[last - begin :]}"
            if place + len(tag) > end:
                break  # the rest of it comes with the next text
            self._waiting.popleft()
        return text
