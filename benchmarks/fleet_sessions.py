"""Sessions with pictures over several replicas, beside the same over one server: does each stay where it is, is
anything computed twice, are the replies the same?

    python benchmarks/fleet_sessions.py                                  # 4 replicas, 200 sessions of 6 steps
    python benchmarks/fleet_sessions.py --replicas 2 --sessions 20

Small random model, CPU processes, the official openai client. Printed as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.fleet.playing import commit, play, serving

FLAGS = ("tiny", "--memory.sessions", "32", "--memory.context", "4096")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicas", type=int, default=4)
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--at-once", type=int, default=24)
    args = parser.parse_args()
    told: dict[str, object] = {"commit": commit(), **vars(args)}
    said = {}
    for name, replicas in (("fleet", args.replicas), ("one", 0)):
        with serving(*FLAGS, replicas=replicas) as server:
            started = time.monotonic()
            said[name] = asyncio.run(play(server.url, range(args.sessions), args.steps, at_once=args.at_once))
            seconds = time.monotonic() - started
            metrics = server.metrics()
        prefix = "holotron_fleet" if replicas else "holotron"
        told[name] = {
            "seconds": round(seconds, 2),
            "computed_prompt_tokens": metrics[f'{prefix}_prompt_tokens_total{{source="computed"}}'],
            "recomputed_tokens": metrics[f"{prefix}_recomputed_tokens_total"],
        }
        if replicas:
            bound = {key: value for key, value in metrics.items() if key.startswith("holotron_router_bound")}
            later = args.sessions * args.steps  # every step but the first, and closing
            hits = bound.get('holotron_router_bound_total{how="session known"}', 0.0)
            apart = [value for key, value in metrics.items() if key.startswith("holotron_requests_total{")]
            told["affinity"] = {"hits": hits, "of": later, "share": hits / later, "by_replica": apart, **bound}
            told["repeats"] = metrics["holotron_router_repeats_total"]
    steps = [(session, n) for session in said["one"] for n in range(args.steps)]
    same = sum(said["one"][session][n] == said["fleet"][session][n] for session, n in steps)
    told["same_replies"] = {"same": same, "of": len(steps)}
    print(json.dumps(told, indent=2))


if __name__ == "__main__":
    main()
