"""The workload against an engine in this process."""

from __future__ import annotations

import asyncio
import gc
import random
import time
from dataclasses import replace
from pathlib import Path

import torch

from holotron.bench import made_up
from holotron.bench.process import DevicePeak, peak_host_bytes, seconds_alive
from holotron.bench.report import BenchReport, Step
from holotron.bench.screens import Look, Screens
from holotron.bench.workload import Agent, Sent, Workload, system_prompt
from holotron.engine import AsyncSession, Engine, EngineConfig, Part, Result, SamplingParams
from holotron.engine.core import Core
from holotron.engine.log import Log, Picture
from holotron.engine.plan import MAX_RUNNING, Planner
from holotron.engine.sizes import dtype_of
from holotron.model.loading import Loaded, load_model
from holotron.model.model import Holotron
from holotron.model.processor import Deltas

_ran_before = False
# Tokens per iteration on a GPU, unless the engine's settings say otherwise. Experts are read anew in every iteration,
# each for a part of the tokens: with more of them at once, less often.
GPU_TOKENS, GPU_TOKENS_OF_EXPERTS = 2048, 4096
MARGIN = 64  # tokens beyond the longest context, so that the last reply ends by its length


def engine_config(
    model: Holotron, workload: Workload, given: dict[str, object], fraction: float = 0.92
) -> EngineConfig:
    """Pools for this workload: all sessions at once if they fit, else as many as do (the others wait on the host)."""
    if model.device.type == "cuda":
        experts = model.config.decoder.moe is not None
        given = {"token_budget": GPU_TOKENS_OF_EXPERTS if experts else GPU_TOKENS, **given}
    base = EngineConfig(**given)  # type: ignore[arg-type]
    planner = Planner(model.config, model.dtype, base)
    context = workload.longest_context + MARGIN
    sessions = workload.sessions + 1  # and the one that holds the shared prompt
    memory = None
    if model.device.type == "cuda":
        memory = int(torch.cuda.get_device_properties(model.device).total_memory * fraction)
        sessions = min(sessions, max(1, planner.sessions(memory, context)))
    sized = planner.sized(sessions, context)
    if workload.history == "window":
        sized = _room_for_windows(planner, sized, context, memory)
    running = min(
        MAX_RUNNING, sized.token_budget, workload.sessions + 1
    )  # while contexts are short, more fit than that
    return replace(
        sized, max_running=running, max_sessions=max(base.max_sessions, workload.sessions + 8), **given  # type: ignore[arg-type]
    )  # fmt: skip


