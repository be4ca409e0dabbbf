"""Text to token ids and back: a thin layer over `tokenizers`, with what an engine needs on top.

Three things are added to the library. *Bytes of a token*: every token of this family is a byte string
(byte-level BPE), and grammars and streaming both think in bytes. *Streaming*: a character may be spread
over several tokens, so `StreamDecoder` holds incomplete UTF-8 back until it is whole; what it has given out
is never taken back, and the sum equals decoding everything at once. *Shielding*: `<img>` in a page's text
must not become the control token `<img>`, see `Shield`.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import tokenizers

from holotron.errors import CheckpointError, ConfigError, InputError

# Markup that a reply may contain. Some checkpoints flag it as special; it has to survive decoding all the
# same, because `reply` reads it, and it is legitimate in the text of an assistant's message.
REPLY_MARKUP = frozenset(
    ["<think>", "</think>", "<TOOLCALL>", "</TOOLCALL>", "<tool_call>", "</tool_call>"],
)

# Private-use characters with a meaning inside this package. Input that contains them gets U+FFFD instead.
SPLIT = "\U000f0000"  # encode what is left and right of it apart
REPLY = "\U000f0001"  # stands for a reply while a template is rendered, see `Processor.bridge`
_RESERVED = re.compile(f"[{SPLIT}{REPLY}]")


class Shield:
    """Marks control tokens in text from outside, so that they are encoded as the letters they are.

    A `SPLIT` goes behind the first letter of each: `<img>` becomes `<` `SPLIT` `img>`, which no template
    and no tokenizer takes for the token, and `Tokenizer.encode` cuts there.
    """

    def __init__(self, control: Iterable[str]) -> None:
        rests: dict[str, list[str]] = {}
        for token in sorted(control):
            rests.setdefault(token[0], []).append(re.escape(token[1:]))
        # Only the first letter is consumed, so overlapping tokens are found as well.
        starts = [f"{re.escape(first)}(?={'|'.join(rest)})" for first, rest in rests.items()]
        self._starts = re.compile("|".join(starts) or "(?!)")

    def __call__(self, text: str) -> str:
        return self._starts.sub(lambda found: found[0] + SPLIT, _RESERVED.sub("\ufffd", text))


class Tokenizer:
    """A byte-level tokenizer and the ids of its special tokens."""

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        *,
        special: Mapping[str, str] | None = None,
        eos_ids: Iterable[int] = (),
        eos_tokens: Iterable[str] = (),
        image: str = "<image>",
        image_start: str = "<img>",
        image_end: str = "</img>",
    ) -> None:
        """`special` are the named tokens of `tokenizer_config.json` (bos_token, eos_token, ...), for the template. Ends
        of a reply are given by id, or by name: of these, those that this tokenizer has."""
        decoder = json.loads(backend.decoder.__getstate__()) if backend.decoder is not None else {}
        if "ByteLevel" not in [part.get("type") for part in [decoder, *decoder.get("decoders", [])]]:
            raise ConfigError(
                "tokenizer.json is not a byte-level one (its decoder is "
                f"{decoder.get('type', 'missing')}); the models of this family all are"
            )
        self.backend = backend
        self.special = dict(special or {})
        self.bos_id = self._named("bos_token")
        self.pad_id = self._named("pad_token")
        self.eos_id = self._named("eos_token")
        ends = {self.eos_id, *eos_ids, *(backend.token_to_id(token) for token in eos_tokens)}
        self.eos_ids = frozenset(index for index in ends if index is not None)
        self.image, self.image_start, self.image_end = image, image_start, image_end
        self.image_id = backend.token_to_id(image)
        self.image_start_id = backend.token_to_id(image_start)
        self.image_end_id = backend.token_to_id(image_end)

    def _named(self, name: str) -> int | None:
        token = self.special.get(name)
        if token is None:
            return None
        found = self.backend.token_to_id(token)
        if found is None:
            raise CheckpointError(f"the tokenizer has no token {token!r}, which its configuration calls {name}")
        return found

    @classmethod
    def from_file(cls, path: str | Path, **options: Any) -> Tokenizer:
        try:
            backend = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises bare Exception for everything
            raise CheckpointError(f"cannot read the tokenizer {path}: {error}") from error
        # Saved truncation or padding would silently change prompts.
        backend.no_truncation()
        backend.no_padding()
        return cls(backend, **options)

    # -----------------------------------------------------------------------------------------------------------------
    # vocabulary

    @property
    def vocab_size(self) -> int:
        """One more than the greatest id."""
        return len(self.token_bytes)

    def token_id(self, token: str) -> int | None:
        return self.backend.token_to_id(token)

    @cached_property
    def token_bytes(self) -> list[bytes]:
        """The bytes each id stands for, by id; empty for ids that stand for nothing."""
        vocab = self.backend.get_vocab(with_added_tokens=False)
        added = self.backend.get_added_tokens_decoder()
        table = [b""] * (max([*vocab.values(), *added], default=-1) + 1)
        for token, index in vocab.items():
            try:
                table[index] = bytes(_BYTE_OF_CHAR[char] for char in token)
            except KeyError:
                table[index] = token.encode()
        for index, added_token in added.items():
            table[index] = added_token.content.encode()
        return table

    @cached_property
    def control(self) -> frozenset[str]:
        """Tokens with a meaning beyond their letters: all flagged special, and the image tokens."""
        flagged = {token.content for token in self.backend.get_added_tokens_decoder().values() if token.special}
        images = {self.image, self.image_start, self.image_end}
        return frozenset(flagged | {token for token in images if self.token_id(token) is not None})

    @cached_property
    def hidden_ids(self) -> frozenset[int]:
        """Control tokens that decoded text leaves out. Reply markup is kept."""
        ids = (self.backend.token_to_id(token) for token in self.control - REPLY_MARKUP)
        return frozenset(index for index in ids if index is not None)

    @cached_property
    def shield(self) -> Shield:
        return Shield(self.control)

    @cached_property
    def reply_shield(self) -> Shield:
        """For text of the assistant itself, where reply markup is at home."""
        return Shield(self.control - REPLY_MARKUP)

    # -------------------------------------------------------------------------------------------- encoding and decoding

    def encode(self, text: str) -> list[int]:
        """Ids of a text, nothing added. Control tokens written in it count as such unless the text was shielded."""
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InputError(f"the text is not valid Unicode: {error.reason} at character {error.start}") from None
        pieces = text.split(SPLIT)
        return [index for piece in pieces for index in self.backend.encode(piece, add_special_tokens=False).ids]

    def encode_plain(self, text: str) -> list[int]:
        """Ids of a text in which nothing counts as a control token."""
        return self.encode(self.shield(text))

    def decode(self, ids: Iterable[int], *, skip_control: bool = True) -> str:
        stream = StreamDecoder(self, skip_control=skip_control)
        return "".join([stream.push(index) for index in ids]) + stream.finish()

    def bytes_of(self, index: int) -> bytes:
        """The bytes of one id; empty for ids beyond the vocabulary (padding rows of the embedding)."""
        return self.token_bytes[index] if 0 <= index < len(self.token_bytes) else b""


class StreamDecoder:
    """Token ids in, text out, as soon as it is certain. Incomplete UTF-8 waits for the tokens that complete it."""

    def __init__(self, tokenizer: Tokenizer, *, skip_control: bool = True) -> None:
        self._tokenizer = tokenizer
        self._hidden = tokenizer.hidden_ids if skip_control else frozenset()
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, index: int) -> str:
        return "" if index in self._hidden else self._utf8.decode(self._tokenizer.bytes_of(index))

    def finish(self) -> str:
        """What is left at the end: a replacement character if the last one never became whole."""
        return self._utf8.decode(b"", final=True)


def _byte_chars() -> dict[str, int]:
    """The printable stand-ins of GPT-2's byte-level scheme: visible Latin-1 as itself, the rest from U+0100 on."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {chr(0x100 + n): byte for n, byte in enumerate(others)}


