from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from holotron.data.labels import Text
from holotron.model.loading import load_model
from holotron.model.processor import ImageConfig, TiledImage, to_tiles
from holotron.model.weights import random_model
from holotron.training.balance import balance
from holotron.training.batches import pack
from holotron.training.distributed import ranks
from holotron.training.learner import LOSSES, Learner
from holotron.training.optimiser import Optimiser
from holotron.training.pages import census
from holotron.training.places import PlaceHead, PointingHead, token_at
from holotron.training.recipe import OptimiserPart
from holotron.training.samples import Sample, TokenSequence
from holotron.training.stream import conversation
from tests.training.support import small_config

CONFIG = small_config()
CPU = torch.device("cpu")
IMAGE = ImageConfig(tile_size=64, patch_size=16, max_tiles=4)  # four tokens to a tile


def whole(tiles: int, per_tile: int) -> np.ndarray:
    """What the placeholders of a picture show when all of it is shown."""
    return np.stack([np.repeat(np.arange(tiles), per_tile), np.tile(np.arange(per_tile), tiles)], 1).astype(np.int32)


@settings(max_examples=40, deadline=None)
@given(
    size=st.sampled_from([(64, 64), (128, 128), (128, 64), (96, 160)]),
    x=st.floats(0, 0.999),
    y=st.floats(0, 0.999),
)
def test_the_token_at_a_point_is_the_one_whose_pixels_hold_it(size, x, y):
    """Painted onto a black picture, the point must light up that token's square and no other of the full tiles."""
    width, height = size
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[int(y * height), int(x * width)] = 255
    tiles = to_tiles(pixels, IMAGE).float().sum(1)
    squares = tiles.unflatten(1, (2, 32)).unflatten(3, (2, 32)).sum((2, 4)).flatten(1)  # tile, row
    at = token_at(whole(len(tiles), 4), size, x, y, IMAGE)
    assert at is not None
    tile, row = divmod(at, 4)
    full = squares[:-1] if len(tiles) > 1 else squares  # the last is a thumbnail
    light = full[tile, row]
    assert light > 0
    # A picture that is resized spreads a pixel over its neighbours; most of it stays.
    assert light >= 0.24 * full.sum() if (width % 64 or height % 64) else light == full.sum()


def test_points_outside_or_on_what_is_not_shown_have_no_token():
    shown = whole(4, 4)
    assert token_at(shown, (128, 128), 1.0, 0.5, IMAGE) is None
    assert token_at(shown, (128, 128), 0.6, -0.1, IMAGE) is None
    at = token_at(shown, (128, 128), 0.6, 0.1, IMAGE)
    assert at == 4 and token_at(np.delete(shown, at, 0), (128, 128), 0.6, 0.1, IMAGE) is None


def test_pointing_is_a_softmax_over_each_picture():
    torch.manual_seed(0)
    head = PointingHead(8)
    parts, asking, labels = [torch.randn(5, 8), torch.randn(9, 8)], torch.randn(2, 8), [3, 7]
    loss = head(asking, torch.cat(parts), torch.tensor([0] * 5 + [1] * 9), torch.tensor([3, 5 + 7]))
    expected = 0.0
    for question, part, label in zip(asking, parts, labels, strict=True):
        seen = head.norm(part)
        scores = head.score(seen).flatten() + head.answer(seen) @ head.ask(head.norm(question)) / 8
        expected += F.cross_entropy(scores[None], torch.tensor([label])).item()
    assert loss.item() == pytest.approx(expected, rel=1e-5)


def test_pointing_learns_to_match_what_was_asked():
    """The right token is the one that resembles the question: no token is more likely than another by itself."""
    torch.manual_seed(0)
    head = PointingHead(16)
    optimiser = torch.optim.Adam(head.parameters(), 0.02)

    def lesson(pictures: int = 64, tokens: int = 10) -> torch.Tensor:
        hidden = torch.randn(pictures, tokens, 16)
        label = torch.randint(tokens, (pictures,))
        order = torch.arange(pictures)
        loss = head(hidden[order, label], hidden.flatten(0, 1), order.repeat_interleave(tokens), order * tokens + label)
        return loss / pictures

    first = lesson().item()
    for _ in range(150):
        optimiser.zero_grad()
        lesson().backward()
        optimiser.step()
    assert lesson().item() < 0.3 < 2 < first


def test_place_is_learnt_only_where_it_shows():
    """Rows that carry their place are told apart; rows that are all alike cannot be."""
    torch.manual_seed(0)
    head = PlaceHead(16, 2, 3)
    rows = torch.randn(1, 6, 16).repeat(4, 1, 1)
    optimiser = torch.optim.Adam(head.parameters(), 0.05)
    for _ in range(60):
        optimiser.zero_grad()
        head(rows).backward()
        optimiser.step()
    assert head(rows).item() / 24 < 0.2
    assert head(torch.ones(4, 6, 16)).item() / 24 > 1.5


def pointed(number: int, label: int) -> Sample:
    rng = np.random.default_rng(number)
    tiles = torch.from_numpy(rng.integers(0, 256, (1, 3, 64, 64), np.uint8))
    k = CONFIG.tokens_per_tile
    words = rng.integers(0, 250, 6)
    ids = np.concatenate([words[:3], np.full(k, CONFIG.tokens.image), words[3:]]).astype(np.int32)
    learn = np.arange(len(ids)) >= 3 + k
    points, aims = (np.array([[asking, 0, k, label]], np.int32) for asking in (2, 3 + k))
    return Sample(tiles, (TokenSequence(ids, learn, whole(1, k), points=points, aims=aims),))


