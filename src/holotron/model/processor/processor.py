"""The processor: a tokenizer, a chat template and an image configuration, working as one.

A stateless request is rendered whole, a session piece by piece:

    prompt = processor.render(messages)                  # token ids, and the images' tiles with their places in them
    log = prompt.ids + generated
    more = processor.bridge(next_messages, after=log)    # what to append for the next turn; history is not touched

`bridge` asks the template what it would write after a reply, so that an appended turn is exactly what rendering the
whole conversation would have put there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from holotron.errors import CapacityError, ConfigError, InputError
from holotron.model.processor import folder
from holotron.model.processor.deltas import (
    MARK,
    Deltas,
    Run,
    ShownScreen,
    address,
    cut_delta,
    screen_key,
    tile_sign,
    whole_runs,
)
from holotron.model.processor.images import ImageLimits, TiledImage, tile_keys, to_tiles
from holotron.model.processor.ink import REPLY_MARKUP, ink, plain
from holotron.model.processor.messages import ImageSource, load_image, plain_chat
from holotron.model.processor.sampling import SamplingDefaults
from holotron.model.processor.seen import CutPicture, SeenPictures
from holotron.model.processor.sparse import cut_sparse
from holotron.model.processor.template import ChatTemplate, Message
from holotron.model.processor.tiling import ImageConfig, image_tokens
from holotron.model.processor.tokenizer import Tokenizer, byte_tokenizer


@dataclass(frozen=True, slots=True)
class PromptLimits:
    """What one request may hold. Four images is the published limit of the model; sessions append beyond it."""

    max_images: int = 4
    max_tiles: int = 4 * 13
    max_tokens: int = 131_072
    max_text_tokens: int | None = None  # without its pictures; checked before the text is tokenised, as far as possible


@dataclass(frozen=True, slots=True)
class PromptImage:
    """An image and its place: `ids[start : start + length]` stand between the two tags. Usually these are its
    `<image>` tokens, tile after tile; an image that is told as changes has addresses among them (see `deltas`)."""

    start: int
    length: int
    tiles: Tensor  # uint8 [n, 3, height, width]
    keys: tuple[bytes, ...]  # one per tile, by content
    size: tuple[int, int] = (0, 0)  # of the picture before it was cut, (0, 0) where nobody asks
    runs: tuple[Run, ...] | None = None  # the groups that are shown; None: all
    places: tuple[int, ...] = ()  # where each run's tokens begin, from `start` on
    base: bytes | None = None  # key of the screen that the runs change
    screen: ShownScreen | None = None  # what has been shown after it, where deltas are on

    @property
    def shown(self) -> tuple[Run, ...]:
        """What of it enters the stream, in order: the rows that its image tokens stand for."""
        if self.runs is not None:
            return self.runs
        return whole_runs(len(self.tiles), self.length // len(self.tiles))


@dataclass(frozen=True, slots=True)
class Prompt:
    ids: list[int]
    images: tuple[PromptImage, ...] = ()
    text: str = ""  # one `<image>` per image; for people and logs
    opens_reasoning: bool = False  # the prompt ends inside a reasoning block, so the reply begins with reasoning

    def __len__(self) -> int:
        return len(self.ids)


class Processor:
    def __init__(
        self,
        tokenizer: Tokenizer,
        template: ChatTemplate,
        images: ImageConfig | None = None,
        *,
        sampling: SamplingDefaults | None = None,
        limits: PromptLimits | None = None,
        image_limits: ImageLimits | None = None,
    ) -> None:
        """`images` is None for a model without a vision tower. `sampling`: how its publishers sample, for requests that
        do not say."""
        self.tokenizer = tokenizer
        self.template = template.knowing(tokenizer.control)
        self.images = images
        self.sampling = sampling or SamplingDefaults()
        self.limits = limits or PromptLimits()
        self.image_limits = image_limits or ImageLimits()
        self.seen = SeenPictures()
        if images is not None and tokenizer.image_id is None:
            raise ConfigError(f"the model sees images but its tokenizer has no token {tokenizer.image!r}")
        self._check_template()

    def _check_template(self) -> None:
        """A template that puts control tokens together in a way that `ink` does not see would write them as letters."""
        try:
            roles = ("system", "user", "assistant", "user")
            text = self.template.inked([{"role": role, "content": "x"} for role in roles])
        except InputError:  # it wants other messages
            return
        control = self.tokenizer.control_ids
        meant = [index for index in self.tokenizer.encode(plain(text)) if index in control]
        if meant != [index for index in self.tokenizer.encode_inked(text) if index in control]:
            raise ConfigError(
                "the chat template puts control tokens together from pieces, so that they cannot be told from text; "
                "write them out in chat_template.jinja"
            )

    @classmethod
    def from_folder(cls, path: str | Path, **limits: Any) -> Processor:
        """Read a checkpoint folder: tokenizer, chat template and image settings in Hugging Face's files."""
        files = folder.read(Path(path))
        return cls(files.tokenizer, files.template, files.images, sampling=files.sampling, **limits)

    @classmethod
    def for_bytes(
        cls,
        images: ImageConfig | None = None,
        *,
        template: str = "chatml",
        limits: PromptLimits | None = None,
        **ids: Any,
    ) -> Processor:
        """For models without a vocabulary of their own: one token per byte (see `byte_tokenizer`), turns as the
        built-in template has them."""
        tokenizer = byte_tokenizer(**ids)
        chat = ChatTemplate.builtin(template, tokenizer.special, tokenizer.image)
        return cls(tokenizer, chat, images, limits=limits)

    def save(self, path: str | Path) -> None:
        """Write everything `from_folder` reads but `config.json`, which belongs to the weights."""
        folder.write(Path(path), self.tokenizer, self.template, self.images, self.sampling)

    # ----------------------------------------------------------------------------------------------- where replies end

    @cached_property
    def end_of_turn(self) -> int | None:
        """The token that the template writes behind a reply; if it writes none, the tokenizer's own end."""
        control = {self.tokenizer.token_id(token) for token in self.tokenizer.control - REPLY_MARKUP}
        try:
            tail = self.template.inked_after_reply(add_generation_prompt=False)
        except (InputError, ConfigError):  # a template that wants other messages, or drops replies
            tail = ""
        written = [index for index in self.tokenizer.encode_inked(tail) if index in control]
        return next(iter(written), self.tokenizer.eos_id)

    @cached_property
    def stop_ids(self) -> tuple[int, ...]:
        """Every token that ends a reply, the one that the template writes first."""
        others = sorted(self.tokenizer.eos_ids - {self.end_of_turn})
        return (self.end_of_turn, *others) if self.end_of_turn is not None else tuple(others)

    # --------------------------------------------------------------------------------------------------- whole requests

    def render(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] | None = None,
        thinking: bool | None = False,
        add_generation_prompt: bool = True,
        deltas: Deltas | None = None,
        **variables: Any,
    ) -> Prompt:
        """A conversation in OpenAI's form to a prompt. `thinking=None` leaves reasoning to the template's own default.
        `deltas` tells pictures as changes to the one before. Further keywords go to the template."""
        chat = plain_chat(messages, tools)
        if len(chat.images) > self.limits.max_images:
            raise InputError(f"the request has {len(chat.images)} images; the limit is {self.limits.max_images}")
        text = self.template.inked(
            chat.messages,
            tools=chat.tools,
            thinking=thinking,
            add_generation_prompt=add_generation_prompt,
            **variables,
        )
        return self._encode(text, chat.images, deltas)

    # ---------------------------------------------------------------------------------------------- pieces for sessions

    def bridge(
        self,
        messages: Sequence[Message],
        after: Sequence[int],
        tools: Sequence[Mapping[str, Any]] | None = None,
        thinking: bool | None = False,
        deltas: Deltas | None = None,
        **variables: Any,
    ) -> Prompt:
        """What to append to a log that ends in a reply: the reply's end, the new messages, the next reply's start.

        `after` is the log (its last tokens suffice). Whatever part of the reply's end is there already, because the
        model wrote it, is not written again. Spans count from the start of the appended ids.
        """
        chat = plain_chat(messages, tools)
        text = self.template.inked_after_reply(chat.messages, tools=chat.tools, thinking=thinking, **variables)
        prompt = self._encode(text, chat.images, deltas)
        return _without_start(prompt, _already_there(prompt.ids, after, self.stop_ids))

    def encode_text(self, text: str, *, control_tokens: bool = False) -> list[int]:
        """Ids of a text. Control tokens written in it are letters unless `control_tokens` says otherwise."""
        return self.tokenizer.encode(text) if control_tokens else self.tokenizer.encode_plain(text)

    def encode_image(self, source: ImageSource, deltas: Deltas | None = None) -> Prompt:
        """One image as it stands in a prompt: tag, placeholders, tag; with its tiles."""
        return self._encode(ink(self.tokenizer.image), [source], deltas)

    def image_tokens(self, width: int, height: int) -> int:
        """What an image of this size will cost, its tags included; the most, if it is told sparsely."""
        tags = sum(tag is not None for tag in (self.tokenizer.image_start_id, self.tokenizer.image_end_id))
        return image_tokens(width, height, self._image_config()) + tags

    # ----------------------------------------------------------------------------------------------------------- inside

    def _image_config(self) -> ImageConfig:
        if self.images is None:
            raise InputError("this model reads text only; send no images")
        return self.images

    def _encode(self, text: str, sources: Sequence[ImageSource], deltas: Deltas | None = None) -> Prompt:
        """Tokenise a rendered text and put each image's tokens where the template put its placeholder."""
        tokenizer = self.tokenizer
        if sources:
            self._image_config()
        if tokenizer.image_id is not None:
            # Tags the tokenizer knows stand around every placeholder, also where the template wrote none.
            start = ink(tokenizer.image_start) if tokenizer.image_start_id is not None else ""
            end = ink(tokenizer.image_end) if tokenizer.image_end_id is not None else ""
            tagged = f"{start}{(image := ink(tokenizer.image))}{end}"
            text = text.replace(tagged, image).replace(image, tagged)
        self._check_text(text)
        short = tokenizer.encode_inked(text)
        if tokenizer.image_id is not None and (places := short.count(tokenizer.image_id)) != len(sources):
            raise ConfigError(f"the chat template wrote {places} image placeholders for {len(sources)} images")
        self._check_tokens(len(short))

        ids: list[int] = []
        images: list[PromptImage] = []
        tiles_so_far = 0
        remaining = iter(sources)
        for index in short:
            if index != tokenizer.image_id:
                ids.append(index)
                continue
            shown = self._image(next(remaining), start=len(ids))
            tiles_so_far += len(shown.tiles)
            if tiles_so_far > self.limits.max_tiles:
                raise InputError(f"the images need more than {self.limits.max_tiles} tiles; send fewer or smaller ones")
            if deltas is not None or self._image_config().sparse:
                shown, told = self._tell(shown, deltas)
                deltas = replace(deltas, screen=shown.screen) if deltas is not None else None
                ids.extend(told)
            else:
                ids.extend([index] * shown.length)
            self._check_tokens(len(ids))
            images.append(shown)
        self._check_tokens(len(ids))
        return Prompt(ids, tuple(images), plain(text), text.rstrip().endswith(ink("<think>")))

    def _check_text(self, text: str) -> None:
        least, limit = len(text) // self.tokenizer.longest, self.limits.max_text_tokens
        if limit is not None and least > limit:
            raise CapacityError(f"the prompt's text has at least {least:,} tokens; the limit is {limit:,}")

    def _check_tokens(self, count: int) -> None:
        if count > self.limits.max_tokens:
            raise InputError(f"the prompt has more than {self.limits.max_tokens:,} tokens")

    def _image(self, source: ImageSource, start: int) -> PromptImage:
        if isinstance(source, TiledImage):
            tiles, size, keys = source.tiles, source.size, source.keys
        else:
            tiles, keys, size = self.seen.cut(source, lambda: self._cut(source))
        length = len(tiles) * self._image_config().tokens(*tiles.shape[-2:])
        return PromptImage(start, length, tiles, keys, size=size)

    def _cut(self, source: ImageSource) -> CutPicture:
        assert not isinstance(source, TiledImage)
        pixels = load_image(source, self.image_limits)
        tiles = to_tiles(pixels, self._image_config())
        return CutPicture(tiles, tuple(tile_keys(tiles)), (pixels.shape[1], pixels.shape[0]))

    def _tell(self, image: PromptImage, deltas: Deltas | None) -> tuple[PromptImage, list[int]]:
        """The image told as changes, or without what is blank; and its tokens. Whole where that is not shorter."""
        image_config, token = self._image_config(), self.tokenizer.image_id
        assert token is not None
        if self.tokenizer.image_start_id is None or self.tokenizer.image_end_id is None:
            raise ConfigError(
                "pictures are told sparsely or as changes only between tags: without them a text beside one could "
                "imitate the signs in it"
            )
        now = ShownScreen(image.size, image.tiles, screen_key(image.size, image.keys))
        if image_config.sparse:
            cut = cut_sparse(now, deltas, image_config)
        else:
            assert deltas is not None
            cut = cut_delta(now, deltas, image_config)
        if cut.runs is None:
            return replace(image, screen=cut.screen), [token] * image.length
        columns = image.tiles.shape[-1] // (image_config.patch_size * image_config.downsample)
        ids, places, tile = self.encode_text(MARK) if cut.base is not None else [], list[int](), -1
        for run in cut.runs:
            if not image_config.sparse:
                ids += self.encode_text(address(run, columns))
            elif run.tile != tile:
                ids += self.encode_text(tile_sign(tile := run.tile))
            places.append(len(ids))
            ids += [token] * run.count
        told = replace(image, length=len(ids), runs=cut.runs, places=tuple(places), base=cut.base, screen=cut.screen)
        return told, ids


def _already_there(ids: Sequence[int], log: Sequence[int], eos_ids: Collection[int]) -> int:
    """How many of `ids` (a reply's end and what follows it) the log has already."""
    end = next((place for place, index in enumerate(ids) if index in eos_ids), len(ids))
    if log and end < len(ids) and log[-1] == ids[end]:
        # The model ended its turn itself, with or without the line break that the template puts before the token.
        return end + 1
    return next((n for n in range(min(len(log), end), 0, -1) if list(ids[:n]) == list(log[-n:])), 0)


def _without_start(prompt: Prompt, count: int) -> Prompt:
    images = tuple(replace(image, start=image.start - count) for image in prompt.images)
    return replace(prompt, ids=prompt.ids[count:], images=images)
