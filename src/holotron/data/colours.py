"""Colours by name, for instructions such as "click the red button". A colour between two names has none."""

from __future__ import annotations

import colorsys
import re

RGB = tuple[int, int, int]

# Hue ranges in degrees that nearly everyone gives the same name. The gaps are disputed ground.
_HUES = ((0, 12, "red"), (24, 40, "orange"), (48, 64, "yellow"), (90, 155, "green"), (175, 192, "cyan"),
         (208, 245, "blue"), (265, 290, "purple"), (310, 338, "pink"), (350, 360, "red"))  # fmt: skip
# Beyond these, people say something else: maroon, salmon, olive, ochre.
_LIGHTNESS = {"yellow": (0.42, 0.82), "orange": (0.42, 0.82), "pink": (0.45, 0.9), "red": (0.24, 0.68)}
NAMES = ("red", "orange", "yellow", "green", "cyan", "blue", "purple", "pink", "brown", "black", "white", "grey")
UNCLEAR = "unclear"


def colour_name(rgb: RGB) -> str:
    """The everyday name of a colour; `UNCLEAR` when people would not agree on one, "" for pale and dull ones."""
    red, green, blue = (channel / 255 for channel in rgb)
    hue, lightness, saturation = colorsys.rgb_to_hls(red, green, blue)
    hue *= 360
    chroma = max(red, green, blue) - min(red, green, blue)
    if chroma < 0.06:
        return "black" if lightness < 0.12 else "white" if lightness > 0.97 else "grey" if 0.3 < lightness < 0.8 else ""
    if chroma < 0.3:
        return ""
    if 15 <= hue <= 35 and 0.15 < lightness < 0.36:
        return "brown"
    name = next((name for low, high, name in _HUES if low <= hue <= high), UNCLEAR)
    darkest, lightest = _LIGHTNESS.get(name, (0.24, 0.82))
    return name if saturation > 0.4 and darkest < lightness < lightest else UNCLEAR


def parse_css(colour: str) -> tuple[RGB, float] | None:
    """`rgb(1, 2, 3)` or `rgba(1, 2, 3, 0.5)`, as browsers compute colours, to channels and opacity."""
    numbers = re.findall(r"[\d.]+", colour)
    if not colour.startswith("rgb") or len(numbers) < 3:
        return None
    red, green, blue = (round(float(number)) for number in numbers[:3])
    return (red, green, blue), float(numbers[3]) if len(numbers) > 3 else 1.0


def hsl(hue: float, saturation: float, lightness: float) -> RGB:
    """Degrees, and two fractions."""
    red, green, blue = colorsys.hls_to_rgb(hue % 360 / 360, min(max(lightness, 0), 1), min(max(saturation, 0), 1))
    return round(red * 255), round(green * 255), round(blue * 255)


def to_hex(rgb: RGB) -> str:
    return "#{:02x}{:02x}{:02x}".format(*rgb)


def from_hex(text: str) -> RGB:
    return int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16)


def luminance(rgb: RGB) -> float:
    def linear(channel: int) -> float:
        value = channel / 255
        return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4

    red, green, blue = (linear(channel) for channel in rgb)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(a: RGB, b: RGB) -> float:
    """WCAG contrast, from 1 to 21."""
    dark, light = sorted((luminance(a), luminance(b)))
    return (light + 0.05) / (dark + 0.05)


def mix(a: RGB, b: RGB, share: float) -> RGB:
    """`share` of b in a."""
    red, green, blue = (round(x + (y - x) * share) for x, y in zip(a, b, strict=True))
    return red, green, blue


def readable_on(background: RGB) -> RGB:
    """Near-black or near-white, whichever is easier to read there."""
    dark, light = (24, 24, 27), (255, 255, 255)
    return light if contrast(light, background) > contrast(dark, background) else dark


def legible(colour: RGB, background: RGB, least: float = 4.0) -> RGB:
    """The colour, moved towards black or white until it can be read on the background."""
    goal = readable_on(background)
    for step in range(11):
        moved = mix(colour, goal, step / 10)
        if contrast(moved, background) >= least:
            return moved
    return goal