def test_packed_pointing_is_that_of_each_picture_alone():
    """Losses of a packed batch are sums over its samples, whichever pictures are pointed into."""
    learner = Learner(random_model(CONFIG, dtype=torch.float64), LOSSES[1:])
    samples = [pointed(number, number % CONFIG.tokens_per_tile) for number in range(4)]

    def losses(some: list[Sample]) -> torch.Tensor:
        batch = pack(
            [s.tiles for s in some],
            [s.sequences for s in some],
            [None] * len(some),
            config=CONFIG,
            device=torch.device("cpu"),
        )
        assert learner.counts(batch)[-2:].tolist() == [len(some), len(some)]
        return learner(batch, learner.pixels(batch.tiles_n3HW))

    alone = torch.stack([losses([one]) for one in samples]).sum(0)
    assert torch.allclose(losses(samples), alone, rtol=1e-5)
    assert all(alone[LOSSES.index(name)] > 0 for name in ("pointing", "aiming", "place"))


@pytest.mark.parametrize("loss", ["pointing", "aiming"])
def test_pointing_teaches_what_the_last_attention_layer_will_look_at(loss):
    """Had it been asked at the end, later layers could answer it and the reply would never know."""
    learner = Learner(random_model(CONFIG), LOSSES[1:])
    sample = pointed(0, 1)
    batch = pack([sample.tiles], [sample.sequences], [None], config=CONFIG, device=torch.device("cpu"))
    learner(batch, learner.pixels(batch.tiles_n3HW))[LOSSES.index(loss)].backward()
    last = CONFIG.decoder.pattern.rindex("*")
    for number, layer in enumerate(learner.model.language_model.backbone.layers):
        taught = any(p.grad is not None and p.grad.abs().sum() > 0 for p in layer.parameters())
        assert taught == (number < last), number


def test_tiles_of_a_picture_are_numbered_and_those_that_nobody_numbers_do_not_count():
    learner = Learner(random_model(CONFIG), LOSSES[1:])
    k = CONFIG.tokens_per_tile
    tiles = torch.zeros((3, 3, 64, 64), dtype=torch.uint8)
    _, processor = load_model("tiny", device="cpu")
    parts = [{"type": "text", "text": "go"}, {"type": "image", "image": TiledImage(tiles, (128, 64))}] * 2
    messages = [{"role": "user", "content": parts}, {"role": "assistant", "content": "wait"}]
    counted, _ = conversation(processor, messages)
    assert counted.numbers is not None
    per_tile = len(counted.shown) // 6
    assert counted.numbers.tolist() == [n for _ in range(2) for n in range(3) for _ in range(per_tile)]

    known, unknown = pointed(0, 1), pointed(1, 1)
    numbered = replace(known.sequences[0], numbers=np.zeros(k, np.int32))
    packed = [
        pack([s.tiles for s in some], [[q] for q in asked], [None] * len(some), config=CONFIG, device=CPU)
        for some, asked in (
            ((known,), (numbered,)),
            ((known, unknown), (numbered, unknown.sequences[0])),
        )
    ]
    place = LOSSES.index("tile")
    assert [learner.counts(batch)[place].item() for batch in packed] == [k, k]
    alone, both = (learner(batch, learner.pixels(batch.tiles_n3HW))[place] for batch in packed)
    assert alone.item() > 0 and both.item() == pytest.approx(alone.item(), rel=1e-4)


def test_balance_makes_rows_of_pictures_and_text_equally_loud():
    model = random_model(CONFIG)
    assert model.mlp1 is not None
    with torch.no_grad():
        model.mlp1[-1].weight.mul_(40)
    learner = Learner(model)
    pixels = torch.randn(3, 3, 64, 64)
    direction = F.normalize(learner.see(pixels)[1], dim=-1)
    with ranks("cpu") as where:
        balance(learner, Optimiser(learner.named_parameters(), OptimiserPart()), pixels, where)
    rows = learner.see(pixels)[1]
    assert rows.square().mean().item() == pytest.approx(1, rel=1e-3)
    assert model.language_model.backbone.embeddings.weight.square().mean().item() == pytest.approx(1, rel=1e-3)
    assert torch.allclose(F.normalize(rows, dim=-1), direction, atol=1e-4)


def test_a_census_tells_every_line_below_a_place_once():
    text = Text.of(
        [(word, [(10 * n, 20 * n, 10 * n + 8, 20 * n + 10)] * len(word), -1) for n, word in enumerate("abcd")]
    )
    for seed in range(8):
        asked = census(text, random.Random(seed), lambda x, y: f"<{x:.0f} {y:.0f}>")
        assert asked is not None
        entries = asked.answer.split("; ")
        letters = [entry.replace("<", " ").split()[-1 if entry[0] == "<" else 0] for entry in entries]
        assert "".join(letters) == "abcd"[-len(entries) :]
        assert all(
            f"<{10 * n + 4} {20 * n + 5}>" in entry
            for n, entry in zip(range(4 - len(entries), 4), entries, strict=True)
        )
    assert census(Text.of([]), random.Random(0), lambda x, y: "") is None
