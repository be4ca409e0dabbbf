"""kill -9 of browser workers and of the driver at random moments, again and again: nothing is lost, doubled or left.

    python benchmarks/rollout_chaos.py                          # 20 rollouts on a Ray cluster of this machine
    python benchmarks/rollout_chaos.py --place processes        # the same without Ray
    python benchmarks/rollout_chaos.py --place s3               # workers on Ray, the run in an object store
    python benchmarks/rollout_chaos.py --place head             # Ray's head is killed; then a new one, the same command

Each rollout plays 30 episodes of MiniWoB++ in real browsers with the scripted solver, is struck one to three times, and
is started again where its driver died. Then every episode must be on record once and with success, every picture there
and whole, and no process or folder left. One line of JSON for each; the last one says what happened in all.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.rollouts.chaos import Chaos
from tests.storage.object_store import RUNS, s3_server


@contextmanager
def ray_cluster(folder: Path) -> Iterator[str]:
    """In a process of its own, so that its processes can be told from others."""
    code = (
        "import ray, sys; ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, "
        "object_store_memory=200_000_000, _node_ip_address='127.0.0.1'); "
        "print(ray.get_runtime_context().gcs_address, flush=True); sys.stdin.read()"
    )
    environment = os.environ | {"TMPDIR": str(folder), "RAY_USAGE_STATS_ENABLED": "0"}
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert process.stdout is not None and process.stdin is not None
        yield process.stdout.readline().strip()
        process.stdin.close()
        process.wait(30)
    finally:
        process.kill()


def kill_head(folder: Path) -> None:
    """The one that writes its log here: others may have clusters on this machine."""
    heads = [one for one in psutil.process_iter(["name", "cmdline"]) if one.info["name"] == "gcs_server"]
    (head,) = [one for one in heads if any(str(folder) in word for word in one.info["cmdline"])]
    head.kill()


def one(number: int, place: str, chaos: Chaos, dice: random.Random) -> dict[str, object]:
    targets = [dice.choice(["worker", "driver"]) for _ in range(dice.randint(1, 3))]
    chaos.run(targets, moment=(0.0, 2.0))
    chaos.check()
    return {"repetition": number, "place": place, "kills": dict(chaos.kills), "seconds": round(chaos.seconds, 1)}


def lost_head(folder: Path, out: Path, dice: random.Random) -> dict[str, object]:
    """Ray's head dies and does not come back. What is not finished then, a new cluster finishes by the same command."""
    began = time.monotonic()
    chaos = Chaos(out, folder, [], {}, seeds=300, tasks="click-button,enter-text,click-link", dice=dice)
    with ray_cluster(folder) as address:
        chaos.machines = ["--ray", address, "--workers", "2"]
        driver = chaos._start()
        try:
            chaos._progress(driver)
            time.sleep(dice.uniform(1, 4))
            kill_head(folder)
            driver.wait(timeout=150)
        finally:
            driver.kill()
    before = chaos._recorded()
    assert driver.returncode and before < len(chaos.episodes), "it was over before the head was gone"
    with ray_cluster(folder) as address:
        chaos.machines = ["--ray", address, "--workers", "2"]
        chaos.run([])
        chaos.check()
    return {"place": "head", "status": driver.returncode, "recorded before": before,
            "seconds": round(time.monotonic() - began, 1)}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--place", choices=["ray", "processes", "s3", "head"], default="ray")
    parser.add_argument("--seed", type=int, default=0)
    wanted = parser.parse_args()
    dice = random.Random(wanted.seed)
    kills: Counter[str] = Counter()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hc-", dir="/tmp")))
        runs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holotron-chaos-")))
        if wanted.place == "head":
            for number in range(wanted.repetitions):
                print(json.dumps(lost_head(folder, runs / str(number), dice)), flush=True)
            return
        environment: dict[str, str] = {}
        if wanted.place == "s3":
            environment, runs = stack.enter_context(s3_server()), RUNS
        machines = ["--workers", "2"]
        if wanted.place != "processes":
            machines += ["--ray", stack.enter_context(ray_cluster(folder))]
        for number in range(wanted.repetitions):
            chaos = Chaos(runs / f"run-{number}", folder, machines, environment, seeds=15, dice=dice)
            print(json.dumps(one(number, wanted.place, chaos, dice)), flush=True)
            kills += chaos.kills
    print(json.dumps({"repetitions": wanted.repetitions, "kills": kills, "lost": 0, "doubled": 0, "left behind": 0}))


if __name__ == "__main__":
    main()
