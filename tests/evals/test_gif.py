"""An episode as a GIF: every step is a frame, the mark is where it clicked, and the right episode is shown."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from holotron.errors import ConfigError
from holotron.evals.gif import LAST_SECONDS, STEP_SECONDS, write_gif
from tests.evals.runs import make_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path / "run", {"click": "-+", "type": "+"}, steps=3, goal="Click it. " * 20)


def frames(path: Path) -> list[tuple[Image.Image, int]]:
    with Image.open(path) as film:
        found = []
        for number in range(film.n_frames):
            film.seek(number)
            found.append((film.convert("RGB"), film.info["duration"]))
        return found


def test_every_step_is_a_frame_with_its_mark(run, tmp_path):
    made = write_gif(run, tmp_path / "a.gif", width=320)
    shown = frames(made.path)
    assert made.bytes == made.path.stat().st_size
    # Steps that look alike may be one frame that stays longer.
    assert sum(seconds for _, seconds in shown) == 1000 * (3 * STEP_SECONDS + LAST_SECONDS)
    first, last = shown[0][0], shown[-1][0]
    assert first.size == last.size and first.width == 320

    def red(image: Image.Image) -> int:
        r, g, b = (np.asarray(channel) for channel in image.split())
        return int(((r > 180) & (g < 90) & (b < 90)).sum())

    assert red(first) > 20 and red(last) == 0


def test_a_success_is_chosen_or_whatever_is_named(run, tmp_path):
    assert write_gif(run, tmp_path / "a.gif").episode.startswith("toy/click/1")
    assert write_gif(run, tmp_path / "a.gif", episode="toy/type").episode.startswith("toy/type/0")
    assert write_gif(run, tmp_path / "a.gif", episode="toy/click/0").episode.startswith("toy/click/0")
    with pytest.raises(ConfigError, match=r"no finished episode that begins with 'toy/x'; it has toy/click"):
        write_gif(run, tmp_path / "b.gif", episode="toy/x")
    assert not (tmp_path / "b.gif").exists()
