"""A server under attack: generated requests, twenty hostile clients, and what one key can learn of another.

    python benchmarks/hostile_server.py [--only requests,clients,latency,keys] [--count 20000] [--seconds 30]

Starts `holotron serve tiny` as a process of its own and talks to it over the loopback interface only. It measures

* `requests`: generated requests from four clients; any 5xx but 503, any error in another shape, any log line of level
  error is a failure.
* `clients`: /health/live, twenty times a second, while twenty clients do their worst (tests/server/attackers.py). They
  stand for other machines: they are a process of their own, which gets the processor when nobody else wants it.
* `latency`: GET on a connection that is kept, with nothing else going on; and the gaps between a stream's tokens.
* `keys`: the same prompts sent by two keys. How well can one tell from the time it waits whether the other sent a
  prompt before? 0.5 is guessing; within one key, which may know, it is near 1.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import os
import random
import statistics
import sys
import threading
import time
from collections import Counter
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from tests.server.attackers import attack, health_times  # noqa: E402
from tests.server.generated import problem_with, requests  # noqa: E402
from tests.server.process import ServerProcess  # noqa: E402
from tests.server.process import running as started  # noqa: E402

running = functools.partial(started, cold=True)
FLAGS = ("tiny", "--memory.sessions", "16", "--memory.context", "4096")


def generated(count: int, clients: int = 4) -> bool:
    problems: list[str] = []
    statuses: Counter[int] = Counter()
    with running(*FLAGS) as server:

        def client(seed: int) -> None:
            with httpx.Client(base_url=server.url, timeout=120) as http:
                for request in requests(seed, count // clients):
                    try:
                        answer = http.request(
                            request.method, request.path, content=request.body, headers=request.headers
                        )
                    except httpx.HTTPError as error:
                        problems.append(f"{request}: {error!r}")
                        continue
                    statuses[answer.status_code] += 1
                    if (problem := problem_with(request, answer)) is not None:
                        problems.append(problem)

        started = time.monotonic()
        threads = [threading.Thread(target=client, args=(1000 + seed,)) for seed in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.monotonic() - started
        metrics = server.settled(60)
        errors = [line for line in server.lines if line["level"] == "error"]
    print(f"{sum(statuses.values()):,} requests in {seconds:.0f} s: {dict(sorted(statuses.items()))}")
    print(f"problems {len(problems)}, error lines {len(errors)}, integrity failures", end=" ")
    print(f"{metrics['holotron_integrity_failures_total']:.0f}")
    for problem in [*problems, *map(str, errors)][:10]:
        print("  ", problem)
    return not problems and not errors and metrics["holotron_integrity_failures_total"] == 0


def hostile_clients(seconds: float) -> bool:
    with running(*FLAGS) as server:
        rest = sorted(health_times(server.port, 5))
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        attackers = context.Process(target=_attack, args=(server.port, there))
        attackers.start()
        here.recv()
        time.sleep(2)
        times = sorted(health_times(server.port, seconds))
        here.send("over")
        sent = here.recv()
        attackers.join()
        after = httpx.post(
            f"{server.url}/v1/chat/completions",
            json={"messages": [{"role": "user", "content": "still there?"}], "max_tokens": 2},
            timeout=120,
        )
    for what, values in (("at rest", rest), ("under attack", times)):
        print(f"/health/live {what}: {_spread(values)} over {len(values)} requests")
    print(f"sent: {sent}; a chat afterwards: {after.status_code}")
    return times[-1] < 0.25 and after.status_code == 200


def _attack(port: int, there: Connection) -> None:
    os.nice(10)
    with attack(port) as attackers:
        there.send("begun")
        there.recv()
    there.send(attackers.sent)


def _spread(ordered: list[float]) -> str:
    middle, late = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
    return f"median {middle * 1e3:.1f} ms, p99 {late * 1e3:.1f} ms, worst {ordered[-1] * 1e3:.1f} ms"


def latency() -> bool:
    with running(*FLAGS) as server:
        times = sorted(health_times(server.port, 5, every=0.0))
        body = {
            "messages": [{"role": "user", "content": "Hello"}],
            "max_tokens": 200,
            "ignore_eos": True,
            "stream": True,
        }
        arrivals = []
        with httpx.stream("POST", f"{server.url}/v1/chat/completions", json=body, timeout=60) as response:
            for line in response.iter_lines():
                if line.startswith("data: {"):
                    arrivals.append(time.perf_counter())
    gaps = sorted(after - before for before, after in pairwise(arrivals[1:]))
    together = sum(gap < 1e-4 for gap in gaps) / len(gaps)
    print(f"GET on a kept connection: {_spread(times)}")
    print(f"a stream of {len(arrivals)} events: gaps {_spread(gaps)}; {together:.0%} came together with the one before")
    return times[len(times) // 2] < 0.003


def keys_apart(rounds: int = 60) -> bool:
    """A guesser with one key sends prompts of which another key has sent half before, and orders them by time."""
    draw = random.Random(0)

    def prompt(n: int) -> str:
        return f"Prompt {n}: " + " ".join(draw.choice(["red", "green", "blue", "grey"]) for _ in range(120))

    def seconds(server: ServerProcess, http: httpx.Client, key: str, text: str) -> tuple[float, int]:
        started = time.perf_counter()
        answer = http.post(
            f"{server.url}/v1/chat/completions",
            json={"messages": [{"role": "user", "content": text}], "max_tokens": 1},
            headers={"authorization": f"Bearer {key}"},
        ).raise_for_status()
        return time.perf_counter() - started, answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]

    good = True
    with running(*FLAGS, "--server.api_keys", "victim,guesser") as server, httpx.Client(timeout=60) as http:
        for who, wanted in (("guesser", "another key"), ("victim", "the same key")):
            seen, unseen, told = [], [], 0
            for n in range(rounds):
                known, new = prompt(2 * n), prompt(2 * n + 1)
                seconds(server, http, "victim", known)
                for text, times in draw.sample([(known, seen), (new, unseen)], 2):
                    took, cached = seconds(server, http, who, text)
                    times.append(took)
                    told += cached if times is seen else 0
            right = statistics.mean((a < b) + 0.5 * (a == b) for a in seen for b in unseen)
            print(f"{wanted}: told apart by time {right:.2f} of 1 (0.5: guessing), cached tokens told {told}")
            good &= who == "victim" or (told == 0 and 0.35 < right < 0.65)
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="requests,clients,latency,keys")
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=30.0)
    args = parser.parse_args()
    todo = {
        "requests": lambda: generated(args.count),
        "clients": lambda: hostile_clients(args.seconds),
        "latency": latency,
        "keys": keys_apart,
    }
    failed = []
    for name in args.only.split(","):
        print(f"== {name}", flush=True)
        if not todo[name]():
            failed.append(name)
    print("all hold" if not failed else f"FAILED: {', '.join(failed)}")
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    main()
