"""Letters as Chromium draws them, without Chromium: unhinted, grey, at quarters of a pixel.

A glyph is drawn four times too large and averaged down, which is what an unhinted antialiased glyph is. Compared with
Chromium's own text at the same place, coverage differs by less than a percent on average (there is a test). Everything
is cached, so that after a short while writing a line costs little more than copying it.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from holotron.data.fonts import USUAL
from holotron.data.pages.words import LANGUAGES, PUNCTUATION, alphabet

FINE = 4  # how much finer the grid is on which a glyph is first drawn, and placed
_UNITS = 1024  # pixels of the size at which widths are measured

Glyph = tuple[int, int, np.ndarray]  # left and top from the pen, pixels; coverage, uint8 [height, width]


def draw_letter(font: ImageFont.FreeTypeFont, letter: str) -> tuple[tuple[int, int], np.ndarray]:
    """Where its ink begins, from the pen on the base line, and the ink: uint8 [height, width]."""
    left, top, right, bottom = (round(edge) for edge in font.getbbox(letter, anchor="ls"))
    image = Image.new("L", (max(1, right - left), max(1, bottom - top)))
    ImageDraw.Draw(image).text((-left, -top), letter, fill=255, font=font, anchor="ls")
    return (left, top), np.asarray(image)


class Typeface:
    """One font file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._measure = ImageFont.truetype(path, _UNITS, layout_engine=ImageFont.Layout.BASIC)
        self._advances: dict[str, float] = {}

    @cached_property
    def family(self) -> str:
        return self._measure.getname()[0] or self.path.stem

    @cached_property
    def weight(self) -> float:
        """How often to use it, so that pages look like pages: mostly upright and regular, often the web's default."""
        usual = 5.0 if self.family in USUAL else 1.0
        return usual * (0.4 if self.slanted else 0.7 if self.bold else 1.5)

    @cached_property
    def slanted(self) -> bool:
        style = self._measure.getname()[1] or ""
        return "Italic" in style or "Oblique" in style

    @cached_property
    def bold(self) -> bool:
        return "Bold" in (self._measure.getname()[1] or "")

    @property
    def fixed_pitch(self) -> bool:
        return self.advance("i") == self.advance("M")

    @cached_property
    def languages(self) -> tuple[str, ...]:
        """Those whose every letter the font has."""
        small = ImageFont.truetype(self.path, 24, layout_engine=ImageFont.Layout.BASIC)
        missing = draw_letter(small, "\U0010fffd")[1].tobytes()
        alphabets = {language: set(alphabet(language)) for language in LANGUAGES}
        asked = set(PUNCTUATION).union(*alphabets.values())
        has = {letter for letter in asked if draw_letter(small, letter)[1].tobytes() != missing}
        if not has >= alphabets["en"] | set(PUNCTUATION):
            return ()
        return tuple(language for language, letters in alphabets.items() if has >= letters)

    @cached_property
    def metrics(self) -> tuple[float, float]:
        """Height above and below the base line, of the type size."""
        ascent, descent = self._measure.getmetrics()
        return ascent / _UNITS, descent / _UNITS

    def advance(self, letter: str) -> float:
        """Width, of the type size."""
        width = self._advances.get(letter)
        if width is None:
            width = self._advances[letter] = self._measure.getlength(letter) / _UNITS
        return width

    def box_heights(self, size: float) -> tuple[float, float]:
        """Above and below the base line, in whole CSS pixels, as Chromium reports the box of a character."""
        ascent, descent = (part * size for part in self.metrics)
        above, below = round(ascent), round(descent)
        # With text at fractions of a pixel, Chromium gives a pixel to the descent where rounding took from it.
        return (above - 1, below + 1) if below < descent else (above, below)


@lru_cache(maxsize=512)
def typeface(path: Path) -> Typeface:
    return Typeface(path)


class Face:
    """A typeface at a size in device pixels."""

    def __init__(self, path: Path, pixels: float) -> None:
        self._font = ImageFont.truetype(path, pixels * FINE, layout_engine=ImageFont.Layout.BASIC)
        self._glyphs: dict[str, tuple[Glyph, ...]] = {}

    def glyph(self, letter: str, phase: int) -> Glyph:
        """`phase`: how many quarters of a pixel the pen is right of a pixel's edge."""
        found = self._glyphs.get(letter)
        if found is None:
            found = self._glyphs[letter] = self._draw(letter)
        return found[phase]

    def _draw(self, letter: str) -> tuple[Glyph, ...]:
        (left, top), ink = draw_letter(self._font, letter)
        height, width = ink.shape
        y = top // FINE
        down = top - y * FINE
        rows = -(-(down + height) // FINE)
        glyphs = []
        for phase in range(FINE):
            x = (left + phase) // FINE
            along = left + phase - x * FINE
            columns = -(-(along + width) // FINE)
            fine = np.zeros((rows * FINE, columns * FINE), np.uint16)
            fine[down : down + height, along : along + width] = ink
            half = fine[0::4] + fine[1::4] + fine[2::4] + fine[3::4]
            total = half[:, 0::4] + half[:, 1::4] + half[:, 2::4] + half[:, 3::4]
            glyphs.append((x, y, ((total + FINE * FINE // 2) // (FINE * FINE)).astype(np.uint8)))
        return tuple(glyphs)


@lru_cache(maxsize=512)
def face(path: Path, pixels: float) -> Face:
    return Face(path, pixels)
