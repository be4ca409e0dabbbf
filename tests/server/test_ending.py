"""Under attack it stays reachable; told to end, it says so to whom it cuts off; told twice, it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import httpx

from tests.server.attackers import attack, health_times
from tests.server.process import SOURCE, ServerProcess, running

LONG = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 30_000, "ignore_eos": True}


def test_twenty_hostile_clients(server: ServerProcess) -> None:
    """`benchmarks/hostile_server.py` measures it. Where other processes want the cores too, a busy server gets its
    share of them, and is that much slower."""
    slower = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    with attack(server.port) as attackers:
        times = sorted(health_times(server.port, 8))
    assert len(attackers.sent) == 8, attackers.sent  # all of them got to do something
    assert times[len(times) // 2] < 0.25 * slower, (slower, times[-5:])
    assert times[-1] < 2.5 * slower, (slower, times[-5:])
    assert server.settled(120)["holotron_integrity_failures_total"] == 0
    answer = httpx.post(f"{server.url}/v1/chat/completions", json=LONG | {"max_tokens": 2}, timeout=120)
    assert answer.status_code == 200


def test_what_the_end_cuts_off_is_told() -> None:
    with running("tiny", "--server.drain_seconds", "0.3") as server:
        with httpx.stream(
            "POST", f"{server.url}/v1/chat/completions", json=LONG | {"stream": True}, timeout=60
        ) as reply:
            lines = reply.iter_lines()
            next(lines)
            server.signal(signal.SIGTERM)
            events = [line for line in lines if line]
        assert json.loads(events[-1].removeprefix("data: "))["error"]["code"] == "shutting_down"
        assert server.wait(60) == 0


def test_a_second_signal_ends_it_at_once() -> None:
    with running("tiny", "--server.drain_seconds", "300") as server:
        body = LONG | {"stream": True}
        with httpx.stream("POST", f"{server.url}/v1/chat/completions", json=body, timeout=60) as reply:
            lines = reply.iter_lines()  # held: without it the reply would be closed
            next(lines)
            server.signal(signal.SIGTERM)
            until = time.monotonic() + 30
            while httpx.get(f"{server.url}/health/ready", timeout=30).status_code != 503:
                assert time.monotonic() < until
            started = time.monotonic()
            server.signal(signal.SIGTERM)
            assert server.wait(30) == 128 + signal.SIGTERM
            assert time.monotonic() - started < 2


LOADING = """
import torch
from holotron.server import run
from holotron.server.settings import Settings


def load(settings, service):
    while True:
        torch.ones(300, 300) @ torch.ones(300, 300)


run.load = load
run.serve(Settings.model_validate({"server": {"port": 0}}))
"""


def test_one_that_is_told_to_end_while_it_loads_ends_well() -> None:
    """With status 0, as always: supervisors would call an abort a crash."""
    command = [sys.executable, "-c", LOADING]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": str(SOURCE)}
    ) as server:
        assert server.stderr is not None
        for line in server.stderr:
            if "Application startup complete" in line:
                break
        server.send_signal(signal.SIGTERM)
        said = server.stderr.read()
        assert (server.wait(60), "terminate called" in said) == (0, False), said
