"""The workloads of `holotron bench sessions` on vLLM, for a comparison on the same machine in the same hour.

    python benchmarks/vllm/agents.py SHAPE --history append --steps 6           # needs vllm, a GPU, and no weights
    python benchmarks/vllm/agents.py SHAPE --history window --steps 4 --steps 8 --quantization fp8
    python benchmarks/speed_rows.py --rows 1-bf16,1-bf16-vllm                   # beside ours, and the ratio

SHAPE is a folder with a `config.json` (a published model's own, or one written by hand); weights are random, as in our
own figures. Text tokens stand in for those of screenshots. Prompts, replies and their lengths are those of
`holotron.bench.workload`, so both engines read the same tokens; vLLM gets whole prompts and has its prefix cache on.

One line of JSON for each number of steps: agent-steps per second, computed prompt tokens per second, share of prompt
tokens found in the cache, computed tokens over what a perfect memory computes, and latencies. Steps that sessions have
`begun` with are computed before the clock starts, as one prompt each.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from typing import Any

from holotron.bench.report import percentile
from holotron.bench.workload import Agent, Workload, system_prompt

VOCABULARY = range(1000, 100_000)


def engine(
    shape: str,
    longest: int,
    sessions: int,
    *,
    token_budget: int = 8192,
    quantization: str | None = None,
    **options: Any,
) -> Any:
    """`longest`: tokens of a session; `options`: further arguments of vLLM's engine."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    settings: dict[str, Any] = {
        "model": shape,
        "skip_tokenizer_init": True,
        "load_format": "dummy",
        "dtype": "bfloat16",
        "max_model_len": max(longest + 64, 32_768),
        "max_num_seqs": sessions,
        "max_num_batched_tokens": token_budget,
        "gpu_memory_utilization": 0.92,
        "enable_prefix_caching": True,
        "disable_log_stats": True,
        **options,
    }
    return AsyncLLM.from_engine_args(AsyncEngineArgs(**settings))


class Driver:
    def __init__(self, running: Any, workload: Workload) -> None:
        self._engine = running
        self._work = workload
        self._system = system_prompt(workload, VOCABULARY)
        self._requests = 0
        self.seconds: list[float] = []
        self.prompt = self.cached = 0

    async def reply(self, tokens: list[int], count: int) -> tuple[list[int], int]:
        from vllm import SamplingParams
        from vllm.inputs import TokensPrompt

        self._requests += 1
        sampling = SamplingParams(
            max_tokens=count, min_tokens=count, ignore_eos=True, temperature=self._work.temperature, detokenize=False
        )
        name = f"{id(self)}-{self._requests}"
        prompt = TokensPrompt(prompt_token_ids=tokens)
        *_, last = [output async for output in self._engine.generate(prompt, sampling, request_id=name)]
        return list(last.outputs[0].token_ids), last.num_cached_tokens or 0

    async def warm(self) -> None:
        """A few short replies, so that nothing is compiled while the clock runs; the shared prompt is known, as in our
        own run."""
        await asyncio.gather(*(self.reply(self._system[n : n + 512], 8) for n in range(4)))
        await self.reply(self._system, 1)

    async def live(self, agent: Agent, log: list[int]) -> None:
        for _ in range(self._work.steps):
            sent = agent.next()
            log = [*(self._system if sent.anew else log), *sent.tokens]
            started = time.perf_counter()
            said, cached = await self.reply(log, self._work.generate_tokens)
            self.seconds.append(time.perf_counter() - started)
            self.prompt += len(log)
            self.cached += cached
            log = [*log, *said]
            agent.replied(said)

    async def run(self) -> dict[str, Any]:
        await self.warm()
        agents = [Agent(self._work, n, VOCABULARY) for n in range(self._work.sessions)]
        logs = [[*self._system, *(agent.said() if self._work.history == "append" else ())] for agent in agents]
        if self._work.begun:
            await asyncio.gather(*(self.reply(log, 1) for log in logs))
        started = time.perf_counter()
        await asyncio.gather(*(self.live(*both) for both in zip(agents, logs, strict=True)))
        seconds = time.perf_counter() - started
        ideal = self._work.sessions * self._work.ideal_computed()
        return {
            "history": self._work.history,
            "steps": self._work.steps,
            "agent_steps_per_second": round(len(self.seconds) / seconds, 3),
            "computed_tokens_per_second": round((self.prompt - self.cached) / seconds),
            "cached_share": round(self.cached / self.prompt, 4),
            "computed_over_ideal": round((self.prompt - self.cached) / ideal, 3),
            "p50": round(percentile(self.seconds, 0.5), 2),
            "p95": round(percentile(self.seconds, 0.95), 2),
        }


async def measure(args: argparse.Namespace) -> None:
    works = [
        Workload(args.sessions, steps, history=args.history, begun=args.begun, seed=n)
        for n, steps in enumerate(args.steps or [6])
    ]
    started = time.perf_counter()
    longest, options = max(work.longest_context for work in works), json.loads(args.options)
    if args.quantization:
        options["quantization"] = args.quantization
    running = engine(args.shape, longest, args.sessions, token_budget=args.token_budget, **options)
    print(json.dumps({"shape": args.shape, "seconds_to_start": round(time.perf_counter() - started, 1)}), flush=True)
    for work in works:
        print(json.dumps(await Driver(running, work).run()), flush=True)
    running.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", help="a folder with a config.json")
    parser.add_argument("--history", choices=["append", "window"], default="append")
    parser.add_argument("--steps", type=int, action="append", help="once for each run in one start (6)")
    parser.add_argument("--begun", type=int, default=0, help="steps before the clock starts")
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--token-budget", type=int, default=8192)
    parser.add_argument("--quantization", help="such as fp8")
    parser.add_argument("--options", default='{"mamba_cache_mode": "align"}', help="further engine arguments, as JSON")
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
