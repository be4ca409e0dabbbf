"""Players in processes of their own, and several ranks: the same learning, by other hands."""

from __future__ import annotations

import asyncio
import os
import pickle
import re
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from holotron.errors import CapacityError, StorageError
from holotron.rollouts.store import RunReader
from holotron.training.curves import read_metrics
from holotron.training.distributed import Ranks, ranks
from holotron.training.rl.counts import Counts
from holotron.training.rl.groups import Group
from holotron.training.rl.messages import Ask, Judge, Recorded
from holotron.training.rl.recipe import RlRecipe
from holotron.training.rl.spread import PlayersElsewhere
from holotron.training.rl.there import _answer
from holotron.training.rl.trainer import RlTrainer
from holotron.training.rl.weights import learnt_tensors
from holotron.types import Task
from tests.training.ranks import on_ranks
from tests.training.rl.support import rl_recipe, untrained
from tests.training.rl.test_trainer import CHANCE


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return untrained(tmp_path_factory.mktemp("start"))


def test_what_others_have_counted_is_added():
    mine, theirs = Counts(episodes=3), Counts(episodes=4, rewards=0.5)
    theirs.groups["kept"] += 2
    taken = theirs.taken()
    assert theirs == Counts() and taken.episodes == 4
    mine.add(taken)
    mine.add(taken)
    assert (mine.episodes, mine.rewards, mine.groups["kept"]) == (11, 1.0, 4)


