"""Recorded episodes as training data: the engine's own token stream, a teacher's corrections, shifts, packed runs."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holotron.actions import action_to_json
from holotron.agent.coordinates import Screen
from holotron.agent.dialects import make_dialect
from holotron.agent.history import Append
from holotron.agent.loop import Episode, Limits
from holotron.agent.policies.base import Policy
from holotron.agent.policies.engine import EnginePolicy
from holotron.agent.policies.labelled import LabelledPolicy
from holotron.agent.policies.scripted import ScriptedPolicy
from holotron.engine.api import EngineConfig, SamplingParams
from holotron.engine.engine import Engine
from holotron.errors import ConfigError, InputError
from holotron.model.loading import load_model
from holotron.rollouts.pack import Pack, pack
from holotron.rollouts.recorded import RecordedEpisode, RecordedStep, RunEpisodes, open_recorded
from holotron.rollouts.store import RunReader, RunWriter
from holotron.training.episodes import Episodes
from holotron.training.recipe import EpisodeData
from holotron.training.samples import TokenSequence
from holotron.training.shift import places, pushed, shifted
from holotron.types import (
    Action,
    Click,
    Completion,
    Drag,
    Outcome,
    PressKeys,
    Scroll,
    StepResult,
    Task,
    Trajectory,
    Write,
)
from tests.agent.toy import ButtonEnvironment

TASK = Task("buttons", "press", seed=5, options={"presses": 50})
MODEL, PROCESSOR = load_model("tiny", device="cpu")
TOKENIZER = PROCESSOR.tokenizer


class Board(ButtonEnvironment):
    """Nothing ends it, and every step leaves a dot."""

    async def step(self, action: Action) -> StepResult:
        self.presses += 1
        return StepResult(self._look())


def play(
    policy: Policy, outcome: Outcome | None = Outcome.SUCCESS, *, id: str = "one", task: Task = TASK
) -> Trajectory:
    """Four steps; the outcome is then what the test needs it to be."""
    limits = Limits(steps=4, repeats=99)
    trajectory = asyncio.run(Episode(Board((64, 64)), policy, task, id=id, limits=limits).run())
    assert len(trajectory.steps) == 4
    return trajectory if outcome is None else replace(trajectory, outcome=outcome)


def record(path: Path, *trajectories: Trajectory) -> Path:
    with RunWriter(path, {"config": {}}) as writer:
        for trajectory in trajectories:
            writer.append(trajectory)
    return path


def clicking(*points: tuple[float, float]) -> ScriptedPolicy:
    return ScriptedPolicy(lambda environment, observation, step: Click(*points[step % len(points)]))


def source(*runs: Path, **options) -> Episodes:
    return Episodes(EpisodeData(kind="episodes", runs=runs, **options), PROCESSOR, MODEL.config)


def learnt(sequence: TokenSequence) -> list[str]:
    text = TOKENIZER.decode(sequence.ids[sequence.learn].tolist(), skip_control=False)
    return [part for part in text.split("<|im_end|>") if part]


# ------------------------------------------------------------------------------------------------------ the very stream


def test_an_episode_is_the_token_stream_that_the_engine_served(tmp_path):
    with Engine(MODEL, PROCESSOR, EngineConfig()) as engine:
        sampling = SamplingParams(temperature=1.0, max_tokens=40, seed=3)
        dialect = make_dialect("compact", actions=["click", "hover"])
        trajectory = play(EnginePolicy(engine, dialect, Append(), sampling=sampling))
    (sample,) = source(record(tmp_path / "run", trajectory)).held_out(1)
    (sequence,) = sample.sequences
    end = 0
    for step in trajectory.steps:
        completion = step.reply.completion
        begin = completion.prompt_tokens
        assert not sequence.learn[end:begin].any()
        end = begin + completion.generated_tokens
        assert sequence.ids[begin:end].tolist() == list(completion.tokens)
        assert sequence.learn[begin:end].all()
    assert end == len(sequence.ids)
    shown = (sequence.ids == TOKENIZER.image_id).sum()
    assert shown == len(sequence.shown)
    assert set(sequence.shown[:, 0]) == set(range(len(sample.tiles)))
    assert sample.name == "press"


def test_what_was_thought_is_part_of_the_stream(tmp_path):
    """A policy that says where it looks is cloned with its words, and a teacher who agrees leaves them alone."""
    trajectory = play(LabelledPolicy(clicking((10, 20)), clicking((10, 20), (40, 40))))
    steps = [replace(step, reply=replace(step.reply, thought="look 400 690")) for step in trajectory.steps]
    run = record(tmp_path / "run", replace(trajectory, steps=steps))
    packed = pack([run], tmp_path / "run.zip", where=lambda row: True)[0].path
    for path in (run, packed):
        (sample,) = source(path).held_out(1)
        corrected, agreed = sample.sequences[:-1], sample.sequences[-1]
        assert [learnt(sequence) for sequence in corrected] == [["click 625 625"]] * 2
        assert learnt(agreed) == ["look 400 690 click 156 312"] * 2
        places = [bytes(agreed.ids[n + 1 : n + 4].tolist()).decode() for n in agreed.aims[:, 0]]
        assert places == ["400", "156"] * 2
        assert agreed.aims[::2, 1:].tolist() == agreed.points[:, 1:].tolist()
        assert (agreed.ids[agreed.points[:, 0] + 1] == TOKENIZER.image_id).all()  # the token before the picture asks
        assert (agreed.ids[agreed.points[:, 0]] != TOKENIZER.image_id).all()


def test_only_successes_of_the_chosen_seeds_are_cloned(tmp_path):
    run = record(
        tmp_path / "run",
        play(clicking((10, 20)), id="good"),
        play(clicking((10, 20)), Outcome.FAILURE, id="bad"),
        play(clicking((10, 20)), id="later", task=replace(TASK, seed=900)),
    )
    assert source(run).episodes == {"press": 2}
    assert source(run, seeds="0:900").episodes == {"press": 1}
    with pytest.raises(ConfigError, match="no episode to learn from"):
        source(run, seeds="1000:2000")
    with pytest.raises(InputError, match="neither a run directory"):
        source(tmp_path / "nothing")


def test_tasks_are_drawn_alike_unless_weighted(tmp_path):
    often = [play(clicking((5, 5)), id=f"a{n}", task=replace(TASK, name="often")) for n in range(5)]
    run = record(tmp_path / "run", *often, play(clicking((5, 5)), id="b", task=replace(TASK, name="seldom")))
    rng = np.random.default_rng(0)
    plain, weighted = source(run), source(run, task_weights={"seldom": 3.0})
    share = [sum(s.sample(n, rng).name == "seldom" for n in range(60)) / 60 for s in (plain, weighted)]
    assert 0.3 < share[0] < 0.7 < share[1] < 0.95


# ---------------------------------------------------------------------------------------------------------- corrections


def test_a_teacher_corrects_the_learner_in_the_states_the_learner_reached(tmp_path):
    learner, teacher = clicking((10, 20), (30, 40)), clicking((10, 20), (50, 60))
    trajectory = play(LabelledPolicy(learner, teacher), Outcome.FAILURE)
    assert [step.reply.action for step in trajectory.steps][:2] == [Click(10, 20), Click(30, 40)]
    assert [step.reply.label for step in trajectory.steps][:2] == [Click(10, 20), Click(50, 60)]
    run = record(tmp_path / "run", trajectory)
    assert next(RunReader(run).trajectories()).steps[1].reply.label == Click(50, 60)
    (sample,) = source(run).held_out(1)
    *corrected, agreed = sample.sequences
    right, wrong, better = "click 156 312", "click 468 625", "click 781 937"
    assert [learnt(sequence) for sequence in corrected] == [[better], [better]]
    # Its own words stay in the past of what it is to learn.
    past = [
        TOKENIZER.decode(sequence.ids[: len(sequence.ids) - sequence.learn.sum()].tolist()) for sequence in corrected
    ]
    assert (past[0].count(right), past[0].count(wrong)) == (1, 0)
    assert (past[1].count(right), past[1].count(wrong)) == (2, 1)
    assert learnt(agreed) == [right, right]


def test_a_teacher_at_a_loss_labels_nothing(tmp_path):
    nobody = ScriptedPolicy(lambda environment, observation, step: None)
    trajectory = play(LabelledPolicy(clicking((10, 20)), nobody), Outcome.FAILURE)
    assert all(step.reply.label is None for step in trajectory.steps)
    with pytest.raises(ConfigError, match="no episode"):
        source(record(tmp_path / "run", trajectory))


def test_lessons_end_where_the_live_conversation_held_a_warning(tmp_path):
    class Still(ButtonEnvironment):
        """Nothing ever changes on its screen."""

        async def step(self, action):
            return StepResult(self._look())

    trajectory = asyncio.run(Episode(Still((64, 64)), clicking((1, 1)), TASK, limits=Limits(steps=9)).run())
    assert len(trajectory.steps) == 5  # then the loop ended it
    run = record(tmp_path / "run", replace(trajectory, outcome=Outcome.SUCCESS))
    (sample,) = source(run).held_out(1)
    assert len(learnt(sample.sequences[0])) == 3
    assert len(sample.tiles) == 1  # and one picture serves all three


# --------------------------------------------------------------------------------------------------------------- shifts


def episode_of(*actions) -> RecordedEpisode:
    steps = tuple(RecordedStep(n, (160, 160), json.dumps(action_to_json(a))) for n, a in enumerate(actions))
    return RecordedEpisode("e", Task("s", "t", "goal"), True, steps)


@settings(deadline=None)
@given(st.integers(-16, 40), st.integers(-16, 40))
def test_a_shift_moves_pictures_and_places_together(right, down):
    rng = np.random.default_rng(0)
    actions = [Click(60, 70), Drag(40, 50, 90, 100), Scroll("down", 30.0, x=80, y=80), Write("hi"), PressKeys(("a",))]
    frames = {n: rng.integers(0, 255, (320, 320, 3), dtype=np.uint8) for n in range(len(actions))}
    moved, pictures = shifted(episode_of(*actions), frames, (right, down))
    for n, (step, before) in enumerate(zip(moved.steps, actions, strict=True)):
        assert type(step.action) is type(before)
        for (x, y), (x0, y0) in zip(places(step.action), places(before), strict=True):
            assert (pictures[n][int(2 * y), int(2 * x)] == frames[n][int(2 * y0), int(2 * x0)]).all()


def test_a_shift_that_would_lose_a_place_is_not_made():
    episode, frames = episode_of(Click(150, 80)), {0: np.zeros((320, 320, 3), np.uint8)}
    assert shifted(episode, frames, (40, 0)) == (episode, frames)
    assert shifted(episode, frames, (-40, 0))[0] != episode


def test_what_comes_in_has_the_colour_of_the_corner():
    pixels = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    result = pushed(pixels, 1, -1)
    assert (result[:3, 1:] == pixels[1:, :3]).all()
    assert (result[:, 0] == pixels[0, 0]).all() and (result[3] == pixels[0, 0]).all()


def test_shifted_lessons_speak_of_shifted_places(tmp_path):
    run = record(tmp_path / "run", play(clicking((30, 30))))
    found = source(run, shift=(16, 16), shifted=1.0)
    said = {learnt(found.sample(n, np.random.default_rng(n)).sequences[0])[0] for n in range(12)}
    assert len(said) > 6
    screen = Screen((64, 64), (64, 64))
    points = [make_dialect("compact").parse(Completion(text), screen).action for text in said]
    assert all(26 - 0.1 <= p.x <= 46.1 and 26 - 0.1 <= p.y <= 46.1 for p in points)


def test_only_thoughts_that_are_learnt_keep_an_episode_in_its_place(tmp_path):
    """They may name places in words. What the dialect leaves unsaid does not."""
    trajectory = play(clicking((30, 30)))
    for thought, moves in (("look 400 690", False), ("the button Submit", True)):
        steps = [replace(step, reply=replace(step.reply, thought=thought)) for step in trajectory.steps]
        run = record(tmp_path / thought.split()[0], replace(trajectory, steps=steps))
        found = source(run, shift=(16, 16), shifted=1.0)
        said = {learnt(found.sample(n, np.random.default_rng(n)).sequences[0])[0] for n in range(8)}
        assert (len(said) > 4) == moves


# --------------------------------------------------------------------------------------------------------- packed runs


def test_a_packed_run_is_the_run(tmp_path):
    runs = [
        record(tmp_path / "a", play(clicking((10, 20), (30, 30)), id="x"), play(clicking((9, 9)), id="y")),
        record(tmp_path / "b", play(LabelledPolicy(clicking((1, 1)), clicking((2, 2))), Outcome.FAILURE, id="z")),
    ]
    (made,) = pack(runs, tmp_path / "p.zip", where=lambda row: True)
    assert (made.episodes, made.steps) == (3, 12)
    packed = open_recorded(made.path)
    folders = [RunEpisodes(run) for run in runs]
    known = {episode.id: (folder, episode) for folder in folders for episode in folder.episodes}
    assert {episode.id for episode in packed.episodes} == set(known)
    for episode in packed.episodes:
        folder, original = known[episode.id]
        assert episode[:3] == original[:3]
        for mine, theirs in zip(episode.steps, original.steps, strict=True):
            assert mine[1:] == theirs[1:]
            assert (packed.pixels(mine.frame) == folder.pixels(theirs.frame)).all()
    one, other = source(*runs), source(made.path)
    assert [s.ids.tolist() for x in one.held_out(9) for s in x.sequences] == [
        s.ids.tolist() for x in other.held_out(9) for s in x.sequences
    ]


def test_packs_come_in_parts_and_any_size_of_frame(tmp_path):
    episodes = [play(clicking((n, 20)), id=f"e{n}", task=replace(TASK, seed=n)) for n in range(4)]
    run = record(tmp_path / "a", *episodes)
    made = pack([run], tmp_path / "p.zip", part_bytes=300)
    assert [part.path.name for part in made][:2] == ["p.zip", "p-2.zip"]
    assert sum(part.episodes for part in made) == 4
    environment = Board((61, 43))
    odd = asyncio.run(Episode(environment, clicking((9, 9)), TASK, id="odd", limits=Limits(steps=3, repeats=99)).run())
    folder = RunEpisodes(record(tmp_path / "b", odd))
    (whole,) = pack([tmp_path / "b"], tmp_path / "q.zip", where=lambda row: True)
    packed = Pack(whole.path)
    for mine, theirs in zip(packed.episodes[0].steps, folder.episodes[0].steps, strict=True):
        assert packed.pixels(mine.frame).shape == (43, 61, 3)
        assert (packed.pixels(mine.frame) == folder.pixels(theirs.frame)).all()


def test_broken_packs_and_empty_runs_are_explained(tmp_path):
    (tmp_path / "broken.zip").write_bytes(b"PK nothing")
    with pytest.raises(InputError, match="cannot be read"):
        open_recorded(tmp_path / "broken.zip")
    run = record(tmp_path / "run", play(clicking((1, 1)), Outcome.FAILURE))
    with pytest.raises(InputError, match="no episode to pack"):
        pack([run], tmp_path / "p.zip")
