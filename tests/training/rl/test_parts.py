"""What is played, what is kept, what is learnt: properties that hold for any tasks and any outcomes."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from holotron.errors import ConfigError, EnvironmentFault, InputError
from holotron.training.rl.counts import Counts
from holotron.training.rl.groups import Group, Verdict, helpless, judge
from holotron.training.rl.objective import objective
from holotron.training.rl.passes import split
from holotron.training.rl.queue import GroupQueue
from holotron.training.rl.recipe import ObjectivePart, RlRecipe
from holotron.training.rl.record import Play, Rollout
from holotron.training.rl.successes import Successes
from holotron.training.rl.tasks import Drawn, TaskSampler
from holotron.types import Outcome, Task, Trajectory


def rollout(
    success: bool,
    *,
    version: int = 0,
    length: int = 6,
    name: str = "a",
    replayed: bool = False,
    reward: float | None = None,
) -> Rollout:
    learn = np.zeros(length, bool)
    learn[length // 2 :] = True
    count = int(learn.sum())
    pixels = torch.randint(0, 255, (3, 4, 4), generator=torch.Generator().manual_seed(length), dtype=torch.uint8)
    play = Play(
        np.arange(length, dtype=np.int32),
        learn,
        (b"0123456789abcdef",),
        np.asarray([[0, 0], [0, 1]], np.int32),
        np.full(count, -0.5, np.float32),
        np.full(count, version, np.int32),
    )
    outcome = Outcome.SUCCESS if success else Outcome.FAILURE
    tiles = {b"0123456789abcdef": pixels}
    return Rollout(
        Task("t", name, seed=3),
        success,
        outcome,
        (play,),
        tiles,
        steps=1,
        replayed=replayed,
        reward=float(success) if reward is None else reward,
    )


def group(number: int = 0, version: int = 0, lengths: tuple[int, ...] = (6, 6)) -> Group:
    members = [rollout(n == 0, version=version, length=length) for n, length in enumerate(lengths)]
    return Group(Drawn(number, "a", 3), tuple(members))


# --------------------------------------------------------------------------------------------------------------- groups


@given(st.lists(st.booleans(), min_size=2, max_size=16), st.booleans())
def test_only_groups_that_differ_are_learnt_from(outcomes: list[bool], remembered: bool):
    old = rollout(True, replayed=True) if remembered else None
    verdict, made = judge(Drawn(0, "a", 3), [rollout(success) for success in outcomes], old)
    if all(outcomes):
        assert (verdict, made) == (Verdict.SOLVED, None)
    elif not any(outcomes) and not remembered:
        assert (verdict, made) == (Verdict.FAILED, None)
    else:
        assert made is not None and len(made.rollouts) == len(outcomes)
        assert verdict is (Verdict.KEPT if any(outcomes) else Verdict.REPLAYED)
        assert sum(made.advantages) == pytest.approx(0, abs=1e-9)
        for member, advantage in zip(made.rollouts, made.advantages, strict=True):
            assert (advantage > 0) == member.success
        assert sum(member.replayed for member in made.rollouts) == (not any(outcomes))


def test_advantages_are_rewards_less_their_mean_and_nothing_more():
    made = Group(Drawn(0, "a", 3), (rollout(True), rollout(False), rollout(False), rollout(False)))
    assert made.advantages == [0.75, -0.25, -0.25, -0.25]


outcomes = st.lists(st.tuples(st.booleans(), st.floats(-1e6, 1e6)), min_size=2, max_size=16)


@given(outcomes, st.one_of(st.none(), st.floats(-1e6, 1e6)))
def test_a_group_may_be_compared_by_any_reward(results: list[tuple[bool, float]], remembered: float | None):
    """What succeeded is told by the verdict; what is learnt, by the rewards alone."""
    members = [rollout(success, reward=reward) for success, reward in results]
    wins, rewards = sum(success for success, _ in results), {reward for _, reward in results}
    old = None if remembered is None else rollout(True, reward=remembered, replayed=True)
    assert helpless(members, "reward") == (not wins and len(rewards) == 1)
    verdict, made = judge(Drawn(0, "a", 3), members, old if helpless(members, "reward") else None, "reward")
    if len(rewards) > 1:
        assert verdict is Verdict.KEPT
    elif wins:
        assert verdict is (Verdict.SOLVED if wins == len(results) else Verdict.EQUAL)
    else:
        assert verdict is (Verdict.REPLAYED if remembered is not None and remembered not in rewards else Verdict.FAILED)
    assert (made is None) == (verdict not in (Verdict.KEPT, Verdict.REPLAYED))
    if made is not None:
        mean = sum(member.reward for member in made.rollouts) / len(results)
        assert made.advantages == [member.reward - mean for member in made.rollouts]


def test_an_old_success_does_not_make_a_group_stale():
    made = Group(Drawn(0, "a", 3), (rollout(True, version=1, replayed=True), rollout(False, version=9)))
    assert made.oldest == 9


@pytest.mark.parametrize("members", [0, 1])
def test_a_group_that_hardly_came_through_is_dropped(members: int):
    assert judge(Drawn(0, "a", 3), [rollout(True)] * members, None) == (Verdict.SPOILED, None)


# ------------------------------------------------------------------------------------------------------------ successes


def test_successes_come_back_as_they_were(tmp_path):
    kept = Successes(tmp_path, keep=2)
    assert kept.take("a") is None
    for number in range(4):
        kept.add(rollout(True, version=number, length=6 + number, reward=-2.5), number, 1)
    assert len(list(tmp_path.glob("a/*.npz"))) == 2
    found, meant = Successes(tmp_path, keep=2).take("a"), rollout(True, version=3, length=9)
    assert found is not None and found.replayed and found.success and found.task == meant.task
    assert found.reward == -2.5
    for name in ("ids_T", "learn_T", "shown", "logprobs_l", "versions_l"):
        assert np.array_equal(getattr(found.plays[0], name), getattr(meant.plays[0], name))
    assert found.plays[0].tiles == meant.plays[0].tiles
    assert all(torch.equal(found.tiles[key], meant.tiles[key]) for key in meant.tiles)


def test_a_success_is_given_out_once(tmp_path):
    kept = Successes(tmp_path, keep=2)
    for number in range(2):
        kept.add(rollout(True, version=number), number, 0)
    assert [found and found.oldest for found in (kept.take("a"), kept.take("a"), kept.take("a"))] == [1, 0, None]


def test_a_broken_success_is_left_out(tmp_path):
    kept = Successes(tmp_path, keep=2)
    kept.add(rollout(True, version=1), 1, 0)
    (tmp_path / "a" / "00000002-0.npz").write_bytes(b"half a file")
    found = kept.take("a")
    assert found is not None and found.oldest == 1


# ---------------------------------------------------------------------------------------------------------------- tasks


@given(st.floats(0, 1), st.floats(0, 0.45), st.floats(0.55, 1))
def test_the_band_decides_what_is_drawn(rate: float, low: float, high: float):
    sampler = TaskSampler(["known", "new"], range(10), band=(low, high), outside=0.0, memory=1000)
    sampler.note("known", round(100 * rate), 100)
    names = {sampler.draw().name for _ in range(60)}
    inside = low <= round(100 * rate) / 100 <= high
    assert sampler.inside("known") == inside
    assert names == ({"known", "new"} if inside else {"new"})


def test_tasks_outside_the_band_are_still_visited():
    sampler = TaskSampler(["easy", "fair"], range(10), outside=0.1)
    sampler.note("easy", 64, 64)
    sampler.note("fair", 32, 64)
    easy = sum(sampler.draw().name == "easy" for _ in range(2000)) / 2000
    assert easy == pytest.approx(0.1 / 1.1, abs=0.02)


def test_with_everything_outside_something_is_still_played():
    sampler = TaskSampler(["a", "b"], range(10), outside=0.0)
    for name in ("a", "b"):
        sampler.note(name, 0, 8)
    assert {sampler.draw().name for _ in range(50)} == {"a", "b"}


@given(st.lists(st.tuples(st.integers(0, 8), st.just(8)), min_size=1, max_size=40))
def test_estimates_are_shares_and_follow_the_present(results: list[tuple[int, int]]):
    sampler = TaskSampler(["a"], range(3), memory=32)
    for wins, tries in results:
        sampler.note("a", wins, tries)
    rate = sampler.estimates["a"].rate
    assert rate is not None and 0 <= rate <= 1
    for _ in range(20):
        sampler.note("a", 8, 8)
    assert sampler.estimates["a"].rate == pytest.approx(1, abs=0.01)


@given(st.integers(0, 30), st.integers(0, 30))
def test_a_resumed_sampler_draws_on(before: int, after: int):
    def fresh() -> TaskSampler:
        return TaskSampler(["a", "b", "c"], range(1000), seed=5)

    whole, part = fresh(), fresh()
    for sampler in (whole, part):
        for n in range(before):
            sampler.note(sampler.draw().name, n % 9, 8)
    resumed = fresh()
    resumed.load(part.state())
    assert [resumed.draw() for _ in range(after)] == [whole.draw() for _ in range(after)]


def test_groups_that_were_under_way_are_played_again_first():
    sampler = TaskSampler(["a", "b"], range(1000), seed=5)
    drawn = [sampler.draw() for _ in range(6)]
    resumed = TaskSampler(["a", "b"], range(1000), seed=5)
    resumed.load(sampler.state([drawn[4], drawn[2]]))
    assert [resumed.draw() for _ in range(3)] == [drawn[2], drawn[4], sampler.draw()]


def test_counts_survive_a_resume():
    counts = Counts(episodes=3, successes=1, policy_seconds=1.5)
    counts.groups.update([Verdict.KEPT, Verdict.SOLVED, Verdict.KEPT])
    counts.staleness.update({0: 5, 2: 7})
    assert Counts.load(counts.state()) == counts
    assert (counts.kept, counts.dropped) == (2, 1)


# ---------------------------------------------------------------------------------------------------------------- queue


@given(st.lists(st.integers(0, 20), max_size=40), st.integers(1, 6), st.integers(1, 6), st.integers(0, 20))
def test_the_queue_is_bounded_and_fresh_and_counts_what_it_drops(
    versions: list[int], capacity: int, staleness: int, now: int
):
    queue = GroupQueue(capacity, staleness)
    for number, version in enumerate(versions):
        queue.put(group(number, version))
        assert len(queue) <= capacity
    taken = queue.take(capacity, now, timeout=0)
    assert [g.drawn.number for g in taken] == sorted(g.drawn.number for g in taken)
    assert all(now - g.oldest <= staleness for g in taken)
    assert len(taken) + queue.stale + queue.overflowed == len(versions)


def test_taking_waits_for_enough():
    queue = GroupQueue(4, 4)
    taken: list[Group] = []
    taker = threading.Thread(target=lambda: taken.extend(queue.take(2, 0)))
    taker.start()
    queue.put(group(0))
    time.sleep(0.05)
    assert taker.is_alive()
    queue.put(group(1))
    taker.join(timeout=30)
    assert [g.drawn.number for g in taken] == [0, 1]
    assert queue.waited > 0


def test_who_takes_hears_of_failure():
    queue = GroupQueue(4, 4)
    queue.fail(EnvironmentFault("no browser"))
    with pytest.raises(EnvironmentFault, match="no browser"):
        queue.take(1, 0)


# ------------------------------------------------------------------------------------------------------------ objective

SHAPE = ObjectivePart(truncate=2.0, clip_low=0.2, clip_high=0.3)
numbers = st.floats(-4, -0.01)


@given(st.lists(st.tuples(numbers, numbers, st.floats(-1, 1)), min_size=1, max_size=12))
def test_the_gradient_is_advantage_times_truncated_ratio_unless_clipped(tokens: list[tuple[float, float, float]]):
    now = torch.tensor([t[0] for t in tokens], dtype=torch.float64, requires_grad=True)
    then = torch.tensor([t[1] for t in tokens], dtype=torch.float64)
    advantages = torch.tensor([t[2] for t in tokens], dtype=torch.float64)
    loss, _ = objective(now, then, advantages, SHAPE)
    loss.backward()
    for n, (a, b, advantage) in enumerate(tokens):
        ratio = float(np.exp(a - b))
        clipped = (advantage > 0 and ratio > 1.3) or (advantage < 0 and ratio < 0.8)
        expected = 0.0 if clipped else -advantage * min(ratio, 2.0)
        assert now.grad is not None
        assert float(now.grad[n]) == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_on_policy_it_is_plain_reinforce():
    now = torch.tensor([-1.0, -2.0], requires_grad=True)
    loss, sums = objective(now, now.detach().clone(), torch.tensor([0.5, -0.5]), SHAPE)
    loss.backward()
    assert now.grad is not None and now.grad.tolist() == [-0.5, 0.5]
    assert sums[1:4].tolist() == [2.0, 0.0, 0.0]  # ratios of 1, nothing truncated, nothing clipped


def test_the_pull_to_the_start_has_the_gradient_of_the_reverse_kl():
    """On-policy, the mean gradient over samples is that of KL(now || start): checked over a whole small vocabulary."""
    torch.manual_seed(0)
    logits = torch.randn(5, dtype=torch.float64, requires_grad=True)
    start = torch.randn(5, dtype=torch.float64).log_softmax(-1)
    shape = ObjectivePart(kl=1.0)
    now = logits.log_softmax(-1)
    wanted = torch.autograd.grad((now.exp() * (now - start)).sum(), logits, retain_graph=True)[0]
    got = torch.zeros(5, dtype=torch.float64)
    for token in range(5):
        one = now[token : token + 1]
        loss, _ = objective(one, one.detach(), torch.zeros(1), shape, start[token : token + 1])
        got += now.exp()[token].detach() * torch.autograd.grad(loss, logits, retain_graph=True)[0]
    torch.testing.assert_close(got, wanted)


# --------------------------------------------------------------------------------------------------------------- passes


@given(st.lists(st.lists(st.integers(2, 50), min_size=2, max_size=6), min_size=1, max_size=8), st.integers(50, 120))
def test_passes_hold_every_sequence_once_and_keep_to_the_budget(lengths: list[list[int]], budget: int):
    groups = [group(n, lengths=tuple(sizes)) for n, sizes in enumerate(lengths)]
    passes = split(groups, budget)
    assert all(sum(len(play) for _, play, _ in items) <= budget for items in passes)
    wanted = sorted(id(play) for g in groups for _, play, _ in g.plays())
    assert sorted(id(play) for items in passes for _, play, _ in items) == wanted


def test_an_episode_that_no_pass_can_hold_is_an_error():
    with pytest.raises(InputError, match=r"update\.tokens"):
        split([group(lengths=(8, 60))], 32)


# --------------------------------------------------------------------------------------------------------------- recipe


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"tasks": {"band": [0.9, 0.1]}}, "lowest, highest"),
        ({"rollouts": {"group": 1}}, "greater than or equal to 2"),
        ({"rollouts": {"queue": 2}, "update": {"groups": 4}}, "at least update.groups"),
        ({"rollouts": {"colour": 1}}, "rollouts.colour"),
        ({"model": {"source": "tiny", "template": "turns"}}, "starts from a checkpoint"),
        ({"model": {"source": "tiny", "balance": True}}, "model.balance"),
        ({"lora": {"dropout": 0.1}}, "lora.dropout must be 0"),
        ({"lora": {}, "model": {"source": "tiny", "learn": ["mlp1"]}}, "model.learn does not name"),
        ({"tasks": {"learn_from": "hope"}}, "tasks.learn_from"),
    ],
)
def test_recipes_are_checked(changes: dict, says: str):
    from holotron.training.recipe import make_recipe

    table = {"name": "x", "model": {"source": "tiny"}, "schedule": {"steps": 1}} | changes
    with pytest.raises(ConfigError, match=says):
        make_recipe(table, "the recipe", RlRecipe)


def test_tasks_that_nobody_can_judge_are_refused_before_anything_is_loaded(tmp_path):
    from holotron.training.distributed import Ranks
    from holotron.training.recipe import make_recipe
    from holotron.training.rl.player import open_suites
    from holotron.training.rl.trainer import RlTrainer

    path = tmp_path / "web.jsonl"
    path.write_text('{"url": "http://localhost:1", "goal": "look around"}\n')
    table = {"name": "x", "model": {"source": "nowhere/at-all"}, "schedule": {"steps": 1}}
    unscored = make_recipe(table | {"tasks": {"suite": str(path)}}, "the recipe", RlRecipe)
    with pytest.raises(ConfigError, match="'web' succeeded, so reinforcement learning has nothing to learn from"):
        RlTrainer(unscored, tmp_path / "run", Ranks())
    assert not (tmp_path / "run").exists()
    judged = table | {"tasks": {"suite": "painted"}, "evaluate": {"every_steps": 1, "suite": str(path)}}
    with pytest.raises(ConfigError, match="use tasks with a checker"):
        open_suites(make_recipe(judged, "the recipe", RlRecipe))


@pytest.mark.parametrize("kind", ["full", "tower frozen", "lora"])
def test_engine_and_learner_share_what_never_changes(kind: str):
    """And nothing else: an update of either must not be seen by the other."""
    from holotron.training import lora
    from holotron.training.distributed import Ranks
    from holotron.training.loading import load_learner
    from holotron.training.recipe import make_recipe
    from holotron.training.rl.serving import twin
    from holotron.training.rl.weights import learnt_tensors

    changes: dict = {"lora": {"rank": 2}} if kind == "lora" else {}
    learn = ["language_model"] if kind == "tower frozen" else ["vision_model", "mlp1", "language_model"]
    table = {"name": "x", "model": {"source": "tiny", "learn": learn}, "schedule": {"steps": 1}} | changes
    recipe = make_recipe(table, "the recipe", RlRecipe)
    learner, _ = load_learner(recipe, torch.device("cpu"))
    before = dict(learner.model.named_parameters())
    served = twin(learner.model, recipe.lora)
    if recipe.lora is not None:
        lora.add(learner, recipe.lora)
    changing = set(learnt_tensors(learner, recipe.lora, Ranks()))
    assert changing
    for name, parameter in served.named_parameters():
        assert torch.equal(parameter, before[name]) and not parameter.requires_grad
        assert (parameter.data_ptr() == before[name].data_ptr()) == (name not in changing), name
    assert (kind == "full") == (changing == set(before))


def test_episodes_that_end_together_are_all_recorded_once(tmp_path):
    """More of them than a shard holds, from several threads, and each reported twice as after a resume."""
    from holotron.rollouts.store import RunReader
    from holotron.suites.base import find_suite
    from holotron.training.recipe import make_recipe
    from holotron.training.rl.recorder import Recorder

    table = {"name": "x", "model": {"source": "tiny"}, "schedule": {"steps": 1}, "rollouts": {"record_every": 2}}
    recorder = Recorder(tmp_path / "run", make_recipe(table, "the recipe", RlRecipe), find_suite("painted"))
    episodes = [
        (Trajectory(f"e{n}", Task("painted", "boxes-1", seed=n), (), Outcome.FAILURE), Drawn(n, "boxes-1", n))
        for n in range(300)
    ]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda episode: recorder(*episode), episodes * 2))
    recorder.close()
    assert sorted(row["seed"] for row in RunReader(tmp_path / "run").episodes()) == list(range(0, 300, 2))