_BYTE_OF_CHAR = _byte_chars()


def byte_tokenizer(
    *,
    image: int | None = 256,
    image_start: int | None = 257,
    image_end: int | None = 258,
    bos: int | None = 259,
    eos: int = 260,
    names: tuple[str, str, str] = ("<image>", "<img>", "</img>"),
) -> Tokenizer:
    """One token per byte and the control tokens of the templates `chatml` and `turns`, as a real `tokenizer.json`: for
    models that bring none.

    Bytes take the lowest ids the control tokens leave free (0-255, in order, unless a model fixes those
    otherwise). `names`: what the model's family calls its three image tokens.
    """
    images = dict(zip(names, (image, image_start, image_end), strict=True))
    wanted = images | {"<s>": bos, "<|im_end|>": eos}
    fixed = {token: index for token, index in wanted.items() if index is not None}
    free = (index for index in range(1 << 30) if index not in fixed.values())
    vocab = {char: next(free) for char, _ in sorted(_BYTE_OF_CHAR.items(), key=lambda pair: pair[1])}
    turns = ("<|im_start|>", "<think>", "</think>", "<|system|>", "<|user|>", "<|assistant|>")
    fixed |= {token: next(free) for token in turns}

    # Control tokens sit in the model's vocabulary too: that is how `tokenizers` lets their ids be chosen.
    backend = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocab | fixed, merges=[]))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    backend.add_special_tokens([tokenizers.AddedToken(token, special=True, normalized=False) for token in fixed])
    special = {"eos_token": "<|im_end|>"} | ({"bos_token": "<s>"} if bos is not None else {})
    return Tokenizer(backend, special=special, image=names[0], image_start=names[1], image_end=names[2])