@pytest.mark.slow
def test_two_engines_play_one_is_killed_and_parity_holds(start: Path, tmp_path: Path, monkeypatch):
    """Every update asks another engine whether it computes what the trainer does. One of the two is killed on the way:
    its groups are played by others, and the one that takes its place has the weights of right now."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    killed: list[int] = []
    seen: list[list[Group]] = []

    def look(step: int, groups: list[Group]) -> None:
        seen.append(groups)
        if step == 3:
            pids = [int(m[1]) for p in folder.iterdir() if (m := re.match(r"holotron-player-(\d+)-", p.name))]
            assert len(pids) == 2
            os.kill(pids[0], signal.SIGKILL)
            killed.append(pids[0])

    changes: dict[str, Any] = CHANCE | {"rollouts": CHANCE["rollouts"] | {"processes": 2, "record_every": 1}}
    recipe = rl_recipe(start, **changes, schedule={"steps": 8}, evaluate={"every_steps": 8, "seeds": "200000:200004"})
    trainer = RlTrainer(recipe, tmp_path / "run", Ranks(), on_step=look)
    figures = trainer.run()
    assert killed and 0 <= figures["evaluation/success"] <= 1
    rows = [row for row in read_metrics(tmp_path / "run") if "update/ratio" in row]
    assert [row["step"] for row in rows] == list(range(1, 9))
    assert rows[0]["update/error"] == pytest.approx(1.0, abs=1e-3)  # nothing had changed yet
    agreements = [row["update/agreement"] for row in rows if "update/agreement" in row]
    assert len(agreements) >= 5 and max(agreements) <= 1.001, agreements
    versions = {int(v) for groups in seen for group in groups for _, play, _ in group.plays() for v in play.versions_l}
    assert max(versions) > 3 and min(versions) == 0, "played with weights from after the kill, too"
    counts = trainer.counts
    assert counts.kept >= 16 and counts.groups.total() == counts.kept + counts.dropped
    assert counts.sampled_tokens > 0 and counts.forks > 0
    assert trainer.progress.learnt == counts.staleness.total()
    assert RunReader(tmp_path / "run" / "episodes").episodes()
    assert not list(folder.iterdir()), "players have left something behind"


class OnePlayer:
    """A place with a process that says one thing, or (of nothing to say) cannot be started."""

    def __init__(self, says: Any) -> None:
        self._says = [says] if says is not None else []

    def shared(self) -> Any:
        return SimpleNamespace(close=lambda: None)

    async def start(self, *given: Any) -> OnePlayer:
        if not self._says:
            raise OSError("no more processes")
        return self

    async def receive(self) -> Any:
        return self._says.pop() if self._says else await asyncio.Event().wait()

    async def stop(self) -> None: ...

    async def close(self) -> None: ...


@pytest.mark.parametrize(("says", "error"), [(None, OSError), (Recorded, StorageError)])
def test_whatever_fails_in_the_background_the_trainer_hears_of_it(start: Path, says: Any, error: type[Exception]):
    def full(*given: Any) -> None:
        raise StorageError("the disk is full")

    told: list[BaseException] = []
    desk, place = SimpleNamespace(failed=told.append), OnePlayer(says and says(None, None))
    players = PlayersElsewhere(rl_recipe(start), cast(Any, desk), cast(Any, place), ["cpu"], full)
    with pytest.raises(error), players:
        players.evaluate([Task("buttons", "press")])
    assert isinstance(told[0], error)


@pytest.mark.parametrize("asked", [Ask, Judge])
def test_a_question_that_an_engine_cannot_answer_is_not_waited_for(asked: Any):
    def full(*given: Any) -> Any:
        raise CapacityError("the context is full")

    told: list[BaseException] = []
    players, desk = SimpleNamespace(ask=full, evaluate=full), SimpleNamespace(failed=told.append)
    channel = SimpleNamespace(send=told.append)
    asyncio.run(_answer(cast(Any, channel), cast(Any, players), cast(Any, desk), asked(1, ())))
    assert isinstance(told[0], CapacityError)


def test_a_run_may_go_on_with_another_number_of_processes(start: Path):
    recipe = rl_recipe(start, rollouts={"processes": 2})
    assert recipe.same_run(rl_recipe(start, schedule={"steps": 9}))
    assert not recipe.same_run(rl_recipe(start, rollouts={"group": 4}))


def learn(recipe: RlRecipe, out: Path, stored: Path) -> dict[str, Any]:
    """Updates from groups that were played before, on as many ranks as there are."""
    with ranks("cpu") as where:
        trainer = RlTrainer(recipe, out, where)
        try:
            for groups in pickle.loads(stored.read_bytes()):
                trainer.step(groups if where.first else [], 1e-3)
            trainer.save()
            tensors = learnt_tensors(trainer.learner, recipe.lora, where)
            state = {name: tensor.numpy() for name, tensor in tensors.items()}
            agreement = trainer._agreement()
        finally:
            if trainer.players is not None:
                trainer.players.engine.close()
    return {"state": state, "agreement": agreement}


@pytest.mark.slow
@pytest.mark.parametrize("lora", [None, {"rank": 2, "alpha": 4}], ids=["full", "lora"])
def test_two_ranks_learn_what_one_learns(start: Path, tmp_path: Path, lora: dict[str, int] | None):
    seen: list[list[Group]] = []
    changes: dict[str, Any] = {"objective": {"kl": 0.05}, "update": {"groups": 2, "tokens": 600}}
    recipe = rl_recipe(start, **CHANCE | changes | ({"lora": lora} if lora else {}), schedule={"steps": 3})
    RlTrainer(recipe, tmp_path / "play", Ranks(), on_step=lambda step, groups: seen.append(groups)).run()
    (tmp_path / "groups").write_bytes(pickle.dumps(seen))
    one = learn(recipe, tmp_path / "one", tmp_path / "groups")
    two, _ = on_ranks(2, learn, recipe, tmp_path / "two", tmp_path / "groups")
    assert one["state"].keys() == two["state"].keys() and one["state"]
    for name, tensor in one["state"].items():
        torch.testing.assert_close(torch.from_numpy(tensor), torch.from_numpy(two["state"][name]), rtol=0, atol=2e-5)
    assert one["agreement"] <= 1.001 and two["agreement"] <= 1.001
