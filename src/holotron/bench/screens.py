"""Screens to send: page-like pictures as PNG, no two of which share a tile.

Text in columns, controls, and on every third page something like a photograph: 0.5 to 1.5 MB at 1920 x 1080, which is
what browsers' screenshots have. Painting one takes a quarter of a second, so it is done before the clock starts, on all
cores, and kept in a folder:

    python -m holotron.bench.screens FOLDER --sessions 100 --steps 6        # for `--screens FOLDER`
"""

from __future__ import annotations

import argparse
import io
import os
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from holotron.errors import ConfigError

LETTERS = np.array(list("etaoinshrdlcumwfgypbvk"))
FEW = 4_000_000  # pixels that are painted sooner than processes start


class Look(NamedTuple):
    """What a picture depends on, beside whose it is and when it was made."""

    size: tuple[int, int]
    seed: int = 0
    unchanged: float = 0.0  # the share, from the left, that is as on the session's first screen


def paint(look: Look, session: int, step: int) -> bytes:
    page = _page(look, session, step)
    stays = round(look.size[0] * look.unchanged)
    if stays and step:
        page.paste(_page(look, session, 0).crop((0, 0, stays, look.size[1])))
    file = io.BytesIO()
    page.save(file, "PNG", compress_level=3)
    return file.getvalue()


def _page(look: Look, session: int, step: int) -> Image.Image:
    draw = np.random.default_rng([look.seed, session, step])
    width, height = look.size
    shade = int(draw.integers(236, 256))
    page = Image.new("RGB", look.size, (shade, shade, 255))
    pen = ImageDraw.Draw(page)
    line = max(8, height // 60)
    font = ImageFont.load_default(0.72 * line)
    column = max(40, width // 4)
    for x in range(line // 2, width, column):
        for y in range(line // 3, height, line):
            ink = tuple(int(level) for level in draw.integers(0, 110, 3))
            pen.text((x, y), _words(draw, int(2.1 * column / line)), fill=ink, font=font)
    for _ in range(24):
        x, y = int(draw.integers(0, width)), int(draw.integers(0, height))
        colour = tuple(int(level) for level in draw.integers(60, 256, 3))
        pen.rounded_rectangle((x, y, x + 6 * line, y + 2 * line), 6, fill=colour, outline=(90, 90, 90))
    if (session + step) % 3 == 0:
        page.paste(_photograph(draw, width // 3, height // 2), (int(draw.integers(0, width // 2)), height // 4))
    return page


def _words(draw: np.random.Generator, letters: int) -> str:
    drawn = LETTERS[draw.integers(0, len(LETTERS), max(1, letters))]
    drawn[draw.random(len(drawn)) < 0.17] = " "
    return "".join(drawn)


def _photograph(draw: np.random.Generator, width: int, height: int) -> Image.Image:
    """Soft shapes with a little grain."""
    coarse = draw.integers(0, 256, (7, 9, 3), np.uint8)
    soft = np.asarray(Image.fromarray(coarse).resize((max(1, width), max(1, height)), Image.Resampling.BICUBIC))
    grain = draw.integers(-5, 6, soft.shape, np.int16)
    return Image.fromarray((soft + grain).clip(0, 255).astype(np.uint8))


class Screens:
    """The screens of a workload, as files in a folder; without one they are thrown away in the end."""

    def __init__(self, look: Look, folder: Path | None = None) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="screens-") if folder is None else None
        above = Path(self._scratch.name) if self._scratch is not None else folder
        assert above is not None
        width, height = look.size
        self.look = look
        self.folder = above / f"{width}x{height}-{look.seed}-{round(100 * look.unchanged)}"
        self.folder.mkdir(parents=True, exist_ok=True)

    def prepare(self, sessions: Iterable[int], steps: int) -> None:
        """Paint what is not there yet."""
        wanted = [(n, step) for step in range(steps) for n in sessions]
        missing = [place for place in wanted if not self._file(*place).exists()]
        painter = _Painter(self.look, self.folder)
        if len(missing) * self.look.size[0] * self.look.size[1] <= FEW:
            list(map(painter, missing))
            return
        # Not forked: whoever measures has threads, and perhaps a GPU.
        with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
            list(pool.map(painter, missing, chunksize=4))

    def of(self, session: int, step: int) -> bytes:
        file = self._file(session, step)
        if not file.exists():
            _Painter(self.look, self.folder)((session, step))
        return file.read_bytes()

    def _file(self, session: int, step: int) -> Path:
        return self.folder / f"{session}-{step}.png"


@dataclass(frozen=True)
class _Painter:
    """Can be sent to another process."""

    look: Look
    folder: Path

    def __call__(self, place: tuple[int, int]) -> Path:
        session, step = place
        partial = self.folder / f".{session}-{step}.{os.getpid()}"
        partial.write_bytes(paint(self.look, session, step))
        return partial.replace(self.folder / f"{session}-{step}.png")


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m holotron.bench.screens", description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--size", type=picture_size, default=(1920, 1080), metavar="WxH")
    parser.add_argument("--unchanged", type=float, default=0.0, help="share, from the left, that stays as it was")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(words)
    screens = Screens(Look(args.size, args.seed, args.unchanged), args.folder)
    screens.prepare(range(args.sessions), args.steps)
    print(screens.folder)


def picture_size(text: str) -> tuple[int, int]:
    width, _, height = text.partition("x")
    if not (width.isdigit() and height.isdigit() and int(width) and int(height)):
        raise ConfigError(f"{text} is not the size of a picture: write WxH, such as 1920x1080")
    return int(width), int(height)


if __name__ == "__main__":
    main()
