"""The vision cache: no tile is encoded twice, whoever shows it."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image
from torch import Tensor

from holotron.engine import Engine, SamplingParams
from holotron.engine.core import Core
from holotron.engine.log import Log, Picture, TileSpan
from holotron.model.looks import Looks
from tests.engine.support import Asked, assert_greedy, byte_model, image_log, make_tile, micro_model, settings
from tests.engine.test_sessions import words


def test_an_unchanged_tile_is_encoded_once_for_all_sessions() -> None:
    core = Core(micro_model(), settings(token_budget=64))
    asked = []
    for n in range(3):
        sequence = core.sessions.open(f"s{n}")
        for number in (1, 2, 1):
            core.sessions.append(sequence, image_log(make_tile(number)))
        asked.append(Asked(core, sequence))
    for one in asked:
        one.finished(core)
        assert_greedy(core.model, one.request.sequence.log, 4)
    assert core.vision.encoded == 2
    assert core.vision.reused == 7


def test_a_small_cache_forgets_the_least_recently_shown_and_stays_exact() -> None:
    model = micro_model()
    tile_bytes = 4 * 16 * 8
    core = Core(model, settings(vision_cache_bytes=2 * tile_bytes, token_budget=16))
    sequence = core.sessions.open("s")

    def show(*numbers: int) -> int:
        before = core.vision.encoded
        for number in numbers:
            core.sessions.append(sequence, image_log(make_tile(number)))
        Asked(core, sequence).finished(core)
        assert_greedy(model, sequence.log, 4)
        assert core.vision.bytes_used <= 2 * tile_bytes
        return core.vision.encoded - before

    assert show(1, 2) == 2
    assert show(1, 2) == 0
    assert show(3) == 1  # pushes out 1
    assert show(2) == 0
    assert show(1) == 1
    # With no cache at all everything is encoded where it is needed.
    core = Core(model, settings(vision_cache_bytes=0, token_budget=16))
    sequence = core.sessions.open("s")
    assert show(1, 1) == 1
    assert core.vision.bytes_used == 0


def test_tiles_of_several_sessions_go_through_the_tower_together() -> None:
    core = Core(micro_model(), settings(token_budget=64, vision_batch=3))
    calls: list[int] = []
    model = core.model
    handle = model.vision_model.register_forward_pre_hook(lambda _, args: calls.append(args[0].shape[0]))  # type: ignore[union-attr]
    try:
        for n in range(5):
            sequence = core.sessions.open(f"s{n}")
            core.sessions.append(sequence, image_log(make_tile(n)))
            Asked(core, sequence)
        core.step()
    finally:
        handle.remove()
    assert calls == [3, 2]


def test_looks_that_go_through_the_tower_together_are_no_more_work_than_tiles_are(monkeypatch) -> None:
    core, sizes = Core(micro_model("sparse"), settings(token_budget=64, vision_batch=2)), list[int]()
    encode = core.model.encode_groups

    def counted(pixels: Tensor, looks: Looks) -> Tensor:
        sizes.append(len(looks.order_T))
        return encode(pixels, looks)

    monkeypatch.setattr(core.model, "encode_groups", counted)
    asked = []
    for n in range(8):
        sequence = core.sessions.open(f"s{n}")
        core.sessions.append(sequence, image_log(make_tile(n, n % 4)))
        asked.append(Asked(core, sequence))
    for one in asked:
        one.finished(core)
        assert_greedy(core.model, one.request.sequence.log, 4)
    # Two whole tiles are 2 x (1 + 16) patches and prefix tokens; a group is 4, with a prefix of its own.
    assert (sizes[:2], core.vision.encoded) == ([6 * 5, 2 * 5], 8)


def test_all_tiles_of_a_picture_go_through_the_tower_with_the_first() -> None:
    """Though the iteration ends in the middle of it. Not if they could not be kept until they are shown."""
    for cache, wanted in ((1 << 20, [3]), (2 * 4 * 16 * 8, [2, 1])):
        core = Core(micro_model(), settings(token_budget=8, vision_cache_bytes=cache))
        calls: list[int] = []
        tower, count = core.model.vision_model, calls.append
        assert tower is not None
        handle = tower.register_forward_pre_hook(lambda _, args, count=count: count(len(args[0])))
        log = Log()
        for n in range(3):
            log.extend(Log([40] * 4, [TileSpan(0, 4, make_tile(n))]))
        log.pictures.append(Picture(0, 12, (48, 16), None, None, b"picture"))
        sequence = core.sessions.open("s")
        core.sessions.append(sequence, log)
        try:
            Asked(core, sequence).finished(core)
        finally:
            handle.remove()
        assert calls == wanted
        assert_greedy(core.model, sequence.log, 4)


def test_new_vision_weights_void_the_cache_and_new_text_weights_do_not() -> None:
    model, core = micro_model(), Core(micro_model(), settings())
    sequence = core.sessions.open("s")
    core.sessions.append(sequence, image_log(make_tile(1)))
    Asked(core, sequence).finished(core)
    name = "mlp1.1.weight"
    same = dict(model.named_parameters())[name].clone()
    core.update_weights({"language_model.lm_head.weight": model.language_model.lm_head.weight.clone()}, "keep")
    assert core.vision.bytes_used > 0
    core.update_weights({name: same}, "keep")
    assert core.vision.bytes_used == 0
    core.sessions.append(sequence, image_log(make_tile(1)))
    Asked(core, sequence).finished(core)
    assert core.vision.encoded == 2


def test_an_encoded_picture_goes_in_and_is_seen() -> None:
    model, processor = byte_model()
    pixels = np.random.default_rng(0).integers(0, 256, (20, 30, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    greedy = SamplingParams(max_tokens=5, temperature=0, ignore_eos=True)
    with Engine(model, processor, settings()) as engine, engine.open() as a, engine.open() as b:
        assert a.append("look: ", file.getvalue(), " what?") == b.append("look: ", pixels, " what?")
        first = a.generate(greedy).result()
        assert b.generate(greedy).result().tokens == first.tokens
        expected = processor.encode_image(pixels)
        assert a.tokens()[: len("look: ") + len(expected)] == [*b"look: ", *expected.ids]
        stats = engine.stats()
        assert stats.tiles_encoded == len(expected.images[0].keys)
        assert stats.tiles_reused == stats.tiles_encoded
        assert len(a.tokens()) == 6 + len(expected) + 6 + 5


def test_words_and_pictures_in_one_iteration_do_not_mix() -> None:
    core = Core(micro_model(), settings(token_budget=64))
    texts = []
    for n in range(4):
        sequence = core.sessions.open(f"s{n}")
        core.sessions.append(sequence, words(5, n) if n % 2 else image_log(make_tile(n)))
        core.sessions.append(sequence, image_log(make_tile(9)) if n % 2 else words(7, n))
        texts.append(Asked(core, sequence))
    for asked in texts:
        asked.finished(core)
        assert_greedy(core.model, asked.request.sequence.log, 4)
