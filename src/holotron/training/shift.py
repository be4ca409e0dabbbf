"""Whole episodes moved across the screen: pictures, and the places that actions name, by the same number of pixels."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

from holotron.actions import action_to_json
from holotron.rollouts.recorded import RecordedEpisode
from holotron.types import Action, Answer, Click, DoubleClick, Drag, Hover, RightClick, Scroll, Write

MARGIN = 2.0  # CSS pixels that stay between a place of interest and the edge

Frames = dict[int | str, np.ndarray]


def shifted(episode: RecordedEpisode, frames: Frames, by: tuple[int, int]) -> tuple[RecordedEpisode, Frames]:
    """The episode as it would have been `by` pixels further right and down; itself if an action would fall off."""
    steps = []
    for step in episode.steps:
        height, width = frames[step.frame].shape[:2]
        x, y = by[0] * step.viewport[0] / width, by[1] * step.viewport[1] / height
        written = []
        for action in (step.action, step.label):
            moved = None if action is None else moved_action(action, x, y)
            if moved is not None and not _inside(moved, step.viewport):
                return episode, frames
            written.append(None if moved is None else json.dumps(action_to_json(moved)))
        steps.append(step._replace(action_json=written[0], label_json=written[1]))
    return episode._replace(steps=tuple(steps)), {frame: pushed(pixels, *by) for frame, pixels in frames.items()}


def moved_action(action: Action, x: float, y: float) -> Action:
    match action:
        case Drag():
            return Drag(action.x1 + x, action.y1 + y, action.x2 + x, action.y2 + y)
        case Click() | DoubleClick() | RightClick() | Hover():
            return replace(action, x=action.x + x, y=action.y + y)
        case Write() | Scroll() | Answer() if action.x is not None and action.y is not None:
            return replace(action, x=action.x + x, y=action.y + y)
    return action


def places(action: Action) -> list[tuple[float, float]]:
    match action:
        case Drag():
            return [(action.x1, action.y1), (action.x2, action.y2)]
        case Click() | DoubleClick() | RightClick() | Hover():
            return [(action.x, action.y)]
        case Write() | Scroll() | Answer() if action.x is not None and action.y is not None:
            return [(action.x, action.y)]
    return []


def _inside(action: Action, viewport: tuple[int, int]) -> bool:
    width, height = viewport
    return all(MARGIN <= x <= width - MARGIN and MARGIN <= y <= height - MARGIN for x, y in places(action))


def pushed(pixels: np.ndarray, right: int, down: int) -> np.ndarray:
    """What comes in at the edges has the colour of the upper left corner."""
    height, width = pixels.shape[:2]
    result = np.empty_like(pixels)
    result[:] = pixels[0, 0]
    result[max(down, 0) : height + min(down, 0), max(right, 0) : width + min(right, 0)] = pixels[
        max(-down, 0) : height - max(down, 0), max(-right, 0) : width - max(right, 0)
    ]
    return result
