"""Figures while training: which steps count as right, and where the samples come from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from holotron.agent.dialects import make_dialect
from holotron.model.loading import byte_processor, load_model
from holotron.model.presets import preset
from holotron.training.evaluation import make_suite, nearly, step_figures
from holotron.training.learner import Learner
from holotron.training.pages import DrawnPages
from holotron.training.recipe import DrawnData, LossEval, ReplyEval, StepEval, TextData
from holotron.training.samples import Sample
from holotron.training.stream import conversation_sample

COMPACT = make_dialect("compact")
MODEL, PROCESSOR = load_model("tiny", device="cpu")


@pytest.mark.parametrize(
    ("said", "wanted", "right"),
    [
        ("click 400 500", "click 420 480", True),
        ("click 400 500", "click 430 500", False),
        ("click 400 500", "double 400 500", False),
        ("drag 100 100 300 300", "drag 110 100 300 320", True),
        ("drag 100 100 300 300", "drag 110 100 300 330", False),
        ("scroll down 500 500 by 625", "scroll down 510 500 by 625", True),
        ("scroll down 500 500 by 625", "scroll up 510 500 by 625", False),
        ("scroll down", "scroll down 510 500", False),
        ("type hello", "type hellp", False),
        ("nonsense", "click 400 500", False),
        ("key Enter", "key Escape", False),
    ],
)
def test_near_is_near_in_place_and_exact_in_all_else(said, wanted, right):
    assert nearly(said, wanted, COMPACT, 25) is right


class Oracle(Learner):
    """Says what it is told to say."""

    def __init__(self, replies: torch.Tensor) -> None:
        super().__init__(MODEL)
        self.replies = replies

    def predict(self, batch, rows):
        return torch.nn.functional.one_hot(self.replies, 320).float()


def test_steps_are_scored_by_reply_and_by_task():
    def sample(name: str, *replies: str) -> Sample:
        messages = [
            m for text in replies for m in ({"role": "user", "content": "go"}, {"role": "assistant", "content": text})
        ]
        return replace(conversation_sample(PROCESSOR, messages), name=name)

    def tokens(samples: list[Sample]) -> torch.Tensor:
        return torch.from_numpy(np.concatenate([s.ids[s.learn] for x in samples for s in x.sequences])).long()

    wanted = [sample("a", "click 100 100", "type abc"), sample("b", "click 300 300")]
    said = [sample("a", "click 110 100", "type abx"), sample("b", "click 300 300")]
    figures = step_figures(Oracle(tokens(said)), wanted, PROCESSOR, dialect=COMPACT, near=25)
    assert figures == {"hit": pytest.approx(2 / 3), "by_task": 0.75, "task/a": 0.5, "task/b": 1.0}


def test_worker_processes_make_the_same_samples():
    learner = Learner(MODEL)
    data = DrawnData(kind="drawn", seed=5, sizes=("64x64@1",), questions=2)
    figures = [make_suite(LossEval(kind="loss", data=data, samples=10), PROCESSOR, learner, w)(learner) for w in (0, 2)]
    assert figures[0] == figures[1]
    assert make_suite(LossEval(kind="loss", data=TextData(kind="text"), samples=5), PROCESSOR, learner)(learner)


def test_lessons_of_text_are_scored_by_what_is_typed():
    """Their clicks are not learnt: the greedy answer to a first turn says nothing about them."""
    learner = Learner(MODEL)
    data = TextData(kind="text", seed=3)
    figures = make_suite(StepEval(kind="steps", name="text", data=data, samples=40), PROCESSOR, learner)(learner)
    assert {"text/hit", "text/by_task", "text/task/login", "text/task/sum"} <= figures.keys()
    with pytest.raises(ValidationError):
        ReplyEval(kind="replies", data=data)


def test_questions_can_share_a_conversation():
    config = preset("holotron-mini")
    processor = byte_processor(config)
    data = DrawnData(kind="drawn", seed=5, questions=6)
    apart, shared = (
        DrawnPages(data.model_copy(update={"turns": turns}), processor, config).sample(0, np.random.default_rng(3))
        for turns in (1, 3)
    )
    assert len(apart.sequences) == 6 and len(shared.sequences) == 2

    def learnt(sample: Sample) -> list[int]:
        return [token for s in sample.sequences for token in s.ids[s.learn].tolist()]

    assert learnt(apart) == learnt(shared)
    assert all((s.ids == config.tokens.image).sum() == 100 for s in (*apart.sequences, *shared.sequences))
