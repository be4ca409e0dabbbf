"""Models say what they speak, or their family does; the user has the last word."""

from __future__ import annotations

import asyncio

import pytest

from holotron.agent.policies.choice import PolicyChoice, make_policy
from holotron.agent.policies.random import RandomPolicy
from holotron.agent.profiles import Profile, profile_for, read_profile, write_profile
from holotron.errors import ConfigError
from holotron.suites.miniwob_solver import SolverPolicy
from tests.agent.strict_server import strict_server


@pytest.mark.parametrize(
    ("name", "dialect", "history"),
    [
        ("Hcompany/Holotron-12B", "holotron", "append"),
        ("holotron-mini", "compact", "append"),
        ("Hcompany/Holo1-7B", "surfer", "window:3"),
        ("Hcompany/Holo1.5-7B", "surfer", "window:3"),
        ("Hcompany/Holo2-8B", "holotron", "window:3"),
        ("holo3-35b", "holotron", "window:3"),
        ("gpt-5", "tools", "window:3"),
        ("somebody/else", "holotron", "window:3"),
    ],
)
def test_families(name, dialect, history):
    profile = profile_for(name)
    assert (profile.dialect, profile.history) == (dialect, history)
    profile.make_dialect()
    profile.make_history()


def test_a_checkpoint_says_so_itself(tmp_path):
    write_profile(tmp_path, Profile("compact", history="epoch:8,2"))
    assert profile_for("Hcompany/Holo2-8B", tmp_path) == Profile("compact", history="epoch:8,2")
    for bad in ('{"dialect": "latin"}', "not json", '{"colour": "red"}', '{"history": "some"}'):
        (tmp_path / "agent.json").write_text(bad)
        with pytest.raises(ConfigError, match=r"agent\.json"):
            profile_for("x", tmp_path)


def test_the_user_has_the_last_word():
    known = profile_for("Hcompany/Holo1.5-7B")
    assert known.with_wishes(dialect=None, frame="unit", history="append") == Profile("surfer", "unit", "append")
    assert known.with_wishes(dialect="compact", frame=None, history=None) == Profile("compact", None, "window:3")
    with pytest.raises(ConfigError, match="points in cells"):
        known.with_wishes(dialect="compact", frame="pixels", history=None)


def test_policies_from_words():
    def make(spec, **wishes):
        async def main():
            policy = await make_policy(PolicyChoice(spec, **wishes), ("click", "wait"))
            await policy.close()
            return policy

        return asyncio.run(main())

    assert isinstance(make("scripted"), SolverPolicy)
    random = make("random:9")
    assert isinstance(random, RandomPolicy)
    assert random.describe() == {"policy": "random", "seed": 9, "actions": ["click", "wait"]}
    with pytest.raises(ConfigError, match="random:SEED"):
        make("random:x")
    with pytest.raises(ConfigError, match="neither a folder"):
        make("no-such-model")
    with strict_server() as double:
        remote = make(double.url, history="append", temperature=0.5)
        assert remote.name == "seer"  # the only one it serves
        described = remote.describe()
        assert described["dialect"] == {
            "name": "holotron",
            "frame": "thousand",
            "actions": ["click", "wait"],
            "resize": None,
        }
        assert described["history"] == "append"
        assert described["sampling"]["temperature"] == 0.5


def test_a_model_trained_with_screenshot_deltas_says_so(tmp_path):
    write_profile(tmp_path, Profile("compact", deltas=0))
    assert read_profile(tmp_path / "agent.json").deltas == 0
    write_profile(tmp_path, Profile("compact"))
    assert "deltas" not in (tmp_path / "agent.json").read_text()
    (tmp_path / "agent.json").write_text('{"deltas": true}')
    with pytest.raises(ConfigError, match="tolerance"):
        read_profile(tmp_path / "agent.json")
