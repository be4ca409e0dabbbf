"""Screenshot deltas on recorded episodes. HOLOTRON_RECORDED_SCREENS names a folder with one folder of screenshots for
each episode, such as the published WebVoyager examples; without it this test is skipped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from holotron.model.processor import Deltas, ImageConfig, Processor, decode_image
from holotron.model.processor.deltas import apply_runs

RECORDED = os.environ.get("HOLOTRON_RECORDED_SCREENS", "")
CONFIG = ImageConfig()
SCREENS = 3  # of each episode


@pytest.mark.slow
@pytest.mark.skipif(not RECORDED, reason="HOLOTRON_RECORDED_SCREENS names no folder of recorded episodes")
def test_recorded_screens_come_back_to_the_pixel_and_cost_less() -> None:
    processor = Processor.for_bytes(CONFIG)
    whole = told = 0
    for episode in sorted(path for path in Path(RECORDED).iterdir() if path.is_dir()):
        deltas = Deltas()
        for picture in sorted(episode.glob("*.png"), key=lambda path: (len(path.name), path.name))[:SCREENS]:
            prompt = processor.encode_image(decode_image(picture.read_bytes()), deltas)
            (image,) = prompt.images
            if image.runs is not None:
                assert deltas.screen is not None
                assert torch.equal(apply_runs(deltas.screen.tiles, image.tiles, image.runs, CONFIG), image.tiles)
            whole += processor.image_tokens(*image.size)
            told += len(prompt)
            deltas = deltas.after(prompt)
    assert 0 < told < 0.9 * whole
