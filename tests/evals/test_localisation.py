"""One instruction, one click: scored by the box, with the set's hash."""

from __future__ import annotations

import asyncio
import random

import pytest

from holotron.agent.dialects import make_dialect
from holotron.agent.history import Append
from holotron.agent.policies.base import GaveUp
from holotron.agent.policies.engine import EnginePolicy
from holotron.agent.policies.scripted import ScriptedPolicy
from holotron.data.drawn import Painter
from holotron.data.pages.make import Size
from holotron.data.samples import make_samples
from holotron.data.shards import content_hash, iter_pages, to_row, write_shard
from holotron.engine.engine import Engine
from holotron.errors import InputError
from holotron.evals.localisation import evaluate_localisation
from holotron.model.loading import load_model
from holotron.types import Answer, Click


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    from dataclasses import replace

    folder = tmp_path_factory.mktemp("set")
    painter = Painter(sizes=(Size.parse("160x160@2"),))
    drawn = [painter.paint(5, n) for n in range(4)]
    rows = [
        to_row(replace(p, samples=tuple(make_samples(p.elements, p.text, random.Random(1), absent=0, reads=0))))
        for p in drawn
    ]
    write_shard(folder, 0, rows, len(rows))
    return folder


class Knowing(ScriptedPolicy):
    """Clicks the middle of the box that the task asks for, or misses on purpose."""

    def __init__(self, pages, miss: bool = False) -> None:
        self.boxes = {(page.id, s.instruction): s.box for page in iter_pages(pages) for s in page.samples}
        self.miss = miss
        super().__init__(lambda environment, observation, step: Answer(""))

    async def start(self, task, environment):
        x1, y1, x2, y2 = self.boxes[task.name, task.goal]
        point = (x1 - 3, y1 - 3) if self.miss else ((x1 + x2) / 2, (y1 + y2) / 2)
        return await ScriptedPolicy(lambda *_: Click(*point)).start(task, environment)


def test_clicks_are_judged_by_the_box(pages):
    right = asyncio.run(evaluate_localisation(Knowing(pages), pages))
    assert right.overall.hits == right.overall.asked > 8
    assert sum(hits.asked for hits in right.by.values()) == right.overall.asked
    assert right.hash == content_hash(pages)
    assert right.to_json()["accuracy"] == 1.0
    wrong = asyncio.run(evaluate_localisation(Knowing(pages, miss=True), pages, most=5))
    assert (wrong.overall.hits, wrong.overall.asked) == (0, 5)


def test_other_answers_and_silence_are_misses(pages):
    answers = asyncio.run(evaluate_localisation(ScriptedPolicy(lambda *_: Answer("not there")), pages, most=4))
    assert answers.overall.rate == 0.0 and answers.errors == 0

    def lost(*_):
        raise GaveUp("no idea")

    silent = asyncio.run(evaluate_localisation(ScriptedPolicy(lost), pages, most=4))
    assert silent.overall.rate == 0.0 and silent.errors == 4


def test_a_model_is_asked_in_its_dialect(pages):
    model, processor = load_model("tiny", device="cpu")
    policy = EnginePolicy(
        Engine(model, processor), make_dialect("compact", actions=["click"]), Append(), owns_engine=True
    )

    async def main():
        try:
            return await evaluate_localisation(policy, pages, sessions=3, most=6)
        finally:
            await policy.close()

    result = asyncio.run(main())
    assert result.overall.asked == 6 and result.errors == 0


def test_a_set_without_clicks_is_refused(tmp_path):
    painter = Painter(sizes=(Size.parse("160x160@2"),))
    write_shard(tmp_path, 0, [to_row(painter.paint(5, 0))], 1)
    with pytest.raises(InputError, match="asks for no clicks"):
        asyncio.run(evaluate_localisation(Knowing(tmp_path), tmp_path))
