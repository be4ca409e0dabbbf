"""Text to token ids and back: a thin layer over `tokenizers`, with what an engine needs on top.

Three things are added to the library. *Bytes of a token*: every token of this family is a byte string
(byte-level BPE), and grammars and streaming both think in bytes. *Streaming*: a character may be spread
over several tokens, so `StreamDecoder` holds incomplete UTF-8 back until it is whole; what it has given out
is never taken back, and the sum equals decoding everything at once. *Text apart from control*: `<img>` in a
page's text must not become the control token `<img>`:

    tokenizer.encode_plain("<img>")                  # letters, whatever the text is
    tokenizer.encode_inked(ink("<img>") + "<img>")   # the token, then letters; see `ink`
    tokenizer.encode("<img>")                        # the token: for text that its writer vouches for
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import tokenizers

from holotron.errors import CheckpointError, ConfigError
from holotron.model.formats import LFS_POINTER, is_lfs_pointer
from holotron.model.processor.added import Added, add_missing
from holotron.model.processor.ink import REPLY_MARKUP, check_unicode, read_ink, runs

_BRACKETED = re.compile(r"<[^<>\s]+>|\[[^\[\]\s]+\]")


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
    def from_file(cls, path: str | Path, *, added: Iterable[Added] = (), **options: Any) -> Tokenizer:
        """`added`: tokens that other files of the checkpoint name, which are added if tokenizer.json lacks them."""
        if is_lfs_pointer(Path(path)):
            raise CheckpointError(f"{path}: {LFS_POINTER}")
        try:
            backend = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises bare Exception for everything
            raise CheckpointError(f"cannot read the tokenizer {path}: {error}") from error
        # Saved truncation or padding would silently change prompts.
        backend.no_truncation()
        backend.no_padding()
        add_missing(backend, added)
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
    def longest(self) -> int:
        """Bytes of the longest token."""
        return max(map(len, self.token_bytes), default=1) or 1

    @cached_property
    def control(self) -> frozenset[str]:
        """Tokens with a meaning beyond their letters: all flagged special, the image tokens, and whatever else was
        added to the vocabulary in brackets (checkpoints do not flag `<tool_response>` and its like)."""
        added = self.backend.get_added_tokens_decoder().values()
        marked = {token.content for token in added if token.special or _BRACKETED.fullmatch(token.content)}
        return frozenset(token for token in marked | self._images if len(token) > 1)

    @cached_property
    def control_ids(self) -> frozenset[int]:
        return frozenset(index for token in self.control if (index := self.token_id(token)) is not None)

    @cached_property
    def hidden_ids(self) -> frozenset[int]:
        """Control tokens that decoded text leaves out. Reply markup is kept: `reply` reads it."""
        added = self.backend.get_added_tokens_decoder().items()
        flagged = {index for index, token in added if token.special and token.content not in REPLY_MARKUP}
        images = {index for token in self._images if (index := self.token_id(token)) is not None}
        return frozenset(flagged | images)

    @cached_property
    def _images(self) -> frozenset[str]:
        return frozenset(t for t in (self.image, self.image_start, self.image_end) if self.token_id(t) is not None)

    # -------------------------------------------------------------------------------------------- encoding and decoding

    def encode(self, text: str) -> list[int]:
        """Ids of a text, nothing added. Control tokens written in it count as such."""
        check_unicode(text)
        return self.backend.encode(text, add_special_tokens=False).ids

    def encode_plain(self, text: str) -> list[int]:
        """Ids of a text in which nothing counts as a control token: where one is written, the text is cut behind its
        first letter, and both sides are encoded apart."""
        check_unicode(text)
        ids: list[int] = []
        rest = [text]  # the last one comes next
        while rest:
            piece = rest.pop()
            encoding = self.backend.encode(piece, add_special_tokens=False)
            if self.control_ids.isdisjoint(encoding.ids):
                ids += encoding.ids
            elif len(piece) == 1:  # a normaliser made the token of one character: there is no way to write that
                ids += [index for index in encoding.ids if index not in self.control_ids]
            else:
                places = zip(encoding.ids, encoding.offsets, strict=True)
                starts = [begin for index, (begin, _) in places if index in self.control_ids]
                cuts = sorted({0, *(begin + 1 if begin + 1 < len(piece) else begin for begin in starts), len(piece)})
                rest += [piece[begin:end] for begin, end in pairwise(cuts)][::-1]
        return ids

    def encode_inked(self, text: str) -> list[int]:
        """Ids of a rendered text: what stands in ink counts as a control token, nothing else does."""
        ids: list[int] = []
        waiting: list[str] = []  # text, in ink or not, up to the next control token

        for run, inked in runs(text):
            if not inked:
                waiting.append(run)
                continue
            for piece, index in self._read_ink(run):
                if index is None:
                    waiting.append(piece)
                    continue
                ids += self._between(waiting, ids, index)
                ids.append(index)
                waiting = []
        return ids + self._between(waiting, ids, None)

    def _between(self, pieces: list[str], ids: list[int], following: int | None) -> list[int]:
        """Ids of the text between two control tokens. Some checkpoints have tokens that swallow the white space beside
        them."""
        text = "".join(pieces)
        if ids and ids[-1] in self._swallow_right:
            text = text.lstrip()
        if following in self._swallow_left:
            text = text.rstrip()
        return self.encode_plain(text) if text else []

    @cached_property
    def _swallow_left(self) -> frozenset[int]:
        return frozenset(index for index, token in self.backend.get_added_tokens_decoder().items() if token.lstrip)

    @cached_property
    def _swallow_right(self) -> frozenset[int]:
        return frozenset(index for index, token in self.backend.get_added_tokens_decoder().items() if token.rstrip)

    @cached_property
    def _read_ink(self) -> Callable[[str], tuple[tuple[str, int | None], ...]]:
        tokens = sorted(self.control, key=len, reverse=True)
        found = re.compile(f"({'|'.join(map(re.escape, tokens)) or '(?!)'})")

        @lru_cache(maxsize=4096)  # a template writes the same few things again and again
        def read(run: str) -> tuple[tuple[str, int | None], ...]:
            pieces = enumerate(found.split(read_ink(run)))
            return tuple((piece, self.token_id(piece) if n % 2 else None) for n, piece in pieces if piece)

        return read

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
