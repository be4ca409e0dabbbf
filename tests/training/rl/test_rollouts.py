"""Live rollouts on a real engine: what is recorded is what was served, groups share their beginning, nothing waits."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from holotron.data.drawn import Painter, store_drawn
from holotron.data.pages.make import Size
from holotron.engine.api import EngineConfig
from holotron.engine.engine import Engine
from holotron.engine.sampler import never_sampled
from holotron.envs.base import Environment, FreshEnvironments
from holotron.errors import ConfigError, EnvironmentFault
from holotron.model.loading import load_model
from holotron.suites.base import Suite, find_suite
from holotron.suites.painted import PaintedEnvironment
from holotron.training.distributed import Ranks
from holotron.training.learner import Learner
from holotron.training.rl.counts import Counts
from holotron.training.rl.desk import Desk, DeskHere
from holotron.training.rl.objective import Drawing
from holotron.training.rl.player import Player, open_suite
from holotron.training.rl.policy import RolloutPolicy
from holotron.training.rl.queue import GroupQueue
from holotron.training.rl.recipe import RlRecipe
from holotron.training.rl.record import Rollout, play_of
from holotron.training.rl.rollouts import Rollouts
from holotron.training.rl.successes import Successes
from holotron.training.rl.tasks import TaskSampler
from holotron.training.rl.trainer import RlTrainer
from holotron.training.rl.weights import disagreement
from holotron.types import Action, Click, Observation, Outcome, StepResult, Task
from tests.training.rl.support import SIZE, rl_recipe, untrained, view_of


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return untrained(tmp_path_factory.mktemp("start"))


async def some_turns(player: Player, turns: int, size: str = SIZE) -> tuple[RolloutPolicy, list[list[int]]]:
    """A session of several turns on one screen, and the engine's own log of each session it took."""
    environment = PaintedEnvironment(Size.parse(size))
    observation = await environment.reset(Task("painted", "order-3", seed=4))
    policy = player.member(player.trunk(), 0, 0)
    session = await policy.start(environment.task, environment)
    for n in range(turns):
        await session.act(replace(observation, note=str(n)))
    chat: Any = session._chat
    logs = [await chat._session.tokens()]
    await session.close()
    return policy, logs


SAMPLING = {
    "plain": {},
    "hot": {"temperature": 1.5},
    "grammar": {"constrained": True},
    "cool, with a grammar": {"constrained": True, "temperature": 0.7},
}


@pytest.mark.parametrize("agent", SAMPLING.values(), ids=SAMPLING.keys())
def test_engine_and_trainer_agree_on_what_was_served(start: Path, agent: dict[str, Any]):
    """Token for token the engine's own log, and for every sampled token the same probability among those it was drawn
    from: the mean factor between the two is below 1.001, however the tokens were sampled."""
    check_parity(start, agent, "cpu", torch.float32, 1.001)


@pytest.mark.gpu
@pytest.mark.parametrize("agent", SAMPLING.values(), ids=SAMPLING.keys())
def test_engine_and_trainer_agree_in_sixteen_bits(agent: dict[str, Any]):
    """The shapes of the policy that ships, with captured graphs on one side and the kernels that have gradients on the
    other."""
    check_parity("preset:holotron-mini", agent, "cuda", torch.bfloat16, 1.02, size="160x160@2")


def check_parity(
    source: Path | str, agent: dict[str, Any], device: str, dtype: torch.dtype, limit: float, size: str = SIZE
) -> float:
    recipe = rl_recipe(source, agent={"max_tokens": 24, **agent}, tasks={"names": ["order-3"], "view": view_of(size)})
    model, processor = load_model(source, device=device, dtype=dtype)
    with Engine(model, processor, EngineConfig()) as engine:
        policy, logs = asyncio.run(some_turns(Player(recipe, engine, open_suite(recipe)), 4, size=size))
        compile = engine.compile
    (turns,) = policy.logs
    assert len(turns) == 4
    play, tiles = play_of(turns, compile=compile)
    assert play.ids_T.tolist() == logs[0]
    results = [turn.result for turn in turns]
    free = sum(not forced for result in results for forced in result.forced)
    assert play.learn_T.sum() == len(play.logprobs_l) == free > 10
    assert play.ids_T[play.learn_T].tolist() == [
        token for r in results for token, forced in zip(r.tokens, r.forced, strict=True) if not forced
    ]
    rollout = Rollout(Task("painted", "order-3"), False, Outcome.FAILURE, (play,), tiles)
    learner = Learner(deepcopy(model).requires_grad_(True))
    difference = disagreement(learner, turns, rollout, Drawing(recipe.agent.temperature, never_sampled(model)), compile)
    assert difference <= limit
    if agent:  # what is compared is no longer the model's own distribution
        assert disagreement(learner, [replace(turn, grammar=None) for turn in turns], rollout, Drawing()) > limit
    return difference


