"""Rollouts over HTTP: through `holotron serve` with its sessions, and against a server that knows only the standard."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest

from holotron.agent.dialects import make_dialect
from holotron.agent.history import parse_history
from holotron.agent.loop import Episode, Limits
from holotron.agent.policies.openai_api import Abilities, OpenAIPolicy, Sampling
from holotron.agent.policies.random import RandomPolicy
from holotron.agent.policies.registry import PolicyRequest, policies
from holotron.rollouts.runner import RolloutSettings, rollout
from holotron.rollouts.spread import Playing, ProcessCrew
from holotron.rollouts.store import RunReader
from holotron.rollouts.suite import opened
from holotron.suites.base import find_suite
from holotron.types import Task
from holotron.view import View
from tests.agent.strict_server import strict_server
from tests.agent.toy import ButtonEnvironment, ButtonPool
from tests.server.process import ServerProcess, running

FEW = ["click", "hover", "answer"]


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with running("tiny", "--memory.sessions", "8", "--memory.context", "8192") as process:
        yield process


def served(server: ServerProcess, history: str = "append", dialect: str = "compact", **options) -> OpenAIPolicy:
    return OpenAIPolicy(
        f"{server.url}/v1",
        "tiny",
        make_dialect(dialect, actions=FEW),
        parse_history(history),
        sampling=Sampling(temperature=1.0, max_tokens=120, seed=3),
        **options,
    )


def open_sessions(server: ServerProcess) -> list[dict]:
    return httpx.get(f"{server.url}/v1/sessions").json()["data"]


def one_episode(policy: OpenAIPolicy, steps: int = 4, **limits):
    async def main():
        task = Task("buttons", "press", seed=5, options={"presses": 50})
        bounds = Limits(steps=steps, repeats=99, invalid_replies=99, **limits)
        try:
            return await Episode(ButtonEnvironment(), policy, task, limits=bounds).run()
        finally:
            await policy.close()

    return asyncio.run(main())


def test_processes_that_cannot_be_started_end_the_run_and_do_not_hang_it(tmp_path):
    class Full:
        async def start(self, *given):
            raise OSError("no more processes")

        async def close(self):
            pass

    playing = Playing(PolicyRequest("random"), "miniwob")
    crew = ProcessCrew(Full(), playing, processes=2)
    todo = [Task("buttons", "press", seed=seed) for seed in range(4)]
    with pytest.raises(OSError, match="no more processes"):
        asyncio.run(rollout(todo, RandomPolicy(), None, tmp_path / "run", crew=crew))


def test_the_policies_that_were_made_are_closed_once_and_no_others():
    class Kept(RandomPolicy):
        async def close(self):
            closed.append(self)

    closed: list[RandomPolicy] = []
    theirs, teachers = Kept(), []

    def teacher(request):
        teachers.append(Kept())
        return teachers[-1]

    policies.register("kept-by-test")(teacher)

    async def main(policy):
        async with opened(policy, "painted", tasks="boxes-1", label=PolicyRequest("kept-by-test")):
            assert teachers[-1] not in closed

    asyncio.run(main(theirs))
    assert closed == teachers
    asyncio.run(main(PolicyRequest("kept-by-test")))
    assert len(teachers) == 3
    assert sorted(map(id, closed)) == sorted(map(id, teachers))


def test_players_need_no_server_to_begin(server):
    """One that replaces another may begin while the server is away."""
    told = []

    class Nowhere:
        async def start(self, name, main, playing, *rest):
            told.append(playing)
            await asyncio.Event().wait()

        async def close(self):
            pass

    async def main():
        crew = ProcessCrew(Nowhere(), Playing(PolicyRequest(f"{server.url}/v1"), "miniwob"), processes=1)
        await crew.open(asyncio.Queue(), sessions=1)
        await asyncio.sleep(0)
        await crew.close()

    asyncio.run(main())
    assert told[0].policy.model == "tiny" and told[0].policy.declared is not None


@pytest.mark.browser
def test_miniwob_through_holotron_serve(server, tmp_path):
    found = find_suite("miniwob", tasks="click-test-2,enter-text", seeds=range(2), view=View(scale=1))
    suite = replace(found, limits=Limits(steps=3, repeats=99))

    async def main():
        policy = OpenAIPolicy(
            f"{server.url}/v1",
            "tiny",
            make_dialect("compact", actions=suite.actions),
            parse_history("append"),
            sampling=Sampling(temperature=1.0, max_tokens=40),
        )
        pool = suite.open(2)
        try:
            settings = RolloutSettings(sessions=2)
            return await rollout(suite.tasks, policy, pool, tmp_path / "run", settings=settings, limits=suite.limits)
        finally:
            await pool.close()
            await policy.close()

    progress = asyncio.run(main())
    assert progress.done == 4
    assert progress.environment_errors == 0
    for trajectory in RunReader(tmp_path / "run").trajectories():
        for step in trajectory.steps:
            completion = step.reply.completion
            assert len(completion.tokens) == len(completion.logprobs) == completion.generated_tokens > 0
            again = step.index > 0 and trajectory.steps[step.index - 1].reply.error  # the screen is the same
            assert completion.images_sent == (0 if again else 1)  # each screenshot travels once
        for earlier, later in itertools.pairwise(trajectory.steps):
            first, second = earlier.reply.completion, later.reply.completion
            assert second.cached_tokens >= first.prompt_tokens + first.generated_tokens - 2
    assert open_sessions(server) == []


def test_sessions_are_used_only_when_offered_and_wanted(server):
    assert asyncio.run(served(server).abilities()) == Abilities(sessions=True, regex=True, token_ids=True)
    images = [step.reply.completion.images_sent for step in one_episode(served(server), 3).steps]
    assert images == [1] * len(images)
    images = [step.reply.completion.images_sent for step in one_episode(served(server, sessions=False), 3).steps]
    assert images == list(range(1, len(images) + 1))
    assert open_sessions(server) == []
    with strict_server() as double:
        plain = OpenAIPolicy(double.url, "seer", make_dialect("holotron"), parse_history("append"))
        assert asyncio.run(plain.abilities()) == Abilities()


def test_the_same_words_with_and_without_sessions(server):
    """Greedy decoding under one constraint: sending only what is new changes the cost, not the reply."""

    def replies(**options):
        policy = OpenAIPolicy(
            f"{server.url}/v1",
            "tiny",
            make_dialect("compact", actions=FEW[:2]),
            parse_history("append"),
            sampling=Sampling(temperature=0.0, max_tokens=40),
            **options,
        )
        return [step.reply.completion.text for step in one_episode(policy, 3).steps]

    assert replies() == replies(sessions=False)


def test_rewritten_history_opens_a_new_session(server):
    for history in ("window:1", "epoch:2,1"):
        trajectory = one_episode(served(server, history), 4)
        assert trajectory.error == "" or "steps are used up" in trajectory.error
    assert open_sessions(server) == []


def test_tools_and_a_forced_answer_in_a_session(server):
    trajectory = one_episode(served(server, dialect="tools"), 2, answer_when_over=True)
    names = [step.reply.action.tool_name for step in trajectory.steps if step.reply.action]
    errors = [step.reply.error for step in trajectory.steps if step.reply.error]
    assert len(names) + len(errors) == len(trajectory.steps)
    assert all(step.reply.completion.finish_reason == "length" for step in trajectory.steps if step.reply.error)
    if names and trajectory.answer:
        assert names[-1] == "answer"


def test_a_lost_session_is_opened_again(server):
    """The server may forget a session (it expires, it restarts); the conversation goes on with all it has."""
    policy = served(server)

    class Forgetful(ButtonEnvironment):
        async def step(self, action):
            for session in open_sessions(server):
                httpx.delete(f"{server.url}/v1/sessions/{session['id']}")
            return await super().step(action)

    async def main():
        task = Task("buttons", "press", seed=5, options={"presses": 50})
        try:
            return await Episode(Forgetful(), policy, task, limits=Limits(steps=3, repeats=99)).run()
        finally:
            await policy.close()

    trajectory = asyncio.run(main())
    assert [step.reply.completion.images_sent for step in trajectory.steps] == list(range(1, len(trajectory.steps) + 1))


def test_a_rollout_against_a_strict_server(tmp_path):
    tasks = [Task("buttons", "press", seed=seed, options={"presses": 2}) for seed in range(12)]
    with strict_server() as double:
        double.troubles = [(503, {"message": "warming up"}), (429, {"message": "slow down"})]

        async def main():
            policy = OpenAIPolicy(double.url, "seer", make_dialect("holotron", actions=FEW), parse_history("window:3"))
            try:
                return await rollout(
                    tasks, policy, ButtonPool(), tmp_path / "run", settings=RolloutSettings(sessions=4)
                )
            finally:
                await policy.close()

        progress = asyncio.run(main())
        assert progress.successes == 12
        assert len(double.requests) == 24
