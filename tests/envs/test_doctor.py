"""The click chain, end to end, and that its check can fail."""

from __future__ import annotations

import asyncio

import pytest

from holotron.envs.doctor import check_browser, click_accuracy, image_to_view

pytestmark = pytest.mark.browser


def test_clicks_land_within_a_pixel_at_odd_sizes_and_every_scale():
    checks = asyncio.run(click_accuracy([(641, 477), (161, 211)], [1.0, 1.5, 2.0, 3.0]))
    checks += asyncio.run(click_accuracy([(1003, 701)], [1.5]))
    assert len(checks) == 9
    for check in checks:
        assert check.ok, check
        assert check.clicks == 9
        width, height = check.viewport
        assert abs(check.image_size[0] - width * check.scale) <= 1
        assert abs(check.image_size[1] - height * check.scale) <= 1


def test_a_chain_that_forgets_the_scale_factor_is_found_out():
    forgetful = asyncio.run(
        click_accuracy([(200, 150)], [1.5], convert=lambda point, _: tuple(min(v, 140) for v in point))
    )
    assert not forgetful[0].ok
    shifted = asyncio.run(
        click_accuracy([(200, 150)], [2.0], convert=lambda point, seen: (image_to_view(point, seen)[0] + 3, 20.0))
    )
    assert not shifted[0].ok


def test_the_browser_is_described():
    check = asyncio.run(check_browser())
    assert check.version.split(".")[0].isdigit()
    assert check.executable.is_file()
    assert "Latin" not in check.missing_glyphs
