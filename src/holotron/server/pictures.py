"""A request's pictures: found, measured by their headers, and only then decoded and cut, each as a piece of work of its
own. So a client that leaves stops them between two pictures, and owners take turns picture by picture."""

from __future__ import annotations

import asyncio
import base64
import binascii
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from PIL import Image

from holotron.errors import InputError
from holotron.model.processor import Processor, TiledImage, decode_image, tile_keys, to_tiles
from holotron.model.processor.images import FORMATS
from holotron.server.errors import ApiError
from holotron.server.images import ImageFetcher
from holotron.server.settings import ImageSettings
from holotron.server.workers import Lane, Workers, check

SMALL = 2**22  # pixels: two full-HD screens; more is for the lane of slow work
LITTLE = 64 * 1024  # bytes: read faster than handed to another thread

_DATA_URL = re.compile(r"data:(?:[\w.+-]+/[\w.+-]+)?(?:;[\w=.-]+)*;base64,", re.I)
_LONGEST_START = 256


@dataclass(frozen=True)
class Picture:
    data: bytes
    pixels: int  # as the header says


async def cut_pictures(
    messages: Sequence[dict[str, Any]],
    *,
    owner: str,
    processor: Processor,
    settings: ImageSettings,
    fetcher: ImageFetcher,
    workers: Workers,
) -> None:
    """Put tiles in the place of every address and data URL in these messages."""
    contents = (message["content"] for message in messages if isinstance(message.get("content"), list))
    parts = [part for content in contents for part in content if "image_url" in part]
    if not parts:
        return
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
            pictures.append(measured(fetched[n] if n in fetched else decoded(url, settings), settings))
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
    pictures = measure() if little else await workers.run(owner, measure)

    async def cut(picture: Picture) -> TiledImage:
        lane: Lane = "small" if picture.pixels <= SMALL else "large"
        return await workers.run(owner, lambda: _cut(picture.data, processor), lane)

    tasks = [asyncio.ensure_future(cut(picture)) for picture in pictures]
    try:
        tiled = await asyncio.gather(*tasks)
    finally:
        for task in tasks:  # one that cannot be read calls the others off
            task.cancel()
    for part, done in zip(parts, tiled, strict=True):
        part.update({"type": "image", "image": done})


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


def _cut(data: bytes, processor: Processor) -> TiledImage:
    assert processor.images is not None
    pixels = decode_image(data, processor.image_limits)
    check()
    tiles = to_tiles(pixels, processor.images)
    return TiledImage(tiles, (pixels.shape[1], pixels.shape[0]), tuple(tile_keys(tiles)))


def measured(data: bytes, settings: ImageSettings) -> Picture:
    """From the header alone. What cannot be read is not judged here: decoding says what is wrong with it."""
    if len(data) > settings.max_bytes:
        raise InputError(f"the image has {len(data):,} bytes; the limit is {settings.max_bytes:,}")
    try:
        width, height = Image.open(io.BytesIO(data), formats=FORMATS).size
    except Exception:
        return Picture(data, 0)
    if width * height > settings.max_pixels:
        raise InputError(f"the image is {width}x{height}; the limit is {settings.max_pixels:,} pixels")
    return Picture(data, width * height)


def decoded(url: str, settings: ImageSettings) -> bytes:
    if len(url) > settings.max_bytes * 4 // 3 + _LONGEST_START:
        raise InputError(f"the image's data URL has {len(url):,} characters; the limit is {settings.max_bytes:,} bytes")
    if not (start := _DATA_URL.match(url[:_LONGEST_START])):
        raise InputError("the image's data URL must have the form data:image/png;base64,...")
    try:
        return base64.b64decode("".join(url[start.end() :].split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise InputError(f"the image's data URL is not valid base64: {error}") from None


def _address(part: dict[str, Any]) -> str:
    address = part["image_url"]
    url: str = address["url"] if isinstance(address, dict) else address
    return url
