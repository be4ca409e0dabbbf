"""Names: ours, other packages', and somebody's file."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from holotron.agent.dialects import dialects
from holotron.agent.policies.registry import policies, route
from holotron.envs.registry import environments
from holotron.errors import ConfigError
from holotron.evals.judging.cases import protocols
from holotron.model.families import FAMILIES
from holotron.registry import Registry
from holotron.suites.base import named, suites

REGISTRIES = [suites, environments, policies, dialects, FAMILIES, protocols]


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda registry: registry.kind)
def test_everything_we_offer_by_name_is_there(registry: Registry):
    for name in registry.names():
        assert callable(registry.get(name)), name
        assert name in registry
    with pytest.raises(ConfigError, match=f"no {registry.kind} 'nonesuch'"):
        registry.get("nonesuch")


def test_the_plan_of_the_house_lists_every_registry():
    plan = (Path(__file__).parent.parent / "docs" / "architecture.md").read_text()
    listed = re.findall(r"^\|[^|]+\|[^|]+\| `(holotron\.\w+)` \|", plan, re.MULTILINE)
    assert [registry.group for registry in REGISTRIES] == listed


def test_a_slip_of_the_pen_gets_a_hint():
    with pytest.raises(ConfigError, match="did you mean miniwob"):
        suites.get("minwob")


def test_names_are_given_once():
    registry: Registry = Registry("thing", "holotron.test_things")

    @registry.register("a")
    def first() -> None: ...

    registry.register("a")(first)  # the same again is no conflict: a module may be loaded twice by different names
    with pytest.raises(ConfigError, match="registered twice"):
        registry.register("a")(lambda: None)


def test_other_packages_offer_theirs_through_entry_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "their_package.py").write_text("def coins(request):\n    return 'coins'\n")
    info = tmp_path / "their_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[holotron.test_things]\ncoins = their_package:coins\nbroken = their_package:missing\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    registry: Registry = Registry("thing", "holotron.test_things", {})
    assert registry.names() == ["broken", "coins"]
    assert registry.get("coins")(None) == "coins"
    with pytest.raises(ConfigError, match="cannot be loaded"):
        registry.get("broken")


def test_a_module_or_a_file_is_as_good_as_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "mine_of_test.py").write_text("def one(request):\n    return 1\n")
    (tmp_path / "bad_of_test.py").write_text("raise RuntimeError('boom')\n")
    (tmp_path / "typo_of_test.py").write_text("import os\nos.getcwdd()\ndef one(request): ...\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    registry: Registry = Registry("thing", "holotron.test_things", {})
    assert registry.get("mine_of_test:one")(None) == 1
    assert registry.get("mine_of_test.py:one")(None) == 1
    assert registry.get(f"{tmp_path}/mine_of_test.py:one")(None) == 1
    for spec, says in {
        "mine_of_test:two": "has no 'two'",
        "nowhere_of_test:one": "No module named",
        "nowhere.py:one": "there is no file",
        "bad_of_test.py:one": "RuntimeError: boom",
        "typo_of_test.py:one": "AttributeError: module 'os' has no attribute 'getcwdd'",
    }.items():
        with pytest.raises(ConfigError, match=says):
            registry.get(spec)


def test_what_a_word_means(tmp_path: Path):
    assert route("random:7") == ("random", "7")
    assert route("scripted") == ("scripted", "")
    assert route("http://localhost:8000/v1") == ("openai", "http://localhost:8000/v1")
    assert route("holotron-mini") == ("engine", "holotron-mini")
    assert route("preset:tiny") == ("engine", "preset:tiny")
    assert route("org/name") == ("engine", "org/name")
    assert route("mine.py:make") == ("mine.py:make", "")
    assert named("miniwob") == ("miniwob", "")
    assert named("tasks.jsonl") == ("web", "tasks.jsonl")
    assert named(str(tmp_path)) == ("asked", str(tmp_path))
    assert named("mine.py:suite") == ("mine.py:suite", "")
