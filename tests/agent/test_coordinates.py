"""A point survives the way to the model and back to within one CSS pixel, whatever lies between."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holotron.actions import InvalidAction
from holotron.agent.coordinates import (
    Frame,
    Screen,
    action_to_model,
    action_to_page,
    frame_schema,
    point_to_model,
    point_to_page,
)
from holotron.agent.images import QWEN25
from holotron.types import Click, Drag, Scroll, Write

sides = st.integers(37, 1999)
scales = st.sampled_from([1.0, 1.5, 2.0, 3.0])


def screen_for(width: int, height: int, scale: float, *, resized: bool) -> Screen:
    image = round(width * scale), round(height * scale)
    return Screen(QWEN25.target(image) if resized else image, (width, height))


@given(frame=st.sampled_from(Frame), width=sides, height=sides, scale=scales, data=st.data())
def test_round_trip_within_one_pixel(frame, width, height, scale, data):
    screen = screen_for(width, height, scale, resized=False)
    x = data.draw(st.floats(0, width, exclude_max=True))
    y = data.draw(st.floats(0, height, exclude_max=True))
    back_x, back_y = point_to_page(frame, screen, *point_to_model(frame, screen, x, y))
    assert abs(back_x - x) <= 1.0
    assert abs(back_y - y) <= 1.0
    assert 0 <= back_x < width
    assert 0 <= back_y < height


@given(frame=st.sampled_from(Frame), width=st.integers(200, 1999), height=st.integers(200, 1999), scale=scales)
def test_model_side_resize_does_not_move_points(frame, width, height, scale):
    plain = screen_for(width, height, scale, resized=False)
    resized = screen_for(width, height, scale, resized=True)
    x, y = width * 0.37, height * 0.81
    first = point_to_page(frame, plain, *point_to_model(frame, plain, x, y))
    second = point_to_page(frame, resized, *point_to_model(frame, resized, x, y))
    assert first == pytest.approx(second, abs=2.0)
    assert second == pytest.approx((x, y), abs=1.1)  # the processor may shrink the image by a few pixels below 1:1


@given(width=sides, height=sides, scale=scales, value=st.integers(0, 999))
@example(width=37, height=37, scale=1.0, value=998)
def test_every_cell_maps_to_itself(width, height, scale, value):
    """What a small policy is taught to say is what it would say again."""
    screen = screen_for(width, height, scale, resized=False)
    x, y = point_to_page(Frame.CELLS, screen, value, value)
    assert point_to_model(Frame.CELLS, screen, x, y) == (value, value)


def test_worked_examples():
    # 1280x720 page, screenshot at device scale 2, shown to the model at 1260x700.
    screen = Screen((1260, 700), (1280, 720))
    assert point_to_page(Frame.PIXELS, screen, 630, 350) == (640, 360)
    assert point_to_page(Frame.THOUSAND, screen, 500, 250) == (640, 180)
    assert point_to_page(Frame.UNIT, screen, 0.25, 1.0) == (320, 719.9)
    assert point_to_page(Frame.CELLS, screen, 0, 999) == pytest.approx((0.64, 719.64))
    assert point_to_model(Frame.THOUSAND, screen, 640, 180) == (500, 250)
    assert isinstance(point_to_model(Frame.THOUSAND, screen, 640, 180)[0], int)


@pytest.mark.parametrize(
    ("frame", "x", "y"),
    [
        (Frame.THOUSAND, 1001, 5),
        (Frame.THOUSAND, -1, 5),
        (Frame.UNIT, 0.5, 1.01),
        (Frame.PIXELS, 641, 0),
        (Frame.CELLS, 1000, 0),
        (Frame.THOUSAND, float("nan"), 0),
    ],
)
def test_points_off_the_screen_are_refused_not_guessed(frame, x, y):
    with pytest.raises(InvalidAction, match="off the screen"):
        point_to_page(frame, Screen((640, 480), (640, 480)), x, y)


def test_actions_convert_every_coordinate_and_nothing_else():
    screen = Screen((2000, 1000), (1000, 500))
    assert action_to_page(Frame.PIXELS, screen, Drag(20, 40, 60, 80)) == Drag(10, 20, 30, 40)
    assert action_to_page(Frame.THOUSAND, screen, Write("a", 500, 500)) == Write("a", 500, 250)
    assert action_to_page(Frame.THOUSAND, screen, Write("a")) == Write("a")
    assert action_to_page(Frame.THOUSAND, screen, Scroll("down", 1000, 100, 100)) == Scroll("down", 500, 100, 50)
    assert action_to_model(Frame.THOUSAND, screen, Scroll("right", 250)) == Scroll("right", 250)
    assert action_to_model(Frame.THOUSAND, screen, Scroll("down", 0.1)).amount == 1  # never 0: that means a page
    assert action_to_model(Frame.PIXELS, screen, Click(10, 20, "ok")) == Click(20, 40, "ok")


def test_schema_bounds_match_what_is_accepted():
    screen = Screen((640, 480), (640, 480))
    for frame in (Frame.THOUSAND, Frame.CELLS, Frame.UNIT):
        schema = frame_schema(frame)
        point_to_page(frame, screen, schema["minimum"], schema["maximum"])
        with pytest.raises(InvalidAction):
            point_to_page(frame, screen, schema["maximum"] + 1, 0)
