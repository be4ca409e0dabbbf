"""Screenshot deltas: what is left out was there before, to the pixel, and a token stream says where everything is."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from holotron.errors import ConfigError
from holotron.model.processor import Deltas, ImageConfig, Processor, Prompt, Run, to_tiles
from holotron.model.processor.deltas import ADDRESS, SIGNS, apply_runs, changed_groups, copy_groups, runs_of, whole_runs

CONFIG = ImageConfig(tile_size=64, patch_size=8, max_tiles=4)  # groups of 16 pixels, 16 of them a tile
PROCESSOR = Processor.for_bytes(CONFIG)
IMAGE = 256


def screenshot(seed: int, width: int = 128, height: int = 128) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def changed(image: np.ndarray, seed: int, patches: int) -> np.ndarray:
    """Some rectangles painted anew."""
    rng, result = random.Random(seed), image.copy()
    height, width = image.shape[:2]
    for _ in range(patches):
        left, top = rng.randrange(width), rng.randrange(height)
        result[top : top + rng.randint(1, height // 2), left : left + rng.randint(1, width // 2)] = rng.randrange(256)
    return result


def tokens(prompt: Prompt) -> int:
    return prompt.ids.count(IMAGE)


def read_back(prompt: Prompt) -> list[tuple[str, int]]:
    """The stream as a model reads it: addresses, each with the number of image tokens after it."""
    (image,) = prompt.images
    inside = prompt.ids[image.start : image.start + image.length]
    assert chr(inside[0]) == "="
    found: list[tuple[str, int]] = []
    place = 1
    while place < len(inside):
        address = "".join(map(chr, inside[place : place + ADDRESS]))
        place += ADDRESS
        count = 0
        while place < len(inside) and inside[place] == IMAGE:
            count, place = count + 1, place + 1
        found.append((address, count))
    return found


cases = st.tuples(st.integers(0, 99), st.integers(0, 6), st.sampled_from([(128, 128), (64, 64), (128, 64), (100, 90)]))


@settings(max_examples=60)
@given(cases)
def test_the_kept_groups_and_the_frame_before_give_the_new_frame(case: tuple[int, int, tuple[int, int]]) -> None:
    seed, patches, (width, height) = case
    before = screenshot(seed, width, height)
    now = changed(before, seed + 1, patches)
    old, new = to_tiles(before, CONFIG), to_tiles(now, CONFIG)
    runs = list(runs_of(changed_groups(old, new, CONFIG)))
    assert torch.equal(apply_runs(old, new, runs, CONFIG), new)
    kept = {(run.tile, group) for run in runs for group in range(run.first, run.first + run.count)}
    really = {(int(tile), int(group)) for tile, group in changed_groups(old, new, CONFIG).nonzero()}
    assert really <= kept
    for a, b in pairwise(runs):  # in order, apart, and apart by more than an address costs
        assert (a.tile, a.first) < (b.tile, b.first)
        assert a.tile != b.tile or b.first - (a.first + a.count) > ADDRESS


@pytest.mark.parametrize("patch", [8, 7])  # groups of 16 pixels, which are compared as words, and of 14, which are not
def test_exactly_the_groups_that_differ_and_exactly_those_are_copied(patch: int) -> None:
    config, step, dice = (
        ImageConfig(tile_size=8 * patch, patch_size=patch, max_tiles=4),
        2 * patch,
        random.Random(patch),
    )
    for _ in range(30):
        first = dice.randrange(16)
        run = Run(1, first, dice.randint(1, 16 - first))
        before, now = (torch.randint(lowest, lowest + 9, (3, 3, 8 * patch, 8 * patch)).byte() for lowest in (0, 50))
        taken = torch.zeros(3, 16, dtype=torch.bool)
        taken[1, first : first + run.count] = True
        after = before.clone()
        copy_groups(after[1], now[1], run, step)
        mask = taken.view(3, 1, 4, 4).repeat_interleave(step, 2).repeat_interleave(step, 3)
        assert torch.equal(after, torch.where(mask, now, before))
        assert torch.equal(changed_groups(before, after, config), taken)
        assert torch.equal(changed_groups(before, after, config, tolerance=5), taken)


@settings(max_examples=40)
@given(cases)
def test_the_stream_tells_every_position(case: tuple[int, int, tuple[int, int]]) -> None:
    """Addresses and counts in the tokens are the runs, and nothing else is needed to know where a group belongs."""
    seed, patches, (width, height) = case
    before = screenshot(seed, width, height)
    first = PROCESSOR.encode_image(before, Deltas())
    second = PROCESSOR.encode_image(changed(before, seed + 1, patches), Deltas().after(first))
    (image,) = second.images
    whole = PROCESSOR.encode_image(changed(before, seed + 1, patches))
    assert len(second) <= len(whole)
    if image.runs is None:
        assert second.ids == whole.ids
        return
    told = [Run(SIGNS.index(a[0]), 4 * SIGNS.index(a[1]) + SIGNS.index(a[2]), n) for a, n in read_back(second)]
    assert told == list(image.runs)
    for run, place in zip(image.runs, image.places, strict=True):
        assert second.ids[image.start + place : image.start + place + run.count] == [IMAGE] * run.count


def test_no_change_costs_the_mark_and_nothing_else() -> None:
    picture = screenshot(1)
    first = PROCESSOR.encode_image(picture, Deltas())
    again = PROCESSOR.encode_image(picture.copy(), Deltas().after(first))
    assert again.ids == [257, ord("="), 258]
    assert again.images[0].runs == ()
    assert again.images[0].base == first.images[0].screen.key == again.images[0].screen.key  # type: ignore[union-attr]


def test_everything_changed_is_what_there_is_without_deltas() -> None:
    first = PROCESSOR.encode_image(screenshot(1), Deltas())
    plain, told = PROCESSOR.encode_image(screenshot(2)), PROCESSOR.encode_image(screenshot(2), Deltas().after(first))
    assert told.ids == plain.ids
    assert told.images[0].runs is None
    assert told.images[0].keys == plain.images[0].keys
    assert first.ids == PROCESSOR.encode_image(screenshot(1)).ids  # and so is the first picture


def test_another_size_is_shown_whole_even_with_as_many_tiles() -> None:
    flat = np.full((64, 128, 3), 9, np.uint8)
    first = PROCESSOR.encode_image(flat, Deltas())
    upright = PROCESSOR.encode_image(np.ascontiguousarray(flat.transpose(1, 0, 2)), Deltas().after(first))
    assert len(upright.images[0].keys) == len(first.images[0].keys)
    assert upright.images[0].runs is None


def test_tolerance_forgives_noise_but_does_not_let_it_add_up() -> None:
    picture = np.full((128, 128, 3), 100, np.uint8)
    deltas = Deltas(tolerance=4)
    prompt = PROCESSOR.encode_image(picture, deltas)
    deltas = deltas.after(prompt)
    seen = []
    for _ in range(5):
        picture = picture + 3
        prompt = PROCESSOR.encode_image(picture, deltas)
        deltas = deltas.after(prompt)
        seen.append(tokens(prompt))
    whole = tokens(PROCESSOR.encode_image(picture))
    assert seen == [0, whole, 0, whole, 0]  # 3 is forgiven, 6 is not: the comparison is with what was shown
    assert tokens(PROCESSOR.encode_image(picture + 1, Deltas().after(prompt))) == whole
    with pytest.raises(ConfigError, match="between 0 and 255"):
        Deltas(tolerance=-1)


def test_what_was_shown_is_kept_where_only_a_part_was_forgiven() -> None:
    before = np.full((64, 64, 3), 100, np.uint8)
    first = PROCESSOR.encode_image(before, Deltas(tolerance=4))
    noisy = before + 2
    noisy[:16, :16] = 200
    second = PROCESSOR.encode_image(noisy, Deltas(tolerance=4).after(first))
    assert second.images[0].runs == (Run(0, 0, 1),)
    shown = second.images[0].screen
    assert shown is not None
    expected = before.copy()
    expected[:16, :16] = 200
    assert np.array_equal(shown.tiles[0].permute(1, 2, 0).numpy(), expected)


def test_pictures_of_one_request_follow_each_other() -> None:
    before = screenshot(3)
    now = changed(before, 4, 1)
    parts = [{"type": "image", "image": picture} for picture in (before, now, now)]
    prompt = PROCESSOR.render([{"role": "user", "content": parts}], deltas=Deltas())
    first, second, third = prompt.images
    assert first.runs is None
    assert second.runs
    assert second.base == first.screen.key  # type: ignore[union-attr]
    assert third.runs == ()
    reply = [*b"ok", 260]
    more = PROCESSOR.bridge(
        [{"role": "user", "content": parts[:1]}], [*prompt.ids, *reply], deltas=Deltas().after(prompt)
    )
    (back,) = more.images
    assert back.base == third.screen.key  # type: ignore[union-attr]
    for run, place in zip(back.runs or (), back.places, strict=True):
        assert more.ids[back.start + place : back.start + place + run.count] == [IMAGE] * run.count
    assert more.ids[back.start - 1] == 257


def test_a_trainer_is_told_the_rows_of_every_image_token() -> None:
    before = screenshot(5)
    now = before.copy()
    now[70:75, 70:75] = 0  # in the last of the four tiles, and in the thumbnail
    first = PROCESSOR.encode_image(before, Deltas())
    (image,) = PROCESSOR.encode_image(now, Deltas().after(first)).images
    assert image.runs is not None and image.shown == image.runs
    assert {run.tile for run in image.shown} == {3, 4}
    assert first.images[0].shown == whole_runs(5, 16)


def test_pictures_too_large_to_address_are_refused_clearly() -> None:
    from holotron.model.processor.deltas import address

    with pytest.raises(ConfigError, match="62 tiles, rows and columns"):
        address(Run(0, 70, 1), columns=100)
    assert address(Run(2, 35, 4), columns=16) == "223"