def test_a_history_that_is_rewritten_makes_several_sequences(start: Path):
    recipe = rl_recipe(start, agent={"history": "window:1"}, tasks={"names": ["order-3"]})
    model, processor = load_model(start, device="cpu")
    with Engine(model, processor, EngineConfig()) as engine:
        player = Player(recipe, engine, open_suite(recipe))

        async def play() -> RolloutPolicy:
            environment = PaintedEnvironment(Size.parse(SIZE))
            policy = player.member(player.trunk(), 0, 0)
            observation = await environment.reset(Task("painted", "order-3", seed=4))
            session = await policy.start(environment.task, environment)
            for _ in range(3):  # three different pictures
                await session.act(observation)
                observation = await environment.reset(Task("painted", "order-3", seed=len(policy.logs) + 10))
            await session.close()
            return policy

        policy = asyncio.run(play())
    assert [len(turns) for turns in policy.logs] == [1, 1, 1]
    learner = Learner(model)
    for turns in policy.logs:
        rollout = Rollout(Task("painted", "order-3"), False, Outcome.FAILURE, (), {})
        assert disagreement(learner, turns, rollout, Drawing(never=never_sampled(model))) <= 1.001


# ------------------------------------------------------------------------------------------------------ whole rollouts


class Setting:
    """Rollouts with everything around them, for as long as a test looks at them."""

    def __init__(self, recipe: RlRecipe, folder: Path, make: Callable[[], Environment] | None = None) -> None:
        model, processor = load_model(recipe.model.source, device="cpu")
        self.engine = Engine(model, processor, EngineConfig(max_running=17))
        suite: Suite = open_suite(recipe)
        if make is not None:
            suite = replace(suite, open=lambda sessions: FreshEnvironments(make))
        self.counts = Counts()
        self.queue = GroupQueue(recipe.rollouts.queue, recipe.rollouts.staleness)
        self.player = Player(recipe, self.engine, suite)
        sampler = TaskSampler(self.player.names, range(1000))
        successes = Successes(folder / "successes", recipe.rollouts.successes)
        self.desk = Desk(sampler, self.queue, successes, self.counts, recipe.tasks.learn_from)
        self.rollouts = Rollouts(
            self.player,
            DeskHere(self.desk),
            self.counts,
            sessions=recipe.rollouts.sessions,
            group=recipe.rollouts.group,
            side_by_side=recipe.rollouts.side_by_side or recipe.rollouts.group,
            straggler=recipe.rollouts.straggler,
            longest=recipe.update.tokens,
        )

    def __enter__(self) -> Setting:
        self.rollouts.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.rollouts.__exit__(None, None, None)
        self.engine.close()


def until(happens: Callable[[], bool], seconds: float = 240) -> None:
    """Wait for something that has to come; how soon depends on the machine."""
    end = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.02)


def test_a_group_forks_one_session_and_keeps_every_token(start: Path, tmp_path: Path):
    recipe = rl_recipe(start, agent={"constrained": True}, rollouts={"sessions": 8, "group": 4, "queue": 4})
    with Setting(recipe, tmp_path) as setting:
        until(lambda: setting.counts.groups.total() >= 6 and len(setting.queue) > 0)
        group = setting.queue.take(1, 0)[0]
        computed, counts = setting.engine.stats().computed_tokens, setting.counts
    assert counts.forks >= 4 * 6
    assert 0 < counts.successes < counts.episodes
    # The common beginning of a group is computed once: what the engine read from memory shows it.
    assert counts.cached_tokens > 0.6 * counts.prompt_tokens
    assert computed < counts.prompt_tokens + counts.sampled_tokens
    assert len(group.rollouts) == 4
    beginnings = {r.plays[0].ids_T[: int(np.flatnonzero(r.plays[0].learn_T)[0])].tobytes() for r in group.rollouts}
    assert len(beginnings) <= 2  # of a grammar's forced first tokens some may count to the reply
    replies = {r.plays[0].ids_T[r.plays[0].learn_T].tobytes() for r in group.rollouts}
    assert len(replies) > 1
    assert {len(r.plays[0].tiles) for r in group.rollouts} == {1}
    assert all((r.plays[0].logprobs_l <= 0).all() for r in group.rollouts)