def _room_for_windows(planner: Planner, sized: EngineConfig, context: int, memory: int | None) -> EngineConfig:
    """A client that sends anew leaves three states behind (at the end, at the end of its prompt, before its first
    picture; see `engine.window`) and works on a fourth; keys and values of the last two requests share little."""
    sessions = sized.state_rows - 1
    roomy = replace(planner.sized(sessions + sessions // 4, context), state_rows=4 * sessions + 4)
    if memory is None or not planner.row_bytes:
        return roomy if memory is None else sized
    spare = memory - planner.plan_for(roomy).total
    rows = roomy.state_rows + min(0, spare // planner.row_bytes)
    return replace(roomy, state_rows=rows) if rows > 2 * sessions else sized


class Driver:
    def __init__(self, engine: Engine, workload: Workload, screens: Screens | None = None) -> None:
        self._engine = engine
        self._workload = workload
        self._screens = screens
        self._words = engine.model.config.text_tokens
        self._system = system_prompt(workload, self._words)
        self._sampling = SamplingParams(
            max_tokens=workload.generate_tokens, temperature=workload.temperature, ignore_eos=True, seed=workload.seed
        )
        self.steps: list[Step] = []
        self.session_bytes = 0

    async def first_token(self) -> float:
        """One token: everything is loaded and compiled after it. Seconds since the process started."""
        (generation,) = await self._engine.aio.complete(self._system[:64], replace(self._sampling, max_tokens=1))
        await generation
        return seconds_alive()

    async def warm_up(self) -> None:
        """A few short replies beside each other, so that no kernel is compiled while the clock runs."""

        async def reply(n: int) -> None:
            prompt, sampling = self._system[n : n + 48 + 16 * n], replace(self._sampling, max_tokens=4 + 2 * n)
            (generation,) = await self._engine.aio.complete(prompt, sampling)
            await generation

        await asyncio.gather(*(reply(n) for n in range(3)))
        if self._engine.model.device.type == "cuda":
            await self._rehearse()
        if self._screens is not None:
            await self._show_some(self._screens)
        # Nothing of it stays in the sessions' way.
        await asyncio.to_thread(self._engine.clear_prefix_cache)

    async def _show_some(self, screens: Screens) -> None:
        """Steps one after the other with pictures that nobody shows again: the third time, prompts are captured."""
        root = await self._engine.aio.open()
        await root.append(self._system)
        await root.prefill()
        for n in range(3):
            (session,) = await root.fork()
            text = self._words[: self._workload.text_tokens]
            await session.append(screens.of(self._workload.sessions + n, 0), list(text))
            await (await session.generate(replace(self._sampling, max_tokens=2)))
            await session.close()
        await root.close()

    async def _rehearse(self) -> None:
        """Prompts beside every number of decodes, so that what is captured as a graph has been captured. Replies end in
        groups of eight, three iterations apart, while there are prompts to read."""
        draw, budget = random.Random("rehearsal"), self._engine.config.token_budget
        groups = -(-min(self._workload.sessions, 128) // 8)

        async def reply(prompt: int, tokens: int) -> None:
            words = draw.choices(self._words, k=prompt)
            (generation,) = await self._engine.aio.complete(words, replace(self._sampling, max_tokens=tokens))
            await generation

        decodes = [reply(8, 6 + 3 * (n // 8)) for n in range(8 * groups)]
        length = min(budget, self._engine.context_limit // 2)
        prompts = [reply(length, 1) for _ in range((6 + 3 * groups) * budget // length)]
        await asyncio.gather(*decodes, *prompts)

    async def run(self) -> float:
        """All sessions, all steps; seconds it took."""
        root = await self._engine.aio.open()
        await root.append(self._system)
        await root.prefill()
        agents = [Agent(self._workload, n, self._words) for n in range(self._workload.sessions)]
        sessions: list[AsyncSession | None] = [None] * len(agents)
        if self._workload.begun and self._workload.history == "append":
            sessions = [*await asyncio.wrap_future(self._engine.on_loop(lambda core: self._made_up(core, agents)))]
        started = time.perf_counter()
        await asyncio.gather(*(self._live(root, *both) for both in zip(agents, sessions, strict=True)))
        seconds = time.perf_counter() - started
        await root.close()
        return seconds

    def _made_up(self, core: Core, agents: list[Agent]) -> list[AsyncSession]:
        """Sessions in the middle of their work (on the loop's thread)."""
        made_up.scribble(core)
        logs = [Log([*self._system, *agent.said()]) for agent in agents]
        return [AsyncSession(self._engine, made_up.session(core, f"agent-{n}", log)) for n, log in enumerate(logs)]

    async def _live(self, root: AsyncSession, agent: Agent, session: AsyncSession | None) -> None:
        for _ in range(self._workload.steps):
            started, step = time.perf_counter(), len(agent.steps)
            sent = agent.next()
            if self._workload.history == "window":
                result = await self._stateless(agent, sent)
            else:
                if session is None or sent.anew:
                    if session is not None:
                        await session.close()
                    (session,) = await root.fork()
                deltas = Deltas() if self._workload.deltas and self._workload.picture else None
                await session.append(*self._parts(agent, sent), deltas=deltas)
                result = await (await session.generate(self._sampling))
            agent.replied(result.tokens)
            self._record(agent.number, step, time.perf_counter() - started, result)
        if session is not None:
            self.session_bytes = max(self.session_bytes, (await session.info()).bytes)
            await session.close()

    def _parts(self, agent: Agent, sent: Sent) -> list[Part]:
        """A step's tokens, or its picture and its text."""
        if self._screens is None:
            return [sent.tokens]
        step = len(agent.steps) - 1
        return [self._screens.of(agent.number, step), sent.tokens[len(agent.steps[step][0]) :]]

    async def _stateless(self, agent: Agent, sent: Sent) -> Result:
        """The whole prompt, with its pictures; tokens that stand for one are said to be one."""
        if self._screens is not None:
            parts: list[Part] = [self._system]
            end = 0
            for step, start, length in sent.shown:
                screen = self._screens.of(agent.number, step)
                parts += [sent.tokens[end:start], screen] if start > end else [screen]
                end = start + length
            parts.append(sent.tokens[end:])
            (generation,) = await self._engine.aio.complete(parts, self._sampling)
            return await generation
        first = len(self._system)
        pictures = [
            Picture(first + start, first + start + length, (0, 0), None, None, b"%d/%d" % (agent.number, step))
            for step, start, length in sent.shown
        ]
        log = Log([*self._system, *sent.tokens], (), pictures)
        (generation,) = await asyncio.wrap_future(self._engine.complete_later(log, self._sampling, [None]))
        return await generation

    def _record(self, session: int, number: int, seconds: float, result: Result) -> None:
        self.steps.append(
            Step(
                session,
                number,
                seconds,
                result.prompt_tokens,
                result.prompt_tokens - result.computed_tokens,
                len(result.tokens),
                result.timings.first_token,
            )
        )


def measure(
    source: str,
    workload: Workload,
    *,
    device: str | None = None,
    dtype: torch.dtype | None = None,
    engine: dict[str, object] | None = None,
    screens: Path | None = None,
) -> BenchReport:
    """Load, warm up, run."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()  # of an earlier run
    weight_dtype = dtype_of((engine or {}).get("weight_dtype"))  # type: ignore[arg-type]
    loaded = load_model(source, device=device, dtype=dtype, weight_dtype=weight_dtype)
    return measure_loaded(loaded, workload, engine=engine, screens=screens)


def measure_loaded(
    loaded: Loaded, workload: Workload, *, engine: dict[str, object] | None = None, screens: Path | None = None
) -> BenchReport:
    """Warm up and run. `screens`: a folder to keep pictures in. The time from start to first token is told for the
    first run of a process alone."""
    global _ran_before
    fresh, _ran_before = not _ran_before, True
    model, processor = loaded
    pictures: Screens | None = None
    if workload.picture is not None:
        pictures = Screens(Look(workload.picture, workload.seed, workload.unchanged), screens)
        pictures.prepare(range(workload.sessions), workload.steps)
    peak = DevicePeak(model.device)
    # Only pictures need a processor; random tokens are no text.
    with Engine(
        model, processor if workload.picture else None, engine_config(model, workload, engine or {})
    ) as running:
        driver = Driver(running, workload, pictures)

        async def both() -> tuple[float, float]:
            first = await driver.first_token()
            await driver.warm_up()
            return first, await driver.run()

        first, seconds = asyncio.run(both())
        report = BenchReport(
            "in process",
            model.config.name,
            workload,
            seconds,
            tuple(driver.steps),
            start_to_first_token=first if fresh else None,
            device_bytes=peak.bytes(),
            host_bytes=peak_host_bytes(),
            session_bytes=driver.session_bytes or None,
            engine_stats=running.stats(),
        )
        running.check_integrity()
    return report
