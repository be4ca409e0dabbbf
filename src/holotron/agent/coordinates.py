"""Where is (412, 733)? The one place that knows.

A model points in its own *frame*; an `Action` speaks in CSS pixels of the viewport. Between them lie the size of the
image as the model saw it (it may have been resized on the way), the device scale factor of the screenshot, and the
viewport. Everything goes through fractions of the screen, so neither the scale factor nor a resize has to be known.

    frame      a point is                                            used by
    pixels     whole pixels of the image as the model saw it         Holo1, Holo1.5, Surfer-H
    thousand   whole numbers 0-1000 across and down                  Holo2, Holo3, Holotron
    cells      whole numbers 0-999, a grid of 1000 x 1000 cells      the compact dialect (always three digits)
    unit       fractions 0-1                                         some others

A frame is declared, never guessed from the numbers: (0, 1) is a legal point in all four. The grids are fine enough for
one CSS pixel on viewports of up to 2000 pixels a side.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from holotron.actions import InvalidAction
from holotron.types import Action, Drag, Observation, Scroll

Size = tuple[int, int]


class Frame(StrEnum):
    PIXELS = "pixels"
    THOUSAND = "thousand"
    CELLS = "cells"
    UNIT = "unit"


@dataclass(frozen=True, slots=True)
class Screen:
    """What coordinates refer to: the image as the model saw it, and the page's viewport in CSS pixels."""

    image: Size
    viewport: Size

    @classmethod
    def of(cls, observation: Observation) -> Screen:
        """The screen when the screenshot is shown to the model as taken."""
        return cls(observation.image_size, observation.viewport)


def frame_schema(frame: Frame) -> dict[str, Any]:
    """JSON schema of one coordinate."""
    match frame:
        case Frame.PIXELS:
            return {"type": "integer", "minimum": 0}
        case Frame.THOUSAND:
            return {"type": "integer", "minimum": 0, "maximum": 1000}
        case Frame.CELLS:
            return {"type": "integer", "minimum": 0, "maximum": 999}
        case Frame.UNIT:
            return {"type": "number", "minimum": 0, "maximum": 1}


def frame_sentence(frame: Frame, screen: Screen | None = None) -> str:
    """The same for people and models, in words."""
    match frame:
        case Frame.PIXELS:
            size = f" The screenshot is {screen.image[0]} x {screen.image[1]} pixels." if screen else ""
            return f"Coordinates are whole pixels of the screenshot, (0, 0) is its top left corner.{size}"
        case Frame.THOUSAND:
            return (
                "Coordinates are whole numbers from 0 to 1000 relative to the screenshot: (0, 0) is its top left "
                "corner, (1000, 1000) its bottom right corner."
            )
        case Frame.CELLS:
            return "Coordinates are whole numbers from 0 to 999 relative to the screenshot, (0, 0) is its top left."
        case Frame.UNIT:
            return (
                "Coordinates are fractions from 0 to 1 of the screenshot's width and height, (0, 0) is its top left "
                "corner."
            )


# ---------------------------------------------------------------------------------------------------------- one axis

_EDGE = 0.1  # the far edge itself is already outside: a click there would miss the page


def _to_page(frame: Frame, value: float, image: int, viewport: int, name: str) -> float:
    match frame:
        case Frame.PIXELS:
            limit, place, whole = image, value, image
        case Frame.THOUSAND:
            limit, place, whole = 1000, value, 1000
        case Frame.CELLS:
            limit, place, whole = 999, value + 0.5, 1000
        case Frame.UNIT:
            limit, place, whole = 1, value, 1
    if not (math.isfinite(value) and 0 <= value <= limit):
        raise InvalidAction(f"{name} = {value:g} is off the screen; it must be between 0 and {limit}")
    # Multiplied first: pixel 62 of 3840 stays pixel 62, and not 62.00000000000001, which is past the edge of a box.
    return min(place * viewport / whole, viewport - min(_EDGE, viewport / 1500))  # in the last of a thousand cells


def _to_model(frame: Frame, value: float, image: int, viewport: int) -> float:
    fraction = min(max(value / viewport, 0.0), 1.0)
    match frame:
        case Frame.PIXELS:
            return min(round(fraction * image), image - 1)
        case Frame.THOUSAND:
            return round(fraction * 1000)
        case Frame.CELLS:
            return min(math.floor(fraction * 1000), 999)
        case Frame.UNIT:
            return round(fraction, 5)


def _distance_to_page(frame: Frame, value: float, image: int, viewport: int) -> float:
    unit = {Frame.PIXELS: image, Frame.THOUSAND: 1000, Frame.CELLS: 1000, Frame.UNIT: 1}[frame]
    return value * viewport / unit


def _distance_to_model(frame: Frame, value: float, image: int, viewport: int) -> float:
    unit = {Frame.PIXELS: image, Frame.THOUSAND: 1000, Frame.CELLS: 1000, Frame.UNIT: 1}[frame]
    scaled = value * unit / viewport
    return round(scaled, 5) if frame is Frame.UNIT else max(round(scaled), 1)  # 0 would mean "most of a page"


# ------------------------------------------------------------------------------------------------------------ points


def point_to_page(frame: Frame, screen: Screen, x: float, y: float) -> tuple[float, float]:
    """A model's point -> CSS pixels of the viewport. Raises `InvalidAction` for a point off the screen."""
    (image_w, image_h), (view_w, view_h) = screen.image, screen.viewport
    return _to_page(frame, x, image_w, view_w, "x"), _to_page(frame, y, image_h, view_h, "y")


def point_to_model(frame: Frame, screen: Screen, x: float, y: float) -> tuple[float, float]:
    """CSS pixels of the viewport -> the model's point (whole numbers in every frame but `unit`)."""
    (image_w, image_h), (view_w, view_h) = screen.image, screen.viewport
    return _to_model(frame, x, image_w, view_w), _to_model(frame, y, image_h, view_h)


# ----------------------------------------------------------------------------------------------------------- actions


def action_to_page(frame: Frame, screen: Screen, action: Action) -> Action:
    """An action as the model said it -> the same action in CSS pixels."""
    return _convert(action, frame, screen, to_page=True)


def action_to_model(frame: Frame, screen: Screen, action: Action) -> Action:
    """An action in CSS pixels -> the same action as the model would say it."""
    return _convert(action, frame, screen, to_page=False)


def _convert(action: Action, frame: Frame, screen: Screen, *, to_page: bool) -> Action:
    point = point_to_page if to_page else point_to_model
    if isinstance(action, Drag):
        x1, y1 = point(frame, screen, action.x1, action.y1)
        x2, y2 = point(frame, screen, action.x2, action.y2)
        return Drag(x1, y1, x2, y2)
    if isinstance(action, Scroll) and action.amount:
        distance = _distance_to_page if to_page else _distance_to_model
        axis = 1 if action.direction in ("up", "down") else 0
        amount = distance(frame, action.amount, screen.image[axis], screen.viewport[axis])
        action = dataclasses.replace(action, amount=amount)
    x, y = getattr(action, "x", None), getattr(action, "y", None)
    if x is None or y is None:
        return action
    x, y = point(frame, screen, x, y)
    return dataclasses.replace(action, x=x, y=y)  # type: ignore[arg-type]
