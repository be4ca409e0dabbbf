"""A screen to paint on, which keeps the labels of what was painted.

Coordinates are CSS pixels; figures land on whole device pixels, letters on quarters of one, as in a browser.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from holotron.data.colours import RGB
from holotron.data.glyphs import FINE, face, typeface
from holotron.data.labels import Box, Element, Text, area


class Canvas:
    def __init__(self, width: float, height: float, scale: float, background: RGB) -> None:
        self.width, self.height, self.scale = width, height, scale
        tall, wide = round(height * scale), round(width * scale)
        self.pixels = np.frombuffer(bytearray(bytes(background) * (tall * wide)), np.uint8).reshape(tall, wide, 3)
        self.elements: list[Element] = []
        self._lines: list[tuple[str, np.ndarray, int]] = []

    # -------------------------------------------------------------------------------------------------------- figures

    def rectangle(self, box: Box, colour: RGB, *, radius: float = 0.0) -> None:
        left, top, right, bottom = self._device(box)
        if radius <= 0:
            self._plain(left, top, right, bottom, colour)
        elif right > left and bottom > top:
            r = min(round(radius * self.scale), (right - left) // 2, (bottom - top) // 2)
            self._plain(left, top + r, right, bottom - r, colour)
            if r > 0:
                self._plain(left + r, top, right - r, top + r, colour)
                self._plain(left + r, bottom - r, right - r, bottom, colour)
                corner = _corner(r)
                self.blend(corner, left, top, colour)
                self.blend(corner[:, ::-1], right - r, top, colour)
                self.blend(corner[::-1], left, bottom - r, colour)
                self.blend(corner[::-1, ::-1], right - r, bottom - r, colour)

    def _plain(self, left: int, top: int, right: int, bottom: int, colour: RGB) -> None:
        part = self.pixels[max(0, top) : max(0, bottom), max(0, left) : max(0, right)]
        if part.size:  # a whole line at a time: NumPy is slow at filling with three values
            part[:] = np.frombuffer(bytes(colour) * part.shape[1], np.uint8).reshape(-1, 3)

    def outlined(self, box: Box, fill: RGB, line: RGB, *, radius: float = 0.0, thick: float = 1.0) -> None:
        """A box with a border."""
        self.rectangle(box, line, radius=radius)
        left, top, right, bottom = box
        inner = (left + thick, top + thick, right - thick, bottom - thick)
        self.rectangle(inner, fill, radius=max(0.0, radius - thick))

    def polygon(self, box: Box, corners: Sequence[tuple[float, float]], colour: RGB) -> None:
        """A convex figure; its corners are fractions of the box, clockwise."""
        left, top, right, bottom = self._device(box)
        if right > left and bottom > top:
            self.blend(_polygon(right - left, bottom - top, tuple(corners)), left, top, colour)

    def disc(self, box: Box, colour: RGB) -> None:
        self.rectangle(box, colour, radius=1e6)

    def blend(self, mask: np.ndarray, left: int, top: int, colour: RGB) -> None:
        """Paint with a colour through a mask (uint8) whose top left corner is at this device pixel."""
        height, width = self.pixels.shape[:2]
        x, y = max(0, -left), max(0, -top)
        mask = (
            mask[y : height - top, x : width - left] if x or y else mask[: max(0, height - top), : max(0, width - left)]
        )
        if not mask.size:
            return
        left, top = max(0, left), max(0, top)
        under = self.pixels[top : top + mask.shape[0], left : left + mask.shape[1]]
        weight = mask.astype(np.uint16)[..., None]
        mixed = under * (255 - weight)
        mixed += np.asarray(colour, np.uint16) * weight + np.uint16(128)
        mixed += mixed >> 8  # with the shift below: division by 255
        under[:] = mixed >> 8

    def _device(self, box: Box) -> tuple[int, int, int, int]:
        left, top, right, bottom = (round(v * self.scale) for v in box)
        return left, top, right, bottom

    # ----------------------------------------------------------------------------------------------------------- text

    def write(
        self,
        text: str,
        x: float,
        y: float,
        font: Path,
        size: float,
        colour: RGB,
        *,
        element: int = -1,
        clip: float = 0.0,
    ) -> Box:
        """Write a line whose boxes begin at (x, y); give its box. Characters beyond the page, or the right edge `clip`,
        are left out."""
        type_ = typeface(font)
        above, below = type_.box_heights(size)
        scale, limit = self.scale, clip or self.width
        advances = [type_.advance(letter) * size for letter in text]
        edges = x + np.concatenate(([0.0], np.cumsum(advances)))
        count = int(np.searchsorted(edges[1:], limit + 0.5, side="right"))
        text = text[:count].rstrip(" ")
        count = len(text)
        if not count or y + above + below > self.height + 1 or y < 0 or x < 0:
            return x, y, x, y
        self._ink(text, edges, round((y + above) * scale), font, size * scale, colour)
        boxes = np.empty((count, 4), np.float32)
        boxes[:, 0], boxes[:, 2] = edges[:count], edges[1 : count + 1]
        boxes[:, 1], boxes[:, 3] = y, y + above + below
        self._lines.append((text, boxes, element))
        return x, y, float(edges[count]), y + above + below

    def _ink(self, text: str, edges: np.ndarray, base: int, font: Path, pixels: float, colour: RGB) -> None:
        glyphs, places = face(font, pixels), (edges * (self.scale * FINE)).astype(int).tolist()
        drawn = [
            (place // FINE, *glyphs.glyph(letter, place % FINE))
            for letter, place in zip(text, places, strict=False)
            if letter != " "
        ]
        left = min(pen + x for pen, x, _, _ in drawn)
        top = min(y for _, _, y, _ in drawn)
        right = max(pen + x + ink.shape[1] for pen, x, _, ink in drawn)
        bottom = max(y + ink.shape[0] for _, _, y, ink in drawn)
        mask = np.zeros((bottom - top, right - left), np.uint8)
        for pen, x, y, ink in drawn:
            part = mask[y - top : y - top + ink.shape[0], pen + x - left : pen + x - left + ink.shape[1]]
            np.maximum(part, ink, out=part)
        self.blend(mask, left, base + top, colour)

    # --------------------------------------------------------------------------------------------------------- labels

    def add(self, element: Element) -> int:
        """Note an element; its number, for the lines that belong to it, or -1 if it lies mostly outside the page."""
        left, top, right, bottom = element.box
        seen = (max(left, 0.0), max(top, 0.0), min(right, self.width), min(bottom, self.height))
        if area(seen) < 0.3 * area(element.box) or not area(seen):
            return -1
        self.elements.append(element if seen == element.box else replace(element, box=seen, exposed=False))
        return len(self.elements) - 1

    def text(self) -> Text:
        return Text.of(self._lines)


@lru_cache(maxsize=64)
def _corner(radius: int) -> np.ndarray:
    """Coverage of the top left quarter of a disc."""
    distance = np.arange(radius) + 0.5
    far = np.hypot(radius - distance[:, None], radius - distance[None, :])
    return np.rint(np.clip(radius - far + 0.5, 0, 1) * 255).astype(np.uint8)


@lru_cache(maxsize=256)
def _polygon(width: int, height: int, corners: tuple[tuple[float, float], ...]) -> np.ndarray:
    y, x = np.mgrid[0:height, 0:width] + 0.5
    inside = np.full((height, width), np.inf)
    points = [(a * width, b * height) for a, b in corners]
    for (x0, y0), (x1, y1) in zip(points, points[1:] + points[:1], strict=True):
        length = math.hypot(x1 - x0, y1 - y0)
        inside = np.minimum(inside, ((x1 - x0) * (y - y0) - (y1 - y0) * (x - x0)) / length)
    return np.rint(np.clip(inside + 0.5, 0, 1) * 255).astype(np.uint8)
