"""What guessing tokens gains on the replies of a trained policy: tokens per pass of the network, and time.

    python benchmarks/drafts_cpu.py --policy holotron-mini               # first screens of all MiniWoB++ tasks
    python benchmarks/drafts_cpu.py --tasks 20 --drafts 0,4,8 --free     # without the dialect's grammar

Screens are taken from real Chromium, which is then closed. For each number of drafts a fresh engine answers the same
screens, three per session, one session at a time; replies must be the same, token for token. Milliseconds are CPU time
of the process per reply (other jobs on the machine do not count), picture and prompt included.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from typing import Any

from policy_cpu import TURNS, screens

from holotron.agent.policies.engine import EnginePolicy
from holotron.agent.policies.registry import PolicyRequest, make_policy
from holotron.engine import Engine, EngineConfig
from holotron.types import Observation, Task


async def answer(
    policy: EnginePolicy, episodes: list[tuple[Task, list[Observation]]]
) -> tuple[list[tuple[int, ...]], dict[str, Any]]:
    """Token by token what was said, and what it took."""
    replies: list[tuple[int, ...]] = []
    engine = policy.engine
    before, began, used = engine.stats(), time.perf_counter(), time.process_time()
    for task, shots in episodes:
        session = await policy.start(task)
        for shot in shots:
            replies.append((await session.act(shot)).completion.tokens)
        await session.close()
    seconds, used, after = time.perf_counter() - began, time.process_time() - used, engine.stats()
    generated = after.generated_tokens - before.generated_tokens
    iterations = after.iterations - before.iterations
    prompts = len(replies)  # each is read in one pass, as a rule, whose vector gives the first token
    return replies, {
        "replies": len(replies),
        "generated": generated,
        "forced": after.forced_tokens - before.forced_tokens,
        "iterations": iterations,
        "tokens_per_pass": round(generated / max(1, iterations - prompts), 3),
        "drafted": after.drafted_tokens - before.drafted_tokens,
        "kept": after.drafts_kept - before.drafts_kept,
        "cpu_ms_per_reply": round(1e3 * used / len(replies), 1),
        "wall_ms_per_reply": round(1e3 * seconds / len(replies), 1),
    }


async def measure(args: argparse.Namespace) -> None:
    episodes = (await screens(args.policy, range(200_000, 200_000 + TURNS)))[: args.tasks]
    made = await make_policy(PolicyRequest(args.policy))
    assert isinstance(made, EnginePolicy)
    model, processor = made.engine.model, made.engine.processor
    plain: list[tuple[int, ...]] | None = None
    for drafts in [int(number) for number in args.drafts.split(",")]:
        with Engine(model, processor, EngineConfig(drafts=drafts)) as engine:
            made.engine = engine
            made.constrained = not args.free
            await answer(made, episodes[:2])  # compile and warm up
            replies, found = await answer(made, episodes)
        plain = plain if plain is not None else replies
        print(json.dumps({"drafts": drafts, "same": replies == plain, **found}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default="holotron-mini")
    parser.add_argument("--tasks", type=int, default=1000, help="at most so many")
    parser.add_argument("--drafts", default="0,4,8")
    parser.add_argument("--free", action="store_true", help="without the dialect's grammar")
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