def test_rollouts_go_on_while_nobody_takes(start: Path, tmp_path: Path):
    recipe = rl_recipe(
        start,
        agent={"constrained": True},
        rollouts={"sessions": 8, "group": 4, "queue": 2},
        update={"groups": 2},
    )
    with Setting(recipe, tmp_path) as setting:
        until(lambda: setting.queue.overflowed >= 2)
        assert len(setting.queue) == 2
        before = setting.counts.episodes
        until(lambda: setting.counts.episodes >= before + 16)


def test_stored_pages_are_played_and_others_judge(start: Path, tmp_path: Path):
    for n in range(2):
        store_drawn(tmp_path / str(n), Painter(sizes=(Size.parse("160x160@1"),)), seed=n, pages=8)
    theirs = find_suite(str(tmp_path / "1")).tasks
    recipe = rl_recipe(
        start,
        tasks={"suite": str(tmp_path / "0"), "names": "all", "steps": 1, "view": {}},  # pages are shown as they are
        agent={"constrained": True},
        evaluate={"every_steps": 1, "suite": str(tmp_path / "1"), "seeds": "0:2"},
    )
    trainer = RlTrainer(recipe, tmp_path / "run", Ranks())
    assert trainer.players is not None
    with trainer.players:
        figures = trainer.evaluate()
        until(lambda: trainer.counts.episodes >= 16)
    assert set(figures) == {"evaluation/success", *(f"success/{task.name}" for task in theirs)}
    assert trainer.counts.steps == trainer.counts.episodes  # one look, one click


class Trouble(PaintedEnvironment):
    """A painted screen on which a step may go wrong."""

    def __init__(self, happens: Callable[[], Any]) -> None:
        super().__init__(Size.parse(SIZE))
        self._happens = happens

    async def step(self, action: Action) -> StepResult:
        await self._happens()
        return await super().step(action)


def test_stragglers_are_cut_and_their_group_goes_on(start: Path, tmp_path: Path):
    calls = 0

    async def third_one_hangs() -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            await asyncio.sleep(10_000)

    recipe = rl_recipe(start, agent={"constrained": True}, rollouts={"sessions": 4, "group": 4, "straggler": 1.0})
    with Setting(recipe, tmp_path, lambda: Trouble(third_one_hangs)) as setting:
        until(lambda: setting.counts.cut == 1 and setting.counts.groups.total() >= 3)
        until(lambda: 0 not in setting.rollouts._open)  # the group it belonged to ends, a moment after the cut


class Diary(PaintedEnvironment):
    """A painted screen that notes what is played on it; the fourth episode never ends."""

    def __init__(self) -> None:
        super().__init__(Size.parse(SIZE))
        self.played: list[str] = []

    async def reset(self, task: Task) -> Observation:
        self.played.append(task.id)
        return await super().reset(task)

    async def step(self, action: Action) -> StepResult:
        if len(self.played) == 4:
            await asyncio.sleep(10_000)
        return await super().step(action)


def test_one_session_can_play_a_whole_group_in_the_environment_it_has(start: Path, tmp_path: Path):
    diaries: list[Diary] = []

    def make() -> Diary:
        diaries.append(Diary())
        return diaries[-1]

    recipe = rl_recipe(
        start,
        agent={"constrained": True},
        rollouts={"sessions": 2, "group": 4, "side_by_side": 1, "straggler": 1.0},
    )
    with Setting(recipe, tmp_path, make) as setting:
        until(lambda: setting.counts.cut >= 3)
    # The last of four is cut as a straggler, though it began when the others were done; what broke off is replaced.
    assert len(diaries) >= 4
    assert all(len(set(diary.played)) <= 1 for diary in diaries)
    assert len({diary.played[0] for diary in diaries if diary.played}) >= 4


def test_what_the_environment_spoils_is_played_again(start: Path, tmp_path: Path):
    calls = 0

    async def every_fifth_breaks() -> None:
        nonlocal calls
        calls += 1
        if calls % 5 == 0:
            raise EnvironmentFault("the page crashed")

    recipe = rl_recipe(start, agent={"constrained": True}, rollouts={"sessions": 4, "group": 4})
    with Setting(recipe, tmp_path, lambda: Trouble(every_fifth_breaks)) as setting:
        until(lambda: setting.counts.groups.total() >= 4)
        assert setting.counts.retries >= 2
        assert setting.counts.episodes >= 12


