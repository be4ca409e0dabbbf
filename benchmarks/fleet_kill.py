"""kill -9 of a replica at a random moment while sessions are played, again and again: is anything lost?

    python benchmarks/fleet_kill.py                        # 20 kills, 3 replicas, 12 sessions of 6 steps each time
    python benchmarks/fleet_kill.py --repeat 3

Every session must be finished, without an error that a client sees, and say what it says when nobody is killed. Half of
the replies are streams; a stream that was cut off must go on after the token its client has. Replies may differ after a
near tie: a session that is computed again is not computed in the same pieces. How many do is printed. As JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.fleet.playing import Serving, commit, play, serving

FLAGS = ("tiny", "--memory.sessions", "32", "--memory.context", "4096")
TOKENS = 96


async def killed(server: Serving, sessions: range, steps: int, after: float, draw: random.Random) -> dict[str, Any]:
    playing = asyncio.ensure_future(
        play(server.url, sessions, steps, at_once=len(sessions), tokens=TOKENS, close=False)
    )
    await asyncio.sleep(after)
    under_way = not playing.done()
    rows = await asyncio.to_thread(server.admin, "GET", "/fleet/replicas")
    victim = draw.choice([row for row in rows["replicas"] if row["stage"] == "ready"])
    os.kill(victim["pid"], signal.SIGKILL)
    started = time.monotonic()
    said = await playing  # raises what a client would see
    return {"said": said, "victim": victim["name"], "under_way": under_way, "rest": time.monotonic() - started}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--sessions", type=int, default=12)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    draw = random.Random(args.seed)
    rows: list[dict[str, Any]] = []
    with serving(*FLAGS, replicas=args.replicas) as server:
        sessions = range(args.sessions)
        started = time.monotonic()
        undisturbed = asyncio.run(play(server.url, sessions, args.steps, at_once=args.sessions, tokens=TOKENS))
        whole = time.monotonic() - started
        lost = 0
        for n in range(args.repeat):
            before = server.metrics()
            after = draw.random() * whole * 0.6
            row: dict[str, Any] = {"kill": n, "after": round(after, 3)}
            try:
                told = asyncio.run(killed(server, sessions, args.steps, after, draw))
            except Exception as error:
                lost += 1
                row["error"] = repr(error)[:300]
                row["log"] = [line[-1500:] for line in server.lines if "exception" in line][-2:]
            else:
                said = told.pop("said")
                steps = [(session, step) for session in sessions for step in range(args.steps)]
                lengths = {len(said[session][step]) for session, step in steps}
                same = sum(said[session][step] == undisturbed[session][step] for session, step in steps)
                row |= {**told, "same": same, "of": len(steps), "tokens_of_a_reply": sorted(lengths)}
                lost += lengths != {TOKENS}
            metrics = server.metrics()
            for name in ("repeats_total", 'moves_total{why="revived"}'):
                key = f"holotron_router_{name}"
                row[name] = metrics.get(key, 0.0) - before.get(key, 0.0)
            rows.append(row)
            print(json.dumps(row), flush=True)
            asyncio.run(_close(server.url, sessions))
            server.wait_until_whole()
    told = {"commit": commit(), **vars(args), "undisturbed_seconds": round(whole, 2), "lost": lost}
    same_of = [(row["same"], row["of"]) for row in rows if "same" in row]
    told["same_replies"] = [sum(same for same, _ in same_of), sum(of for _, of in same_of)]
    print(json.dumps(told))


async def _close(url: str, sessions: range) -> None:
    import httpx

    async with httpx.AsyncClient(timeout=60) as http:
        for session in sessions:
            await http.delete(f"{url}/v1/sessions/task-{session}")


if __name__ == "__main__":
    main()
