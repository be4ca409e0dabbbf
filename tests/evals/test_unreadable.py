"""Replies that held no action are told with an example: a model may speak another language than it is read in."""

from __future__ import annotations

import asyncio

from holotron.agent.dialects import make_dialect
from holotron.agent.history import Append
from holotron.agent.loop import Limits
from holotron.agent.policies.conversation import Conversation
from holotron.evals.unreadable import unreadable
from holotron.rollouts.runner import rollout
from holotron.rollouts.store import RunReader
from holotron.suites.base import environments_of
from holotron.types import Completion, Task
from tests.agent.toy import ButtonEnvironment


class Speaks:
    """A model that always says the same."""

    name = "speaks"

    def __init__(self, text: str) -> None:
        self.text = text

    def describe(self):
        return {"policy": self.name}

    async def start(self, task, environment=None):
        return Conversation(task, make_dialect("holotron"), Append(), self)

    async def complete(self, messages, output):
        return Completion(self.text)

    async def close(self):
        pass


def played(folder, text):
    pool = environments_of(ButtonEnvironment)(1)
    asyncio.run(rollout([Task("buttons", "press")], Speaks(text), pool, folder, limits=Limits(steps=5)))
    return unreadable(RunReader(folder))


def test_the_first_of_them_is_shown_with_what_was_wrong(tmp_path):
    found = played(tmp_path / "a", "<point>412\n733</point>")
    assert found is not None and found.replies == found.of == 4
    assert "such as '<point>412 733</point>' (the reply holds no JSON object" in str(found)
    assert "is another --dialect or --frame the model's own?" in str(found)
    assert "such as an empty one" in str(played(tmp_path / "b", ""))


def test_nothing_is_said_where_all_were_read(tmp_path):
    reply = '{"note": null, "thought": "t", "tool_call": {"tool_name": "answer", "content": "no"}}'
    assert played(tmp_path / "a", reply) is None
