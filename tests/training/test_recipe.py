from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from holotron.errors import ConfigError
from holotron.training.recipe import read_recipe
from holotron.training.recipes import shipped
from tests import warm

RECIPES = sorted(
    path
    for path in (Path(__file__).parents[2] / "recipes").rglob("*.toml")
    if not path.stem.endswith("-rl")  # see `rl.test_trainer`
)
MINIMAL = """
name = "x"
model = { source = "tiny" }
schedule = { steps = 3 }
[[data]]
kind = "conversations"
files = ["a.jsonl"]
"""


@pytest.fixture
def minimal(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(MINIMAL)
    return path


def test_there_are_recipes():
    assert RECIPES


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_shipped_recipes_are_valid(path):
    assert read_recipe(path).name.startswith(path.parent.name.removesuffix("-2"))


def test_shipped_recipes_have_names(tmp_path, monkeypatch):
    assert {recipe.path for recipe in shipped()} >= set(RECIPES)
    monkeypatch.chdir(tmp_path)  # no source tree here
    by_name = read_recipe("holotron-mini/3-dagger")
    assert by_name == read_recipe("recipes/holotron-mini/3-dagger.toml") == read_recipe("holotron-mini/3-dagger.toml")
    own = tmp_path / "holotron-mini" / "3-dagger"
    own.parent.mkdir()
    own.write_text(MINIMAL)
    assert read_recipe("holotron-mini/3-dagger").name == "x"  # a file of one's own goes first


def test_overrides_reach_every_place(minimal):
    recipe = read_recipe(minimal, ["optimiser.lr=3e-5", "data.0.weight=2", "model.dtype=bfloat16", 'about="a = b"'])
    assert (recipe.optimiser.lr, recipe.data[0].weight, recipe.model.dtype, recipe.about) == (
        3e-5,
        2.0,
        "bfloat16",
        "a = b",
    )
    assert read_recipe(minimal, ["optimiser.lr=3e-5", "optimiser.lr="]) == read_recipe(minimal, ["optimiser.lr="])
    assert read_recipe(minimal, ["about=some", "about="]).about == ""


@pytest.mark.parametrize(
    ("override", "complaint"),
    [
        ("optimiser.lrr=1", "optimiser.lrr"),
        ("data.0.weight=-1", "data.0.weight"),
        ("data.0.kind=films", "data.0"),
        ("data.7.weight=1", "data.7.weight"),
        ("schedule.steps=0", "schedule.steps"),
        ("batch.reuse=2", "batch.samples"),
        ("model.learn=['brain']", "model.learn"),
        ("nonsense", "key=value"),
    ],
)
def test_what_is_wrong_is_named(minimal, override, complaint):
    with pytest.raises(ConfigError, match=r"recipe|override") as caught:
        read_recipe(minimal, [override])
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("override", "advice"),
    [
        ("optimiser.lrr=1", "optimiser.lrr: there is no such key; did you mean optimiser.lr?"),
        ("optimizer.lr=1", "optimizer: there is no such key; did you mean optimiser?"),
        ("lr=1", "lr: there is no such key; did you mean optimiser.lr?"),
        ("model.steps=9", "model.steps: there is no such key; did you mean schedule.steps?"),
        ("data.0.wieght=2", "data.0.wieght: there is no such key; did you mean data.0.weight?"),
        ("lora.colour=1", "lora.colour: there is no such key; lora has alpha, dropout, merge, rank, targets"),
        (
            'evaluate.suites=[{ kind = "loss", data = { kind = "text", sede = 1 } }]',
            "evaluate.suites.0.data.sede: there is no such key; did you mean evaluate.suites.0.data.seed?",
        ),
    ],
)
def test_an_unknown_key_comes_with_the_one_that_was_meant(minimal, override, advice):
    with pytest.raises(ConfigError) as caught:
        read_recipe(minimal, [override])
    assert advice in str(caught.value)


def test_an_end_is_required(tmp_path):
    path = tmp_path / "endless.toml"
    path.write_text(MINIMAL.replace("steps = 3", "warmup = 3"))
    with pytest.raises(ConfigError, match=r"schedule\.steps or schedule\.minutes"):
        read_recipe(path)


def test_broken_files_are_explained(tmp_path):
    with pytest.raises(ConfigError, match="neither a file nor a recipe of the package"):
        read_recipe(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="Is a directory"):
        read_recipe(tmp_path)
    path = tmp_path / "broken.toml"
    path.write_text("name = ")
    with pytest.raises(ConfigError, match="not TOML"):
        read_recipe(path)


def holotron(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([warm.holotron(), *words], capture_output=True, text=True, check=False)


def test_dry_run_prints_the_whole_recipe_and_does_nothing(minimal, tmp_path):
    done = holotron("train", "sft", str(minimal), "optimiser.clip=0.5", "--minutes", "2", "--dry-run")
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert shown["optimiser"]["clip"] == 0.5
    assert shown["schedule"]["minutes"] == 2
    assert shown["optimiser"]["betas"] == [0.9, 0.95]
    assert list(tmp_path.iterdir()) == [minimal]


def test_a_wrong_recipe_is_one_line_and_exit_code_2(minimal):
    done = holotron("train", "sft", str(minimal), "optimiser.speed=1")
    assert done.returncode == 2
    assert "optimiser.speed" in done.stderr
    assert "Traceback" not in done.stderr
