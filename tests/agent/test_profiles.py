"""Models say what they speak, or their family does; the user has the last word."""

from __future__ import annotations

import asyncio
import re

import pytest

from holotron.agent.messages import Message
from holotron.agent.policies.random import RandomPolicy
from holotron.agent.policies.registry import PolicyRequest, make_policy
from holotron.agent.profiles import Profile, profile_for, read_profile, write_profile
from holotron.errors import ConfigError
from holotron.suites.miniwob_solver import SolverPolicy
from tests.agent.strict_server import strict_server
from tests.model.folders import edit, tiny_folder


@pytest.mark.parametrize(
    ("name", "dialect", "history"),
    [
        ("Hcompany/Holotron-12B", "holotron", "window:3"),
        ("holotron-mini", "compact", "append"),
        ("Hcompany/Holotron-3-Nano", "desktop", "window:3"),
        ("Hcompany/Holotron4-30B-A3B", "desktop", "window:3"),
        ("Hcompany/Holo1-7B", "surfer", "window:3"),
        ("Hcompany/Holo1.5-7B", "surfer", "window:3"),
        ("Hcompany/Holo2-8B", "holotron", "window:3"),
        ("holo3-35b", "holotron", "window:3"),
        ("Hcompany/Holo-3.1-35B-A3B-FP8", "holotron", "window:3"),
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
    assert known.with_wishes(dialect=None, frame="unit", history="append") == Profile(
        "surfer", "unit", "append", temperature=0.0
    )
    assert known.with_wishes(dialect="compact", frame=None, history=None) == Profile(
        "compact", None, "window:3", temperature=0.0
    )
    with pytest.raises(ConfigError, match="points in cells"):
        known.with_wishes(dialect="compact", frame="pixels", history=None)


def test_policies_from_words():
    def make(spec, **wishes):
        async def main():
            policy = await make_policy(PolicyRequest(spec, **wishes, actions=("click", "wait")))
            await policy.close()
            return policy

        return asyncio.run(main())

    assert isinstance(make("scripted", solver=SolverPolicy), SolverPolicy)
    with pytest.raises(ConfigError, match="no scripted solver"):
        make("scripted")
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
        hashes = {name: described["dialect"].pop(name) for name in ("prompt", "schema")}
        assert all(len(value) == 12 for value in hashes.values())
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


def test_published_loops_are_followed_and_silence_is_kept():
    nano = profile_for("Hcompany/Holotron-3-Nano")
    assert (nano.temperature, nano.top_p, nano.max_tokens, nano.thinking) == (0.8, 0.95, 4096, True)
    base = profile_for("Hcompany/Holotron-12B")  # no loop was published: its own files say
    assert (base.temperature, base.top_p, base.thinking) == (None, None, None)
    for name in ("Hcompany/Holo3-35B-A3B", "Hcompany/Holo-3.1-4B", "Hcompany/Holo4-27B"):  # reasoning is essential
        holo = profile_for(name)
        assert (holo.thinking, holo.temperature, holo.max_tokens) == (True, None, 4096)
    assert profile_for("Hcompany/Holo2-8B").thinking is None  # its template's own default
    assert profile_for("somebody/else").temperature == 0.0
    wanted = PolicyRequest("x", temperature=0.1, thinking=False, declared=profile_for("Holotron-3-Nano")).profile
    assert wanted.thinking is False and wanted.temperature == 0.1


@pytest.mark.parametrize("bad", ['{"temperature": -1}', '{"top_p": 0}', '{"max_tokens": 1.5}', '{"thinking": "yes"}'])
def test_sampling_that_cannot_be_is_refused(tmp_path, bad):
    (tmp_path / "agent.json").write_text(bad)
    with pytest.raises(ConfigError, match=r"agent\.json.*or absent"):
        read_profile(tmp_path / "agent.json")


def test_a_checkpoint_is_sampled_as_its_files_say(tmp_path):
    folder = tiny_folder(tmp_path / "mine")
    edit(folder / "generation_config.json", temperature=0.6, top_p=0.9, top_k=7)

    def sampling(**wishes):
        async def main():
            policy = await make_policy(PolicyRequest(str(folder), device="cpu", actions=("click",), **wishes))
            await policy.close()
            return policy.describe()["sampling"]

        return asyncio.run(main())

    silent = sampling()
    assert (silent["temperature"], silent["top_p"], silent["top_k"], silent["max_tokens"]) == (0.6, 0.9, 7, 1024)
    assert sampling(temperature=0.0)["temperature"] == 0.0
    (folder / "agent.json").write_text('{"dialect": "compact", "temperature": 0.2, "max_tokens": 50}')
    said = sampling()
    assert (said["temperature"], said["max_tokens"]) == (0.2, 50)


def test_a_reply_may_reason_before_what_the_grammar_holds_it_to(tmp_path):
    """The schema is for what follows the reasoning: held to it from the first token there would be none."""
    folder = tiny_folder(tmp_path / "mine")

    async def main():
        wishes = {"dialect": "compact", "thinking": True, "max_tokens": 400, "temperature": 1.0, "seed": 4}
        policy = await make_policy(PolicyRequest(str(folder), actions=("click",), **wishes))
        try:
            output = policy.dialect.output()
            return output.regex, await policy.sample([Message("user", ("go",))], output, n=4, temperature=1.0, seed=1)
        finally:
            await policy.close()

    rule, replies = asyncio.run(main())
    assert all(reply.reasoning for reply in replies)
    ended = [reply.text for reply in replies if reply.finish_reason == "stop"]
    assert ended
    assert all(re.fullmatch(rule, text) for text in ended)


def test_a_function_of_task_and_observation_is_a_policy_by_its_name_too(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("def act(task, observation):\n    return None\n\ndef factory(request):\n    return act\n")
    policy = asyncio.run(make_policy(PolicyRequest(f"{file}:act", actions=("click",))))
    assert policy.describe()["policy"] == "function"
    with pytest.raises(ConfigError, match="not a policy"):
        asyncio.run(make_policy(PolicyRequest(f"{file}:factory", actions=("click",))))
