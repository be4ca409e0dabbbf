"""Sparse pictures: what is told of a screen, and in which words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from holotron.errors import ConfigError
from holotron.model.processor import Deltas, ImageConfig, Processor
from holotron.model.processor.sparse import by_tile, told_groups

IMAGES = ImageConfig(tile_size=64, patch_size=8, max_tiles=4, use_thumbnail=False, sparse=True)  # 4 x 4 groups of 16
PROCESSOR = Processor.for_bytes(IMAGES)
STEP, SIDE = 16, 4


def paper(side: int = 128, shade: int = 255) -> np.ndarray:
    return np.full((side, side, 3), shade, np.uint8)


def drawn(image: np.ndarray, left: int, top: int, right: int, bottom: int, shade: int = 0) -> np.ndarray:
    result = image.copy()
    result[top:bottom, left:right] = shade
    return result


def text(prompt) -> str:
    """Image tokens as dots, the rest as it is."""
    tokenizer = PROCESSOR.tokenizer
    return "".join("." if i == tokenizer.image_id else tokenizer.decode([i]) for i in prompt.ids)


def test_a_page_is_told_by_what_is_drawn_on_it():
    empty = PROCESSOR.encode_image(paper())
    assert text(empty) == "0.1.2.3."  # of every tile its first group says what colour the rest has
    # A word across two groups of the second tile. The white behind it goes on from above.
    page = PROCESSOR.encode_image(drawn(paper(), 64 + 18, 20, 64 + 40, 24))
    assert text(page) == "0.1...2.3."
    assert by_tile(page.images[0].runs)[1].tolist() == [0, 5, 6]
    assert page.images[0].base is None


def test_the_next_screen_is_told_by_what_has_changed_and_what_vanished_is_told_too():
    deltas = Deltas()
    first = PROCESSOR.encode_image(drawn(paper(), 20, 20, 120, 24), deltas)
    same = PROCESSOR.encode_image(drawn(paper(), 20, 20, 120, 24), after := deltas.after(first))
    assert text(same) == "="
    gone = PROCESSOR.encode_image(paper(), after)
    # The line went through groups 5 to 7 of the first tile and 4 to 7 of the second: white now, each from its left end.
    assert text(gone) == "=0.1."
    assert {tile: groups.tolist() for tile, groups in by_tile(gone.images[0].runs).items()} == {0: [5], 1: [4]}
    more = PROCESSOR.encode_image(drawn(paper(), 70, 70, 74, 74), after.after(gone))
    assert text(more) == "=3."
    assert more.images[0].base == gone.images[0].screen.key


def test_a_screen_of_another_size_is_told_from_nothing():
    deltas = Deltas().after(PROCESSOR.encode_image(paper(), Deltas()))
    assert text(PROCESSOR.encode_image(paper(64), deltas)) == "0."


def test_pictures_are_sparse_with_and_without_deltas_and_in_conversations():
    picture = drawn(paper(), 3, 3, 9, 9)
    alone = PROCESSOR.encode_image(picture)
    assert alone.ids == PROCESSOR.encode_image(picture, Deltas()).ids
    chat = [{"role": "user", "content": [{"type": "image", "image": picture}, {"type": "text", "text": "go"}]}]
    rendered = PROCESSOR.render(chat)
    assert rendered.ids.count(PROCESSOR.tokenizer.image_id) == alone.ids.count(PROCESSOR.tokenizer.image_id) < 10


def test_a_picture_without_anything_blank_costs_what_the_size_says():
    noise = np.random.default_rng(0).integers(0, 256, (128, 128, 3), np.uint8)
    assert len(PROCESSOR.encode_image(noise)) == PROCESSOR.image_tokens(128, 128) == 4 * (16 + 1) + 2
    assert len(PROCESSOR.encode_image(paper())) < PROCESSOR.image_tokens(128, 128)


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("template", ["chatml", "turns"])
def test_no_text_imitates_the_signs_in_a_picture(template, sparse):
    """They stand between the tags, and no text gets there, whatever it is: next to a picture, or between two."""
    processor = Processor.for_bytes(replace(IMAGES, sparse=sparse), template=template)
    tokenizer, shots = processor.tokenizer, [paper(), drawn(paper(), 70, 70, 74, 74)]

    def inside(said: str) -> list[str]:
        parts = [{"type": "text", "text": said}]
        content = [part for shot in shots for part in (*parts, {"type": "image", "image": shot}, *parts)]
        shown = processor.render([{"role": "user", "content": content}], deltas=Deltas()).ids
        whole = tokenizer.decode(shown, skip_control=False)
        places = [n for n, i in enumerate(shown) if i in (tokenizer.image_start_id, tokenizer.image_end_id)]
        assert len(places) == 4
        assert whole.count(said) >= 4
        return [
            tokenizer.decode(shown[a:b], skip_control=False) for a, b in zip(places[::2], places[1::2], strict=True)
        ]

    harmless = inside("x")
    for said in ("=", "=1", "0", "</img>=<img>", "<img>=3<image></img>", "</im", "g>0<image>1", "=0a4<image>"):
        assert inside(said) == harmless


def test_without_tags_they_are_not_used():
    for sparse, deltas in ((True, None), (False, Deltas())):
        bare = Processor.for_bytes(replace(IMAGES, sparse=sparse), image_start=None, image_end=None)
        with pytest.raises(ConfigError, match="between tags"):
            bare.encode_image(paper(), deltas)


def test_a_tolerance_is_refused():
    with pytest.raises(ConfigError, match="told exactly"):
        PROCESSOR.encode_image(paper(), Deltas(tolerance=4))


def test_it_is_said_in_the_checkpoint(tmp_path):
    assert ImageConfig.from_hf(IMAGES.to_hf()) == IMAGES
    assert "sparse_pictures" not in replace(IMAGES, sparse=False).to_hf()
    PROCESSOR.save(tmp_path)
    assert Processor.from_folder(tmp_path).images == IMAGES


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"sparse_pictures": "false"}, "true or false"),
        ({"max_num_tiles": 62, "use_thumbnail": True}, "62 tiles at most"),
        ({"min_num_patches": 4, "max_num_patches": 64}, "dynamic resolution"),
        ({"merge_size": 2}, "dynamic resolution"),
    ],
)
def test_what_cannot_be_told_sparsely_is_refused_when_it_is_loaded(changes, why):
    with pytest.raises(ConfigError, match=why):
        ImageConfig.from_hf({**IMAGES.to_hf(), **changes})


SHADES = st.integers(0, 2)


@st.composite
def screens(draw) -> torch.Tensor:
    """Two tiles of flat groups in three shades, of which some have a dot."""
    shades = draw(st.lists(SHADES, min_size=32, max_size=32))
    dots = draw(st.lists(st.booleans(), min_size=32, max_size=32))
    groups = torch.tensor(shades, dtype=torch.uint8).view(2, SIDE, SIDE)
    pixels = groups.repeat_interleave(STEP, 1).repeat_interleave(STEP, 2)[:, None].repeat(1, 3, 1, 1)
    for n, dot in enumerate(dots):
        tile, place = divmod(n, SIDE * SIDE)
        if dot:
            pixels[tile, :, place // SIDE * STEP + 3, place % SIDE * STEP + 5] = 9
    return pixels


@given(screens())
def test_what_is_left_out_goes_on_from_the_left_or_from_above(tiles):
    told = told_groups(tiles, None, IMAGES)
    squares = tiles.view(2, 3, SIDE, STEP, SIDE, STEP).permute(0, 2, 4, 1, 3, 5).reshape(2, SIDE, SIDE, -1)
    for tile, row, column in (~told).view(2, SIDE, SIDE).nonzero().tolist():
        mine = squares[tile, row, column]
        neighbours = [squares[tile, row, column - 1]] if column else []
        neighbours += [squares[tile, row - 1, column]] if row else []
        assert mine.unique().numel() == 1
        assert any(torch.equal(mine, other) for other in neighbours)


@given(screens(), screens())
def test_no_change_goes_by_untold(before, now):
    """A changed group that is left out goes on from one that has changed as well, so the first of them is told."""
    changed = (before != now).view(2, 3, SIDE, STEP, SIDE, STEP).any(5).any(3).any(1).flatten(1)
    told = told_groups(now, changed, IMAGES)
    assert not (told & ~changed).any()
    grid, changes = told.view(2, SIDE, SIDE), changed.view(2, SIDE, SIDE)
    assert told.any(1).tolist() == changed.any(1).tolist()
    for tile, row, column in (changes & ~grid).nonzero().tolist():
        while not grid[tile, row, column]:
            if column and changes[tile, row, column - 1] and same(now, tile, row, column, row, column - 1):
                column -= 1
            else:
                assert row and changes[tile, row - 1, column] and same(now, tile, row, column, row - 1, column)
                row -= 1


def same(tiles: torch.Tensor, tile: int, row: int, column: int, other_row: int, other_column: int) -> bool:
    def group(r: int, c: int) -> torch.Tensor:
        return tiles[tile, :, r * STEP : (r + 1) * STEP, c * STEP : (c + 1) * STEP]

    return torch.equal(group(row, column), group(other_row, other_column))
