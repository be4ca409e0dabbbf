"""A click as a model would say it: for proving that what a dialect says lands where it was meant.

    await click_accuracy(convert=spoken(make_dialect("surfer")))          # see holotron.envs.doctor

The point found on the screenshot is put into the dialect's words, in the frame of the image as that dialect's models
see it (resized, if they resize), and read back by the same parser that reads a model's replies.
"""

from __future__ import annotations

from collections.abc import Callable

from holotron.agent.coordinates import Frame, Screen, point_to_page
from holotron.agent.dialects.base import Dialect
from holotron.errors import InputError
from holotron.types import Click, Completion, Observation

Point = tuple[float, float]


def spoken(dialect: Dialect) -> Callable[[Point, Observation], Point]:
    """A converter from pixels of the screenshot to CSS pixels, by way of the dialect's own words."""

    def convert(point: Point, observation: Observation) -> Point:
        _, screen = dialect.look(observation)
        aim = point_to_page(Frame.PIXELS, Screen.of(observation), *point)
        text = dialect.render(Click(*aim), screen)
        action = dialect.parse(Completion(text), screen).action
        if not isinstance(action, Click):
            raise InputError(f"the {dialect.name} dialect does not read back its own click: {text!r}")
        return action.x, action.y

    return convert
