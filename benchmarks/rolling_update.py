"""A rolling update as Kubernetes makes one, with the commands and settings of deploy/kubernetes and processes for pods.

    python benchmarks/rolling_update.py                       # 24 sessions of 8 steps, two replicas, one entrance

Replicas share no folder, as if each were on a machine of its own; a third address has nobody behind it. While clients
play through the official client, each replica gets SIGTERM, ends by itself and is started again, highest number first.
Then a second entrance takes over, as in a Deployment with a surge. Every reply must be the one that a single server
gives, and no request may fail. Prints JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.router import free_port
from tests.deploy.files import environment, pod, resource
from tests.fleet.playing import KEY, commit, play, serving, wait_until_answers

CLIENT = "alice"


class Pod:
    """A container of the manifests, as a process on loopback."""

    def __init__(self, kind: str, name: str, port: int, folder: Path, replicas: list[str]) -> None:
        (container,) = pod(kind, name)["containers"]
        words = [_here(word, port, replicas) for word in container["args"]]
        if kind == "StatefulSet":
            words[1] = "tiny"
            words += ["--memory.sessions", "64", "--memory.context", "8192", "--fleet.folder", str(folder / "moving")]
        (folder / "keys").write_text(f"{CLIENT}\n")
        said = environment(container, KEY)
        if "HOLOTRON_SERVER__API_KEY_FILE" in said:
            said["HOLOTRON_SERVER__API_KEY_FILE"] = str(folder / "keys")
        if said.get("HOLOTRON_FLEET__JOURNAL", "none") != "none":
            said["HOLOTRON_FLEET__JOURNAL"] = str(folder / "journal")
        self.url = f"http://127.0.0.1:{port}"
        self._command = [sys.executable, "-m", "holotron.cli.main", *words, "--server.log_level", "warning"]
        self._environment = {**os.environ, **said, "OMP_NUM_THREADS": "1", "XDG_STATE_HOME": str(folder)}
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self._command, env=self._environment)

    def end(self) -> float:
        """As the kubelet does: SIGTERM, and as long as it takes."""
        started = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(150) == 0
        return round(time.monotonic() - started, 2)

    def wait_until_ready(self) -> None:
        wait_until_answers(f"{self.url}/health/ready", 180, self.process)


def _here(word: str, port: int, replicas: list[str]) -> str:
    if word.startswith("--replicas="):
        return "--replicas=" + ",".join(replicas)
    return {"0.0.0.0": "127.0.0.1", "--host=0.0.0.0": "--host=127.0.0.1", "8000": str(port)}.get(
        word, word.replace("--port=8000", f"--port={port}")
    )


def stages(entrance: Pod) -> dict[str, str]:
    return dict(httpx.get(f"{entrance.url}/health", timeout=30).json()["replicas"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=24)
    parser.add_argument("--steps", type=int, default=8)
    args = parser.parse_args()
    sessions = range(args.sessions)
    with serving("tiny", "--memory.sessions", "64", "--memory.context", "8192") as alone:
        expected = asyncio.run(play(alone.url, sessions, args.steps, at_once=args.sessions))
    with tempfile.TemporaryDirectory() as place:
        folders = [Path(place) / str(n) for n in range(4)]
        for folder in folders:
            folder.mkdir(mode=0o700)
        ports = [free_port() for _ in range(5)]
        addresses = [f"http://127.0.0.1:{port}" for port in ports[:3]]
        pods = [Pod("StatefulSet", "holotron-replica", ports[n], folders[n], []) for n in range(2)]
        entrances = [Pod("Deployment", "holotron-entrance", ports[3], folders[2], addresses)]
        try:
            print(json.dumps(roll(args, pods, entrances, expected, ports[4], folders[3], addresses), indent=2))
        finally:
            for one in [*entrances, *pods]:
                one.process.kill()
                one.process.wait()


def roll(
    args: argparse.Namespace,
    pods: list[Pod],
    entrances: list[Pod],
    expected: dict[int, list[list[int]]],
    port: int,
    folder: Path,
    addresses: list[str],
) -> dict[str, Any]:
    first = entrances[0]
    for one in (*pods, first):
        one.wait_until_ready()
    said: dict[int, list[list[int]]] = {}
    failed: list[BaseException] = []
    rounds = 0
    over = threading.Event()

    def clients() -> None:
        nonlocal rounds
        try:
            while not over.is_set():
                said.update(
                    asyncio.run(play(first.url, range(args.sessions), args.steps, at_once=args.sessions, key=CLIENT))
                )
                assert said == expected, "a reply is another one than a single server's"
                rounds += 1
        except BaseException as error:
            failed.append(error)

    playing = threading.Thread(target=clients)
    playing.start()
    time.sleep(2)
    ends = {}
    pause = resource("StatefulSet", "holotron-replica")["spec"]["minReadySeconds"]
    for n in (1, 0):
        ends[n] = pods[n].end()
        pods[n].start()
        pods[n].wait_until_ready()
        time.sleep(pause)
        assert stages(first)[str(n)] == "ready", stages(first)
    over.set()
    playing.join()
    if failed:
        raise failed[0]
    text = httpx.get(f"{first.url}/metrics", timeout=60).text
    counted = [
        line for line in text.splitlines() if line.startswith(("holotron_router_moves", "holotron_router_repeats"))
    ]

    # The entrance: another one first, then the old one ends; sessions are found by asking.
    asyncio.run(play(first.url, range(4), 2, close=False, key=CLIENT))
    entrances.append(Pod("Deployment", "holotron-entrance", port, folder, addresses))
    entrances[1].wait_until_ready()
    ended = first.end()
    headers = {"authorization": f"Bearer {CLIENT}"}
    found = httpx.get(f"{entrances[1].url}/v1/sessions", headers=headers, timeout=60).json()["data"]
    body = {"messages": [{"role": "user", "content": "Go on."}], "max_tokens": 4, "session_id": "task-1"}
    answer = httpx.post(f"{entrances[1].url}/v1/chat/completions", json=body, headers=headers, timeout=60)
    assert answer.status_code == 200, answer.text
    return {
        "commit": commit(),
        "sessions": args.sessions,
        "steps": args.steps,
        "rounds_played": rounds,
        "failed_requests": 0,
        "replies_as_of_one_server": True,
        "seconds_to_end": ends,
        "counted": counted,
        "entrance_seconds_to_end": ended,
        "sessions_found_by_the_next_entrance": len(found),
        "cached_tokens_after_it": answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"],
    }


if __name__ == "__main__":
    main()
