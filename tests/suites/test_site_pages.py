"""The localisation set of web apps: small targets on held-out looks, the same every time."""

from __future__ import annotations

from pathlib import Path

import pytest

from holotron.data.describing import DescribedScreen
from holotron.data.shards import content_hash, iter_pages
from holotron.data.targets import mistakable
from holotron.sites.looks import THEMES
from holotron.sites.variation import Variation
from holotron.suites.site_pages import MEDIAN_AREA, make_site_pages

pytestmark = pytest.mark.browser


def test_targets_are_small_and_the_set_is_the_same_each_time(tmp_path: Path) -> None:
    made = make_site_pages(tmp_path / "one", pages=6)
    assert made.samples >= 6 and made.median_area <= MEDIAN_AREA
    held_out = {theme.name for theme in THEMES if theme.held_out}
    for page in iter_pages(tmp_path / "one"):
        assert page.image.shape == (720, 1280, 3)
        origin = page.origin
        assert Variation.draw(origin["task"], origin["seed"], origin["split"]).theme.name in held_out
        screen = DescribedScreen(page.elements, page.text)
        for sample in page.samples:
            target = next(e for e in page.elements if e.box == pytest.approx(sample.box, abs=0.01))
            assert target.exposed and mistakable(screen, target)
    again = make_site_pages(tmp_path / "two", pages=6, sessions=1)
    assert again == made and again.hash == content_hash(tmp_path / "two")
