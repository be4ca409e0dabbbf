"""Replicas that Ray places, with a real Ray: sessions stay, survive a kill of the replica and of its actor, and the
whole ends without leaving anything behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any

import httpx
import psutil
import pytest

from tests.fleet.playing import Serving, serving

pytest.importorskip("ray")
FLAGS = ("tiny", "--memory.sessions", "8", "--memory.context", "1024", "--ray", "local")


def say(server: Serving, text: str, **more: Any) -> Any:
    messages = [{"role": "user", "content": text}]
    body = {"messages": messages, "max_tokens": 4, "temperature": 0, "ignore_eos": True, "session_id": "s", **more}
    answer = httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()


def home(server: Serving) -> int:
    """The process of the replica that has the session."""
    listed = httpx.get(f"{server.url}/v1/sessions", timeout=60).json()["data"]
    rows = server.admin("GET", "/fleet/replicas")["replicas"]
    return next(row["pid"] for row in rows if row["name"] == listed[0]["replica"])


def test_ray_places_them_and_they_survive() -> None:
    with serving(*FLAGS, replicas=2) as server:
        assert say(server, "one", session_open=True)["session"]["turns"] == 1
        assert say(server, "two")["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
        replica = psutil.Process(home(server))
        actor = replica.parent()
        assert actor is not None and "ray::ReplicaActor" in " ".join(actor.cmdline())
        os.kill(replica.pid, signal.SIGKILL)
        assert say(server, "three")["session"]["turns"] == 3
        server.wait_until_whole()
        replica = psutil.Process(home(server))
        actor = replica.parent()
        assert actor is not None
        os.kill(actor.pid, signal.SIGKILL)  # as when its node is lost: the replica ends with it
        assert say(server, "four")["session"]["turns"] == 4
        replica.wait(10)
        children = psutil.Process(server.process.pid).children(recursive=True)
    until = time.monotonic() + 20
    while any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children):
        assert time.monotonic() < until, "something is left behind"
        time.sleep(0.1)


def test_a_token_does_not_part_us_from_a_cluster_that_we_start() -> None:
    """Ray reads once, when it is imported, whether tokens are asked for; `ray start` may leave one at any time."""
    script = """
import ray
from holotron.fleet.ray_place import connect
connect("local")
print(ray.cluster_resources().get("CPU", 0) > 0)
"""
    environment = {key: value for key, value in os.environ.items() if key != "RAY_AUTH_MODE"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**environment, "RAY_AUTH_TOKEN": "0" * 64},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.strip().endswith("True"), done.stderr
