"""Sparse pictures in training: what is learnt from is what the engine serves, and dense labels follow their groups."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import torch

from holotron.agent.dialects import make_dialect
from holotron.agent.history import Append
from holotron.agent.loop import Episode, Limits
from holotron.agent.policies.engine import EnginePolicy
from holotron.engine.api import EngineConfig, SamplingParams
from holotron.engine.engine import Engine
from holotron.model.loading import load_model
from holotron.model.processor import Deltas
from holotron.model.processor.sparse import told_groups
from holotron.training.aims import with_places
from holotron.training.batches import pack
from holotron.training.characters import NONE
from holotron.training.distributed import Ranks
from holotron.training.episodes import Episodes
from holotron.training.learner import LOSSES, Learner
from holotron.training.recipe import DrawnData, EpisodeData, make_recipe
from holotron.training.samples import Sample, TokenSequence
from holotron.training.sources import open_source
from holotron.training.sparse import condensed
from holotron.training.stream import conversation
from holotron.training.trainer import Trainer
from holotron.types import Outcome, Task
from tests.engine.support import page, sparse_tiny
from tests.training.test_deltas import record
from tests.training.test_episodes import Board, clicking, play

TASK = Task("buttons", "press", seed=5, options={"presses": 50})
SIZE = (128, 128)  # four tiles, 16 groups each
HEADS = LOSSES[1:]


MODEL, PROCESSOR = sparse_tiny()


def packed(*samples: Sample):
    return pack(
        [sample.tiles for sample in samples],
        [sample.sequences for sample in samples],
        [sample.slots for sample in samples],
        config=MODEL.config,
        device=torch.device("cpu"),
        looks=[sample.looks for sample in samples],
    )


@pytest.mark.parametrize("deltas", [None, Deltas()])
def test_an_episode_is_learnt_as_the_engine_served_it(tmp_path, deltas: Deltas | None) -> None:
    with Engine(MODEL, PROCESSOR, EngineConfig()) as engine:
        sampling = SamplingParams(temperature=1.0, max_tokens=40, seed=3)
        dialect = make_dialect("compact", actions=["click", "hover"])
        policy = EnginePolicy(engine, dialect, Append(), sampling=sampling, deltas=deltas)
        limits = Limits(steps=4, repeats=99)
        trajectory = asyncio.run(Episode(Board(SIZE), policy, TASK, id="one", limits=limits).run())
    run = record(tmp_path / "run", replace(trajectory, outcome=Outcome.SUCCESS))
    data = EpisodeData(kind="episodes", runs=(run,), history="append")
    (sample,) = Episodes(data, PROCESSOR, MODEL.config, deltas).held_out(1)
    assert len(sample.tiles) == len(sample.looks) < (40 if deltas else 4 * 64)
    batch = packed(sample)
    completions = [step.reply.completion for step in trajectory.steps]
    assert batch.targets_l.tolist() == [token for c in completions for token in c.tokens]
    with torch.no_grad():
        learner = Learner(MODEL)
        logits = learner.predict(batch, learner.look(batch))
    ours = logits.log_softmax(-1).gather(-1, batch.targets_l[:, None])[:, 0].tolist()
    theirs = [logprob for c in completions for logprob in c.logprobs]
    free = [(a, b) for a, b in zip(ours, theirs, strict=True) if b != 0.0]
    assert len(free) > 10
    assert max(np.exp(abs(a - b)) for a, b in free) < 1.001


def drawn(questions: int = 4) -> tuple[Sample, Sample]:
    """A painted page as it is read sparsely, and whole."""
    data = DrawnData(kind="drawn", sizes=("64x64@2",), questions=questions, census=1)
    dense_model, dense = load_model("tiny", device="cpu")
    dense_model.config = replace(MODEL.config, image=replace(MODEL.config.image, sparse=False))
    dense.images = dense_model.config.image
    return tuple(  # type: ignore[return-value]
        open_source(data, processor, config).sample(7, np.random.default_rng(0))
        for processor, config in ((PROCESSOR, MODEL.config), (dense, dense_model.config))
    )


def test_labels_follow_their_groups_and_no_letter_is_lost():
    sparse, whole = drawn()
    told = told_groups(whole.tiles, None, MODEL.config.image)
    assert len(sparse.tiles) == int(told.sum()) < told.numel()
    side, step = 4, 16
    squares = whole.tiles.view(4, 3, side, step, side, step).permute(0, 2, 4, 1, 3, 5).flatten(1, 2)
    assert torch.equal(sparse.tiles, squares[told])
    letters = [labels[labels != NONE] for labels in (sparse.slots, whole.slots)]
    assert len(letters[0]) == len(letters[1]) > 0
    assert sorted(letters[0]) == sorted(letters[1])
    cells = whole.slots.reshape(4, side, 2, side, -1).transpose(0, 1, 3, 2, 4).reshape(64, 2, -1)
    assert np.array_equal(sparse.slots, cells[told.flatten().numpy()])


def test_every_loss_is_computed_and_has_a_gradient():
    sample, _ = drawn()
    learner = Learner(MODEL, HEADS)
    for parameter in learner.parameters():
        parameter.requires_grad_(True)
    batch = packed(sample, sample)
    counts = learner.counts(batch)
    sums = learner(batch, learner.pixels(batch.tiles_n3HW))
    assert (counts > 0).all() and torch.isfinite(sums).all() and (sums > 0).all()
    (sums / counts).sum().backward()
    assert learner.model.vision_model.radio_model.model.patch_generator.pos_embed.grad.abs().sum() > 0


def test_a_page_without_questions_is_still_read():
    sample, _ = drawn(questions=0)
    assert len(sample.sequences) == 1 and not sample.sequences[0].learn.any() and len(sample.slots) == len(sample.tiles)


def test_sequences_share_a_look_only_if_they_look_alike():
    picture, image = torch.full((1, 3, 64, 64), 200, dtype=torch.uint8), MODEL.config.tokens.image

    def told(*shown: tuple[int, int], ids: tuple[int, ...] = (image, image)) -> TokenSequence:
        return TokenSequence(np.array(ids), np.zeros(len(ids), bool), np.array(shown))

    # The last one tells two tiles that are alike, of each another group: "0." "1."
    two = told((0, 0), (0, 5), ids=(ord("0"), image, ord("1"), image))
    sequences = (told((0, 0), (0, 5)), told((0, 0), (0, 5)), told((0, 5), (0, 7)), two)
    sample = condensed(Sample(picture, sequences), MODEL.config.image, image)
    assert [s.shown[:, 0].tolist() for s in sample.sequences] == [[0, 1], [0, 1], [2, 3], [4, 5]]
    assert sample.looks.tolist() == [[0, 0], [0, 5], [1, 5], [1, 7], [2, 0], [3, 5]]


def test_a_recipe_makes_a_policy_that_sees_sparsely(tmp_path):
    board = [play(clicking((n, 20)), id=f"e{n}", task=replace(TASK, seed=n)) for n in range(3)]
    run = record(tmp_path / "demos", *board)
    recipe = make_recipe(
        {
            "name": "sparse",
            "model": {"source": "tiny", "sparse": True, "thumbnail": False},
            "agent": {"deltas": True},
            "data": [
                {"kind": "episodes", "runs": [str(run)]},
                {"kind": "drawn", "sizes": ["64x64@2"], "questions": 2, "census": 1},
            ],
            "loss": dict.fromkeys(HEADS, 0.1),
            "augment": {"brightness": 0.1, "noise": 0.1},
            "batch": {"tokens": 4000, "samples": 3},
            "schedule": {"steps": 3, "warmup": 0},
            "evaluate": {
                "suites": [
                    {"kind": "steps", "data": {"kind": "episodes", "runs": [str(run)]}},
                    {"kind": "reading", "data": {"kind": "drawn", "sizes": ["64x64@2"]}, "samples": 2},
                    {"kind": "replies", "data": {"kind": "drawn", "sizes": ["64x64@2"], "questions": 2}, "samples": 2},
                ]
            },
        }
    )
    Trainer(recipe, tmp_path / "run", Ranks()).run()
    model, processor = load_model(tmp_path / "run" / "model", device="cpu")
    assert model.config.image.sparse and not model.config.image.use_thumbnail and processor.images == model.config.image


def with_clicks(pictures: list[np.ndarray], said: list[str]) -> TokenSequence:
    messages = []
    for picture, reply in zip(pictures, said, strict=True):
        messages.append({"role": "user", "content": [{"type": "image", "image": picture}]})
        messages.append({"role": "assistant", "content": reply})
    sequence, images = conversation(PROCESSOR, messages, deltas=Deltas())
    sizes = [SIZE] * len(pictures)
    return with_places(sequence, images, sizes, make_dialect("compact"), PROCESSOR, MODEL.config.image)


def test_what_has_not_changed_is_looked_for_in_the_picture_that_showed_it():
    """A click on the second screen, at a place that only the first one told."""
    first = page((36, 20, 44, 28))  # group 6 of the first tile
    second = page((36, 20, 44, 28), (100, 100, 110, 110))  # and in the last tile
    placed = with_clicks([first, second, second], ["click 312 187", "click 312 187", "click 820 820"])
    answers = [placed.shown[start + label].tolist() for _, start, _, label in placed.aims.tolist()]
    assert answers == [[0, 6], [0, 6], [4 + 3, 10]]  # tiles are counted through all pictures
    assert [count for _, _, count, _ in placed.aims.tolist()] == [5, 6, 6]  # all that has been told so far
    # The token before a picture asks for what this picture shows; of the second and third click theirs do not.
    assert len(placed.points) == 1


def test_what_has_become_blank_is_shown_by_no_picture():
    """The second screen tells group 5, and 6 goes on from it: the line that was there is no answer any more."""
    placed = with_clicks([page((20, 20, 60, 28)), page()], ["click 312 187"] * 2)
    assert [placed.shown[start + label].tolist() for _, start, _, label in placed.aims.tolist()] == [[0, 6]]
