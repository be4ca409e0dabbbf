"""History policies select by rule: pure, bounded where they promise it, append-only where they promise it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holotron.agent.coordinates import Screen
from holotron.agent.history import Append, Epoch, Turn, Window, parse_history
from holotron.agent.images import Image
from holotron.errors import ConfigError
from holotron.types import Observation


def turns(count: int, blind: set[int] = frozenset()) -> list[Turn]:
    observation = Observation(b"", "image/png", (10, 10), (10, 10))
    return [
        Turn(
            index,
            observation,
            None if index in blind and index > 0 else Image(bytes([index % 256]), "image/png", (10, 10)),
            Screen((10, 10), (10, 10)),
        )
        for index in range(count)
    ]


@given(count=st.integers(1, 60))
def test_append_shows_everything(count):
    view = Append().view(turns(count))
    assert view.images == len(view.shown) == count
    assert view.folded == ()


@given(count=st.integers(1, 60), images=st.integers(1, 5), blind=st.sets(st.integers(1, 60)))
def test_window_shows_the_last_images_and_all_text(count, images, blind):
    all_turns = turns(count, blind)
    view = Window(images).view(all_turns)
    assert [item.turn for item in view.shown] == all_turns
    with_image = [turn.index for turn in all_turns if turn.image]
    assert [item.turn.index for item in view.shown if item.image] == with_image[-images:]


@given(length=st.integers(1, 12), data=st.data(), count=st.integers(1, 80))
def test_epoch_is_bounded_and_append_only_between_restarts(length, data, count):
    keep = data.draw(st.integers(1, length))
    policy = Epoch(length, keep)
    views = [policy.view(turns(n)) for n in range(1, count + 1)]
    restarts = 0
    for n, view in enumerate(views, start=1):
        assert 1 <= len(view.shown) <= length
        assert len(view.folded) + len(view.shown) == n
        assert view.shown[-1].image is not None
        if n > 1:
            before = views[n - 2]
            if len(view.folded) != len(before.folded):
                restarts += 1
                assert len(view.shown) == keep
            else:
                assert view.shown[:-1] == before.shown
    if count > length:
        assert restarts == -(-(count - length) // (length + 1 - keep))


def test_epoch_never_leaves_the_model_blind():
    view = Epoch(3, 1).view(turns(4, blind={3}))
    assert len(view.folded) == 3
    assert view.shown[0].image == turns(4)[2].image


@pytest.mark.parametrize("name", ["append", "epoch:16,2", "window:3", "epoch:5,5"])
def test_names_round_trip(name):
    assert parse_history(name).name == name


def test_defaults():
    assert parse_history("epoch").name == "epoch:16,2"
    assert parse_history("window").name == "window:3"


@pytest.mark.parametrize(
    "name", ["", "none", "append:3", "window:x", "window:0", "epoch:2,3", "epoch:1,2,3", "window:1,2"]
)
def test_bad_names_are_refused(name):
    with pytest.raises(ConfigError, match="history"):
        parse_history(name)
