"""From a model's words to a pixel in real Chromium: every dialect and frame, odd sizes, every scale factor."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from holotron.agent.clicks import spoken
from holotron.agent.coordinates import Frame
from holotron.agent.dialects import make_dialect
from holotron.envs.doctor import click_accuracy

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SPEAKERS = [
    *(make_dialect("holotron", frame=frame) for frame in Frame),
    make_dialect("surfer"),
    make_dialect("tools"),
    make_dialect("compact"),
]


@pytest.mark.parametrize("viewport", [(1003, 701), (641, 977), (160, 210)])
def test_clicks_land_within_a_pixel(viewport):
    """Nine targets at each of four scale factors; every click is said by the next speaker in turn."""
    turns = itertools.cycle([spoken(speaker) for speaker in SPEAKERS])
    checks = asyncio.run(click_accuracy([viewport], convert=lambda point, screen: next(turns)(point, screen)))
    assert [check.scale for check in checks] == [1.0, 1.5, 2.0, 3.0]
    assert sum(check.clicks for check in checks) >= 4 * len(SPEAKERS)
    assert max(check.worst for check in checks) <= 1.0, checks
