"""A request's pictures: found, measured by their headers, and only then decoded and cut, each as a piece of work of its
own. So a client that leaves stops them between two pictures, and owners take turns picture by picture."""

from __future__ import annotations

import asyncio
import base64
import binascii
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from PIL import Image

from holotron.errors import InputError
from holotron.model.processor import Processor, TiledImage, decode_image, tile_keys, to_tiles
from holotron.model.processor.images import FORMATS
from holotron.model.processor.seen import CutPicture
from holotron.server.errors import ApiError
from holotron.server.images import ImageFetcher
from holotron.server.settings import ImageSettings
from holotron.server.workers import Lane, Workers, check

T = TypeVar("T")
SMALL = 2**22  # pixels: two full-HD screens; more is for the lane of slow work
LITTLE = 64 * 1024  # bytes: read faster than handed to another thread

_DATA_URL = re.compile(r"data:(?:[\w.+-]+/[\w.+-]+)?(?:;[\w=.-]+)*;base64,", re.I)
_LONGEST_START = 256
_PIECE = 2**20  # letters of a data URL decoded in one go


@dataclass(frozen=True)
class SentPicture:
    """As it was sent, and the tiles it was cut into."""

    source: str | bytes
    keys: tuple[bytes, ...]

    @property
    def data(self) -> bytes:
        return unpacked(self.source) if isinstance(self.source, str) else self.source


@dataclass(frozen=True)
class Picture:
    source: str | bytes  # a data URL, or what was fetched
    data: bytes  # nothing, if it was seen before: unpacking it takes as long as looking it up five times
    pixels: int  # as the header says
    seen: CutPicture | None = None


async def cut_pictures(
    messages: Sequence[dict[str, Any]],
    *,
    owner: str,
    scope: bytes,
    processor: Processor,
    settings: ImageSettings,
    fetcher: ImageFetcher,
    workers: Workers,
) -> list[SentPicture]:
    """Put tiles in the place of every address and data URL in these messages. A picture that was sent before in this
    scope is not decoded and cut again: most clients re-send what they have shown."""
    contents = (message["content"] for message in messages if isinstance(message.get("content"), list))
    parts = [part for content in contents for part in content if "image_url" in part]
    if not parts:
        return []
    if processor.images is None:
        raise InputError("this model reads text only; send no images")
    if len(parts) > (limit := settings.max_per_request):
        raise ApiError(400, f"the request has {len(parts)} images; the limit is {limit}", param="messages")
    addresses = [_address(part) for part in parts]
    remote = {n: url for n, url in enumerate(addresses) if url[:5].lower() != "data:"}
    fetched = await _fetched(remote, fetcher, settings)
    for part in parts:
        part.clear()  # the text of a data URL is not needed any more, and large

    def measure() -> list[Picture]:
        pictures, total = [], 0
        for n, url in enumerate(addresses):
            check()
            pictures.append(looked_at(fetched.get(n, url), processor, settings))
            total += pictures[-1].pixels
            if total > settings.max_request_pixels:
                raise ApiError(
                    400,
                    f"the images have more than {settings.max_request_pixels:,} pixels together",
                    code="too_many_pixels",
                    param="messages",
                )
        return pictures

    little = sum(map(len, addresses)) + sum(map(len, fetched.values())) <= LITTLE

    def remembering(work: Callable[[], T]) -> Callable[[], T]:
        def within() -> T:
            with processor.seen.by(scope):
                return work()

        return within

    pictures = remembering(measure)() if little else await workers.run(owner, remembering(measure))

    def cut_now(picture: Picture) -> CutPicture:
        return processor.seen.cut(picture.source, lambda: cut_picture(picture.data, processor))

    async def cut(picture: Picture) -> TiledImage:
        done = picture.seen
        if done is None:
            lane: Lane = "small" if picture.pixels <= SMALL else "large"
            done = await workers.run(owner, remembering(lambda: cut_now(picture)), lane)
        return TiledImage(done.tiles, done.size, done.keys)

    tasks = [asyncio.ensure_future(cut(picture)) for picture in pictures]
    try:
        tiled = await asyncio.gather(*tasks)
    finally:
        for task in tasks:  # one that cannot be read calls the others off
            task.cancel()
    for part, done in zip(parts, tiled, strict=True):
        part.update({"type": "image", "image": done})
    return [SentPicture(picture.source, done.keys) for picture, done in zip(pictures, tiled, strict=True)]


async def _fetched(remote: dict[int, str], fetcher: ImageFetcher, settings: ImageSettings) -> dict[int, bytes]:
    """A few at a time, and together no more than one image may have times four."""
    fetched: dict[int, bytes] = {}
    turns = asyncio.Semaphore(4)

    async def fetch(n: int, url: str) -> None:
        async with turns:
            fetched[n] = await fetcher.fetch(url)
        if sum(map(len, fetched.values())) > 4 * settings.max_bytes:
            raise InputError(f"the images have more than {4 * settings.max_bytes:,} bytes together")

    tasks = [asyncio.ensure_future(fetch(n, url)) for n, url in remote.items()]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
    return fetched


def looked_at(source: str | bytes, processor: Processor, settings: ImageSettings) -> Picture:
    if (seen := processor.seen.find(source)) is not None:
        return Picture(source, b"", seen.size[0] * seen.size[1], seen)
    data = decoded(source, settings) if isinstance(source, str) else source
    return Picture(source, data, measured(data, settings))


def cut_picture(data: bytes, processor: Processor) -> CutPicture:
    assert processor.images is not None
    pixels = decode_image(data, processor.image_limits)
    check()
    tiles = to_tiles(pixels, processor.images)
    return CutPicture(tiles, tuple(tile_keys(tiles)), (pixels.shape[1], pixels.shape[0]))


def measured(data: bytes, settings: ImageSettings) -> int:
    """Pixels, from the header alone. What cannot be read is not judged here: decoding says what is wrong with it."""
    if len(data) > settings.max_bytes:
        raise InputError(f"the image has {len(data):,} bytes; the limit is {settings.max_bytes:,}")
    try:
        width, height = Image.open(io.BytesIO(data), formats=FORMATS).size
    except Exception:
        return 0
    if width * height > settings.max_pixels:
        raise InputError(f"the image is {width}x{height}; the limit is {settings.max_pixels:,} pixels")
    return width * height


def decoded(url: str, settings: ImageSettings) -> bytes:
    if len(url) > settings.max_bytes * 4 // 3 + _LONGEST_START:
        raise InputError(f"the image's data URL has {len(url):,} characters; the limit is {settings.max_bytes:,} bytes")
    return unpacked(url)


def unpacked(url: str) -> bytes:
    if not (start := _DATA_URL.match(url[:_LONGEST_START])):
        raise InputError("the image's data URL must have the form data:image/png;base64,...")
    try:
        return b"".join(_unpacked(url, start.end()))
    except (binascii.Error, ValueError) as error:
        raise InputError(f"the image's data URL is not valid base64: {error}") from None


def _unpacked(url: str, start: int) -> Iterator[bytes]:
    """Base64 with blanks anywhere, to bytes. In pieces, because each keeps Python's lock."""
    rest = ""
    for place in range(start, len(url), _PIECE):
        rest += "".join(url[place : place + _PIECE].split())
        whole = len(rest) - len(rest) % 4
        yield base64.b64decode(rest[:whole], validate=True)
        rest = rest[whole:]
    yield base64.b64decode(rest, validate=True)  # nothing, or letters that are missing their padding


def _address(part: dict[str, Any]) -> str:
    address = part["image_url"]
    url: str = address["url"] if isinstance(address, dict) else address
    return url
