"""Demonstrations with mistakes: the solver errs in a real browser, mends it, and training learns what was right."""

from __future__ import annotations

import asyncio
from pathlib import Path

from PIL import Image

from holotron.agent.policies.registry import PolicyRequest
from holotron.model.loading import load_model
from holotron.rollouts.runner import RolloutSettings
from holotron.rollouts.store import RunReader
from holotron.rollouts.suite import opened, play
from holotron.training.episodes import Episodes
from holotron.training.recipe import EpisodeData
from holotron.types import Outcome
from holotron.view import View


def test_a_phone_with_mistakes(tmp_path: Path):
    async def main() -> None:
        request = PolicyRequest("scripted:0.4")
        view = View(format="png")
        async with opened(request, "sites:phone", tasks="shop-wish,shop-unwish", seeds=range(3, 5), view=view) as (
            policy,
            suite,
        ):
            assert {task.id for task in suite.shuffled(1).tasks} == {task.id for task in suite.tasks}
            await play(suite.shuffled(1), policy, tmp_path / "run", settings=RolloutSettings(sessions=2))

    asyncio.run(main())
    played = list(RunReader(tmp_path / "run").trajectories())
    assert [episode.outcome for episode in played] == [Outcome.SUCCESS] * 4
    replies = [step.reply for episode in played for step in episode.steps]
    wrong = [reply for reply in replies if reply.action != reply.label]
    assert 0 < len(wrong) < len(replies) and all(reply.label is not None for reply in replies)
    with Image.open(next((tmp_path / "run/images").rglob("*.png"))) as picture:
        assert picture.size == (585, 1266)  # 390 x 844 at scale 1.5

    model, processor = load_model("tiny", device="cpu")
    source = Episodes(EpisodeData(kind="episodes", runs=(tmp_path / "run",)), processor, model.config)
    learnt = [sequence for sample in source.held_out(4) for sequence in sample.sequences]
    assert len(learnt) > 4  # a sequence for each correction, beside the steps that were right