def test_when_everything_breaks_the_run_stops_and_says_why(start: Path, tmp_path: Path):
    async def always_breaks() -> None:
        raise EnvironmentFault("there is no display")

    recipe = rl_recipe(start, agent={"constrained": True}, rollouts={"sessions": 2, "group": 2})
    with (
        Setting(recipe, tmp_path, lambda: Trouble(always_breaks)) as setting,
        pytest.raises(EnvironmentFault, match="there is no display"),
    ):
        setting.rollouts.evaluate([setting.player.task("boxes-1", seed) for seed in range(40)])


def test_episodes_that_no_pass_can_hold_are_counted_and_left_out(start: Path, tmp_path: Path):
    recipe = rl_recipe(start, agent={"constrained": True}, rollouts={"sessions": 4, "group": 2}, update={"tokens": 20})
    with Setting(recipe, tmp_path) as setting:
        until(lambda: setting.counts.groups["spoiled"] >= 2)
        assert setting.counts.too_long >= 4
        assert len(setting.queue) == 0


def test_failures_that_come_closer_teach_something_where_rewards_are_learnt_from(start: Path, tmp_path: Path):
    """No episode succeeds, but rewards differ: every click costs its distance from the left edge."""

    class Graded(PaintedEnvironment):
        async def step(self, action: Action) -> StepResult:
            result = await super().step(action)
            cost = action.x if isinstance(action, Click) else 100.0
            return replace(result, reward=-cost, done=True, success=False)

    changes: dict[str, Any] = {
        "agent": {"constrained": True},
        "rollouts": {"sessions": 4, "group": 4, "queue": 4},
        "update": {"groups": 1},
    }
    recipe = rl_recipe(start, **changes, tasks={"learn_from": "reward"})
    with Setting(recipe, tmp_path, lambda: Graded(Size.parse(SIZE))) as setting:
        (group,) = setting.queue.take(1, 0, timeout=240)
        assert setting.rollouts.evaluate([setting.player.task("boxes-1", 1)])["boxes-1"][0].reward < 0
    assert not any(rollout.success for rollout in group.rollouts)
    mean = sum(rollout.reward for rollout in group.rollouts) / 4
    assert group.advantages == [rollout.reward - mean for rollout in group.rollouts]
    assert setting.counts.successes == 0 and setting.counts.rewards < 0


def test_a_suite_that_cannot_judge_is_refused(start: Path, tmp_path: Path):
    class Mute(PaintedEnvironment):
        async def step(self, action: Action) -> StepResult:
            return replace(await super().step(action), done=True, success=None)

    recipe = rl_recipe(start, agent={"constrained": True}, rollouts={"sessions": 2, "group": 2})
    with (
        Setting(recipe, tmp_path, lambda: Mute(Size.parse(SIZE))) as setting,
        pytest.raises(ConfigError, match="cannot say whether"),
    ):
        setting.queue.take(1, 0, timeout=240)


@pytest.mark.browser
@pytest.mark.slow
def test_it_plays_miniwob_in_a_real_browser(start: Path, tmp_path: Path):
    """Same page to the pixel for all members of a group, so all of them fork."""
    pytest.importorskip("miniwob")
    recipe = rl_recipe(
        start,
        tasks={
            "suite": "miniwob",
            "names": ["click-test", "focus-text"],
            "view": {"scale": 1.0, "crop": True},
            "steps": 2,
        },
        agent={"constrained": True},
        rollouts={"sessions": 3, "group": 3},
    )
    before = drivers()
    with Setting(recipe, tmp_path) as setting:
        until(lambda: setting.counts.groups.total() >= 2, seconds=500)
        assert len(drivers()) == len(before) + 1
        assert setting.counts.episodes >= 6
        assert setting.counts.forks == 3 * setting.counts.groups.total()
        assert setting.counts.spoiled == 0
    assert drivers() == before  # the browsers are closed, and not only when Python ends


def drivers() -> list[int]:
    """This process's browser drivers."""
    children = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    pids = [int(pid) for path in children for pid in path.read_text().split()]
    return sorted(pid for pid in pids if b"playwright" in Path(f"/proc/{pid}/cmdline").read_bytes())
