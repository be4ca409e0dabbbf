"""Pages painted without a browser: a few milliseconds each, for learning to read by the million.

    painter = Painter(sizes=(Size.parse("160x160@2"),))
    page = painter.paint(seed=7, index=12)                  # a labels.Page, like those from Chromium

The same labels as real pages, per character and per element, on simpler pages: lines, links, buttons, fields, choices,
tabs, tables, shapes; from 360 CSS pixels of width on, whole web apps (`web_page`). A page depends on its seed, its
number and the fonts at hand. Made on the fly, data never repeats and nothing has to be stored or sent: each worker of a
loader owns a `Painter` and takes numbers of its own.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from holotron.data.brush import Brush
from holotron.data.fonts import HELD_OUT, font_files
from holotron.data.glyphs import Typeface, typeface
from holotron.data.labels import Page
from holotron.data.pages.make import Size
from holotron.data.pages.words import LANGUAGES, Words, draw_words
from holotron.data.samples import make_samples
from holotron.data.shards import pages_in_shard, to_row, write_shard
from holotron.data.web_page import BODY, WebPage
from holotron.errors import InputError

SIZES = (Size(160, 160, 2.0),)
TYPE_SIZES = (8, 9, 9, 9, 10, 10, 10, 10, 11, 11, 11, 12, 12, 12, 13, 13, 14, 16, 18, 20, 24, 30)  # CSS pixels
WEB = 360  # CSS pixels: pages at least as wide are web apps, smaller ones a few widgets
PERIOD, STYLES = 2000, 24  # pages that share a choice of typefaces with sizes, and how many there are of those


class Painter:
    """Holds the fonts; everything else is drawn from the seed."""

    def __init__(
        self,
        *,
        sizes: tuple[Size, ...] = SIZES,
        fonts: Iterable[Path] | None = None,
        held_out: bool = False,
        languages: tuple[str, ...] = LANGUAGES,
        type_sizes: tuple[float, ...] = (),
    ) -> None:
        """`fonts`: files to use; by default the system's. Held-out families are used if, and only if, `held_out`.
        `type_sizes`: of body text, in CSS pixels; by default as usual on pages of that size."""
        if unknown := set(languages) - set(LANGUAGES):
            raise InputError(f"no words in {', '.join(sorted(unknown))}; languages are {', '.join(LANGUAGES)}")
        faces = [typeface(path) for path in (font_files() if fonts is None else fonts)]
        self._faces = [face for face in faces if (face.family in HELD_OUT) == held_out]
        if not any(face.languages for face in self._faces):
            raise InputError("none of the fonts is a text font for this side of the held-out split; name others")
        self._sizes = sizes
        self._held_out = held_out
        self._languages = languages
        self._type_sizes = type_sizes

    @lru_cache(maxsize=4)  # noqa: B019 (a painter lives as long as its process)
    def _of_the_web(self, seed: int, period: int) -> list[tuple[Typeface, Typeface, float]]:
        """The same for large pages: a typeface, its bold companion (or any other), a size of body text."""
        rng = random.Random(f"holotron drawn web fonts {seed} {period}")
        plain = [face for face in self._faces if face.languages and not face.slanted and not face.bold]
        plain = plain or [face for face in self._faces if face.languages]
        bold = {face.family: face for face in self._faces if face.bold and not face.slanted}
        weights = [face.weight * (0.15 if face.fixed_pitch else 1.0) for face in plain]
        chosen = rng.choices(plain, weights, k=STYLES)
        return [
            (face, bold.get(face.family, rng.choice(plain)), rng.choice(self._type_sizes or BODY)) for face in chosen
        ]

    @lru_cache(maxsize=4)  # noqa: B019 (a painter lives as long as its process)
    def _in_use(self, seed: int, period: int) -> list[tuple[Typeface, float]]:
        """The typefaces and sizes of a stretch of pages. Few enough that their letters stay drawn."""
        rng = random.Random(f"holotron drawn fonts {seed} {period}")
        faces = rng.choices(self._faces, [face.weight for face in self._faces], k=STYLES)
        styles = [(face, float(rng.choice(self._type_sizes or TYPE_SIZES))) for face in faces]
        usable = [(face, size) for face, size in styles if face.languages]
        return usable or [(next(face for face in self._faces if face.languages), size) for _, size in styles]

    def paint(self, seed: int, index: int) -> Page:
        rng = random.Random(f"holotron drawn page {seed} {index} {self._held_out}")
        size = rng.choice(self._sizes)
        paint = self._paint_web if size.width >= WEB else self._paint_small
        brush, face = paint(rng, size, seed, index // PERIOD)
        words = brush.words
        origin = {"maker": "drawn", "seed": seed, "index": index, "held_out": self._held_out, "size": str(size),
                  "font": face.family, "language": words.language, "voice": words.voice}  # fmt: skip
        canvas = brush.canvas
        return Page(
            id=f"drawn-{seed}-{index:09d}",
            image=canvas.pixels,
            scale=size.scale,
            elements=tuple(canvas.elements),
            text=canvas.text(),
            origin=origin,
        )

    def _paint_small(self, rng: random.Random, size: Size, seed: int, period: int) -> tuple[Brush, Typeface]:
        styles = self._in_use(seed, period)
        (face, type_size), second = rng.choice(styles), rng.choice(styles)
        brush = Brush(rng, self._words(rng, face), face, type_size, second, size)
        if rng.random() < 0.25:
            brush.scatter()
        else:
            columns = 2 if size.width > 200 and rng.random() < 0.4 else 1
            for nth in range(columns):
                width = size.width / columns
                brush.fill(nth * width + rng.uniform(1, 8), rng.uniform(1, 14), width - 10)
        return brush, face

    def _paint_web(self, rng: random.Random, size: Size, seed: int, period: int) -> tuple[Brush, Typeface]:
        face, bold, type_size = rng.choice(self._of_the_web(seed, period))
        brush = WebPage(rng, self._words(rng, face), face, bold, type_size, size)
        brush.page()
        return brush, face

    def _words(self, rng: random.Random, face: Typeface) -> Words:
        spoken = tuple(language for language in face.languages if language in self._languages)
        return draw_words(rng, spoken or face.languages)


def store_drawn(folder: Path, painter: Painter, *, seed: int, pages: int, shard_pages: int = 512) -> float:
    """Paint pages 0 .. pages - 1 into shards, with samples; the pages painted per second (storing apart)."""
    painting = 0.0
    for first in range(0, pages, shard_pages):
        count = min(shard_pages, pages - first)
        if pages_in_shard(folder, first // shard_pages) >= count:
            continue
        rows = []
        for index in range(first, first + count):
            started = time.perf_counter()
            page = painter.paint(seed, index)
            painting += time.perf_counter() - started
            samples = make_samples(page.elements, page.text, random.Random(f"holotron samples {page.id}"))
            rows.append(to_row(replace(page, samples=tuple(samples))))
        write_shard(folder, first // shard_pages, rows, count)
    return pages / painting if painting else 0.0
