"""Plays verifiers environments, and asks its parent whenever the model is asked. Imports nothing of holotron.

    python host.py NAME '{"num_tasks": 20}'           a taskset (or package of one), and settings of it

Lines of JSON. In: {"id": 1, "play": INDEX}, {"id": 1, "reply": MESSAGE}, {"id": 1, "cancel": true}. Out, first:
{"ready": VERSION}; then {"id": 1, "ask": REQUEST} (the body of a chat completion: messages, tools) and
{"id": 1, "end": {"reward", "metrics", "error"}}, with "missing" where there is no such task. The model is an
OpenAI-compatible address of this process, one for each episode, so any environment and any harness can be played. Ends
when its input ends.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
from typing import Any

sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # for the harness

import verifiers
from aiohttp import web
from verifiers.v1.clients import EvalClientConfig, ModelContext
from verifiers.v1.configs.agent import agent_config_fields
from verifiers.v1.types import SamplingConfig
from verifiers.v1.utils.generic import concrete_type
from verifiers.v1.utils.loaders import default_harness_id, environment_class

HARNESS = {"id": "direct-harness"}
_out = os.fdopen(os.dup(1), "w")  # theirs may print; only we speak to the parent
os.dup2(2, 1)


def say(line: dict[str, Any]) -> None:
    _out.write(json.dumps(line) + "\n")
    _out.flush()


class Host:
    def __init__(self, name: str, settings: dict[str, Any]) -> None:
        kind = environment_class(name)
        config = concrete_type(kind, verifiers.v1.EnvConfig, origin=verifiers.v1.Env) or verifiers.v1.EnvConfig
        bundled = default_harness_id(name) != "bash"
        roles: dict[str, Any] = {}
        for role, default in agent_config_fields(config()).items():
            roles[role] = {"runtime": {"type": "subprocess"}}
            if default.harness is None and not bundled:
                roles[role]["harness"] = HARNESS
        self.env = kind(config(taskset={"id": name, **settings}, **roles))
        self._port = 0
        self._replies: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._turns: dict[int, asyncio.Lock] = {}
        self._playing: dict[int, asyncio.Task[None]] = {}

    async def run(self) -> None:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_post("/{id}/v1/chat/completions", self._complete)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self._port = int(runner.addresses[0][1])
        async with self.env.serving():
            say({"ready": verifiers.__version__})
            while line := await asyncio.to_thread(sys.stdin.readline):
                self._hear(json.loads(line))

    def _hear(self, order: dict[str, Any]) -> None:
        id = order["id"]
        if "play" in order:
            self._playing[id] = asyncio.create_task(self._play(id, order["play"]))
        elif "reply" in order and id in self._replies:
            self._replies.pop(id).set_result(order["reply"])
        elif "cancel" in order and id in self._playing:
            self._playing[id].cancel()

    async def _play(self, id: int, index: int) -> None:
        end: dict[str, Any] = {"reward": None, "metrics": {}, "error": ""}
        try:
            task = next(itertools.islice(self.env.taskset, index, None), None)
            if task is None:
                end["missing"] = True  # the taskset is shorter
                return
            client = EvalClientConfig(base_url=f"http://127.0.0.1:{self._port}/{id}/v1", api_key_var="HOLOTRON_NO_KEY")
            context = ModelContext(model="holotron", client=client, sampling=SamplingConfig())
            episode = await self.env.run_slot(self.env.slots(task)[0], context)
            errors = [*episode.errors, *(error for trace in episode.traces for error in trace.errors)]
            if not episode.ok:
                last = errors[-1] if errors else None
                end["error"] = f"{last.type}: {last.message}" if last is not None else "the episode was not completed"
            else:
                traces = [trace for trace in episode.traces if trace.agent.trainable] or episode.traces
                end["reward"] = sum(trace.reward for trace in traces) / len(traces)
                end["metrics"] = {name: value for trace in traces for name, value in trace.metrics.items()}
        except asyncio.CancelledError:
            end["error"] = "cancelled"
        except Exception as error:
            end["error"] = f"{type(error).__name__}: {error}"
        finally:
            self._playing.pop(id, None)
            self._replies.pop(id, None)
            say({"id": id, "end": end})

    async def _complete(self, request: web.Request) -> web.Response:
        id, body = int(request.match_info["id"]), await request.json()
        if id not in self._playing:
            return web.json_response({"error": {"message": "this episode is over"}}, status=400)
        async with self._turns.setdefault(id, asyncio.Lock()):  # one question at a time, whoever asks
            reply = self._replies[id] = asyncio.get_running_loop().create_future()
            say({"id": id, "ask": {"messages": body["messages"], "tools": body.get("tools") or []}})
            message = await reply
        reason = "tool_calls" if message.get("tool_calls") else "stop"
        usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}
        answer = {
            "id": f"holotron-{id}", "object": "chat.completion", "created": 0, "model": body["model"],
            "choices": [choice], "usage": usage,
        }  # fmt: skip
        return web.json_response(answer)


if __name__ == "__main__":
    asyncio.run(Host(sys.argv[1], json.loads(sys.argv[2]) if len(sys.argv) > 2 else {}).run())
    os._exit(0)  # whatever thread of theirs is left
