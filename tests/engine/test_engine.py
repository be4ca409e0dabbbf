"""The engine as programs use it: a thread behind it, callers in front, with and without asyncio."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import numpy as np
import pytest

from holotron.engine import (
    Engine,
    EngineConfig,
    EngineStopped,
    Grammar,
    Overloaded,
    SamplingParams,
    SessionBusy,
    Span,
    UnknownSession,
)
from holotron.engine.log import Log
from holotron.errors import CapacityError, ConfigError, InputError
from holotron.model.processor import ImageConfig, Processor
from tests.engine.support import assert_greedy, byte_model, micro_model, settings

MODEL, PROCESSOR = byte_model()
GREEDY = SamplingParams(max_tokens=6, temperature=0, ignore_eos=True)
LONG = SamplingParams(max_tokens=120, temperature=0, ignore_eos=True)


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine(MODEL, PROCESSOR, settings(kv_tokens=4096, state_rows=64, max_running=16)) as running:
        yield running
        assert running.drain(timeout=60)
        running.check_integrity()
        assert running.stats().integrity_failures == 0


def test_a_session_from_open_to_close(engine: Engine) -> None:
    with engine.open("mine") as session:
        assert session.append("Hello, ", [*b"world"], "!") == 13
        events = list(session.generate(GREEDY))
        assert [event.token for event in events] == session.tokens()[13:]
        assert_greedy(MODEL, Log(session.tokens()), 6)
        mark = session.mark()
        [twin] = session.fork(1, ids=["twin"])
        assert engine.session("twin") == twin != session
        twin.append(" Again")
        result = twin.generate(GREEDY).result()
        assert result.computed_tokens == len(" Again") + 1
        assert_greedy(MODEL, Log(twin.tokens()), 6)
        session.append("x" * 30)
        session.prefill()
        session.rewind(mark)
        assert len(session.tokens()) == 19
        assert session.compact([Span(0, 5), " there", Span(5, 19)]) == 25
        assert bytes(session.tokens()[:18]) == b"Hello there, world"
        info = session.info()
        assert (info.id, info.tokens, info.busy) == ("mine", 25, False)
        twin.close()
        with pytest.raises(UnknownSession):
            engine.session("twin")
        with pytest.raises(UnknownSession):
            twin.append("more")
    with pytest.raises(UnknownSession):
        engine.session("mine")
    assert engine.stats().sessions == 0


def test_text_streams_and_stops_at_stop_strings(engine: Engine) -> None:
    whole = engine.complete("abc", LONG)[0].result()
    assert "".join(event.text for event in engine.complete("abc", LONG)[0]) == whole.text
    place = len(whole.text) // 2
    stop = whole.text[place : place + 2]
    cut = engine.complete("abc", SamplingParams(max_tokens=120, temperature=0, ignore_eos=True, stop=(stop,)))[0]
    pieces = "".join(event.text for event in cut)
    result = cut.result()
    assert pieces == result.text == whole.text[: whole.text.index(stop)]
    assert (result.finish_reason, result.stop) == ("stop", stop)
    token = whole.tokens[5]
    ended = engine.complete("abc", SamplingParams(temperature=0, ignore_eos=True, stop_token_ids=(token,)))[0].result()
    assert ended.tokens == whole.tokens[: whole.tokens.index(token) + 1]
    assert ended.stop == token


def test_many_threads_at_once_each_get_their_own_answer(engine: Engine) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            with engine.open() as session:
                for turn in range(3):
                    session.append(f"agent {number} looks, turn {turn}: ")
                    session.generate(GREEDY).result(timeout=120)
                    assert_greedy(MODEL, Log(session.tokens()), 6)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert engine.stats().requests == 30


def test_asyncio_has_the_same_calls(engine: Engine) -> None:
    async def agent(number: int) -> list[int]:
        async with await engine.aio.open() as session:
            await session.append(f"task {number}")
            events = [event async for event in await session.generate(GREEDY)]
            mark = await session.mark()
            [twin] = await session.fork()
            await twin.append("...")
            await (await twin.generate(GREEDY))
            await session.rewind(mark)
            assert (await session.info()).tokens == len(f"task {number}") + 6
            await session.compact([Span(0, 4)])
            assert await session.tokens() == [*b"task"]
            await twin.close()
            return [event.token for event in events]

    async def everybody() -> None:
        answers = await asyncio.gather(*(agent(n) for n in range(8)))
        for n, answer in enumerate(answers):
            assert_greedy(MODEL, Log([*f"task {n}".encode(), *answer]), 6)
        [a, b] = await engine.aio.complete("x" * 80, SamplingParams(max_tokens=5, seed=1), n=2)
        first, second = await a, await b
        assert first.computed_tokens + second.computed_tokens == 80
        assert (await engine.aio.stats()).sessions == 0

    asyncio.run(everybody())


def test_a_reader_that_goes_away_is_not_computed_for(engine: Engine) -> None:
    for _ in engine.complete("hello", LONG)[0]:
        break  # a client that disconnects

    async def leave() -> None:
        [generation] = await engine.aio.complete("good morning", LONG)
        async for _ in generation:
            break
        [other] = await engine.aio.complete("good night", LONG)
        waiting = asyncio.ensure_future(other._wait())
        await asyncio.sleep(0.02)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(leave())
    assert engine.drain(timeout=10)
    stats = engine.stats()
    assert stats.generated_tokens < 3 * 120
    assert stats.running == stats.waiting == stats.pages_used == stats.rows_used == 0


def test_who_is_cancelled_at_the_last_moment_leaves_nothing_behind(engine: Engine) -> None:
    """The engine has obeyed already, and the event loop has not heard of it yet."""

    async def cancelled(call: Coroutine[Any, Any, Any], obeyed: Callable[[], object]) -> None:
        task = asyncio.ensure_future(call)
        await asyncio.sleep(0)
        assert obeyed()  # asked behind it, while the event loop stands still
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def main() -> None:
        await cancelled(engine.aio.open("left"), lambda: engine.session("left"))
        session = await engine.aio.open("stays")
        await session.append("hello")
        await cancelled(session.fork(2, ids=["fork", "other"]), lambda: engine.session("other"))
        assert engine.stats().sessions == 1
        await cancelled(session.generate(LONG), lambda: engine.session("stays").info().busy)
        assert len((await (await session.generate(GREEDY))).tokens) == 6
        await session.close()

    asyncio.run(main())


def test_closing_a_session_cancels_its_generation(engine: Engine) -> None:
    session = engine.open()
    session.append("hello")
    generation = session.generate(LONG)
    with pytest.raises(SessionBusy):
        session.append("more")
    with pytest.raises(SessionBusy):
        session.mark()
    with pytest.raises(SessionBusy):
        session.generate(GREEDY)
    session.close()
    assert generation.result(timeout=10).finish_reason == "cancelled"
    assert engine.stats().pages_used == 0


def test_a_refused_append_is_told_with_the_next_call(engine: Engine) -> None:
    with engine.open() as session:
        session.append("a" * 100)
        session.append("b" * 5000)
        session.append("c")  # must not be silently put where the other is missing
        with pytest.raises(CapacityError, match="do not fit"):
            session.generate(GREEDY)
        assert session.tokens() == [*b"a" * 100]
        assert session.generate(GREEDY).result().finish_reason == "length"


def test_a_confirmed_append_is_refused_where_it_is_made(engine: Engine) -> None:
    with engine.open() as session:
        assert session.append("a" * 100, confirm=True) == 100
        with pytest.raises(CapacityError, match="do not fit"):
            session.append("b" * 5000, confirm=True)
        assert session.append("c", confirm=True) == 1
        assert session.tokens() == [*b"a" * 100, *b"c"]

    async def awaited() -> None:
        async with await engine.aio.open("awaited") as session:
            await session.append("a", confirm=True)
            with pytest.raises(CapacityError, match="do not fit"):
                await session.append("b" * 5000, confirm=True)
            matcher = await engine.aio.compile(Grammar.regex("yes"))
            reply = await (await session.generate(GREEDY, grammar=matcher))
            assert reply.text == "yes"
            assert await engine.aio.session("awaited") == session == engine.session("awaited")

    asyncio.run(awaited())


def test_bad_input_is_refused_where_it_is_given(engine: Engine) -> None:
    session = engine.open()
    for bad in ([1, -1], [272], [2**40], [1, 1.5], [True], ["a", object()], [256], None):
        with pytest.raises(InputError):
            session.append(bad)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="at least one"):
        session.fork(0)
    with pytest.raises(InputError, match="already a session 'a'"):
        session.fork(ids=["a", "a"])
    other = Processor.for_bytes(ImageConfig(tile_size=32, patch_size=8))
    with pytest.raises(InputError, match="cut for another model"):
        session.append(other.encode_image(np.zeros((8, 8, 3), np.uint8)))
    with pytest.raises(InputError):
        session.append(b"not an image")
    with pytest.raises(InputError):
        session.append("text \ud800")
    with pytest.raises(InputError, match="nothing to continue"):
        session.generate(GREEDY)
    with pytest.raises(InputError, match="nothing to continue"):
        engine.complete([], GREEDY)
    with pytest.raises(InputError, match="n must be"):
        engine.complete("a", GREEDY, n=0)
    with pytest.raises(InputError, match="cannot be used"):
        engine.complete("a", GREEDY, grammar=Grammar.regex("("))
    assert session.tokens() == []


def test_an_engine_without_a_processor_speaks_token_ids() -> None:
    with Engine(micro_model(), None, settings()) as engine, engine.open() as session:
        assert session.append([1, 2, 3]) == 3
        result = session.generate(GREEDY).result()
        assert result.text == ""
        assert_greedy(engine.model, Log(session.tokens()), 6)
        for call in (
            lambda: session.append("text"),
            lambda: session.generate(SamplingParams(stop=("x",))),
            lambda: session.generate(GREEDY, grammar=Grammar.regex("a")),
        ):
            with pytest.raises(InputError, match="no processor"):
                call()


def test_overload_is_an_answer_not_a_failure() -> None:
    config = settings(kv_tokens=512, max_running=2, max_waiting=3, host_bytes=0)
    with Engine(MODEL, PROCESSOR, config) as engine:
        accepted, refused = [], []
        for n in range(12):
            try:
                accepted += engine.complete(f"request {n}", SamplingParams(max_tokens=50, temperature=0))
            except Overloaded as error:
                refused.append(error.retry_after)
        assert refused
        assert min(refused) >= 1
        assert all(generation.result(60).finish_reason in ("length", "stop") for generation in accepted)
        engine.check_integrity()


def test_timeouts_end_a_generation(engine: Engine) -> None:
    generation = engine.complete("slow", LONG, timeout=0.05)[0]
    assert generation.result(30).finish_reason in ("deadline", "length")
    with pytest.raises(TimeoutError):
        engine.complete("slower", LONG)[0].result(timeout=0.001)


def test_draining_finishes_what_runs_and_refuses_the_rest() -> None:
    engine = Engine(MODEL, PROCESSOR, settings())
    session = engine.open()
    session.append("hello")
    generation = session.generate(SamplingParams(max_tokens=60, temperature=0, ignore_eos=True))
    drained = threading.Thread(target=engine.drain)
    drained.start()
    time.sleep(0.01)
    with pytest.raises(EngineStopped):
        engine.complete("late", GREEDY)
    drained.join()
    assert len(generation.result(0).tokens) == 60
    engine.close()


def test_closing_ends_everything_and_nothing_hangs() -> None:
    engine = Engine(MODEL, PROCESSOR, settings())
    session = engine.open()
    session.append("hello")
    generation = session.generate(LONG)
    engine.close()
    with pytest.raises(EngineStopped):
        generation.result(timeout=5)
    with pytest.raises(EngineStopped):
        session.tokens()
    with pytest.raises(EngineStopped):
        engine.open()


def test_a_call_that_comes_while_it_closes_is_answered_once() -> None:
    engine = Engine(MODEL, PROCESSOR, settings())
    engine.close()

    class Swift(queue.SimpleQueue):
        def put(self, command: Any, *options: Any) -> None:
            super().put(command, *options)
            engine._obey(wait=0.0)  # as `close` does at the end, on another thread

    engine._commands = Swift()
    with pytest.raises(EngineStopped):
        engine.open()


def test_prefetch_has_the_prompt_ready(engine: Engine) -> None:
    with Engine(MODEL, PROCESSOR, settings(prefetch=True)) as eager, eager.open() as session:
        session.append("a screenshot, and what to do about it")
        for _ in range(200):
            if session.info().computed == 37:
                break
            time.sleep(0.01)
        result = session.generate(GREEDY).result()
        assert (result.cached_tokens, result.computed_tokens) == (37, 0)
        assert_greedy(MODEL, Log(session.tokens()), 6)


@pytest.mark.parametrize(
    "bad",
    [
        {"page_size": 0},
        {"host_bytes": -1},
        {"token_budget": 4, "max_running": 8},
        {"workers": 0},
    ],
)
def test_impossible_settings_are_refused(bad: dict) -> None:
    with pytest.raises(ConfigError, match="engine: "):
        EngineConfig(**bad)


@pytest.mark.parametrize("bad", [{"state_rows": 1}, {"kv_tokens": 4}, {"state_dtype": "int7"}, {"kv_dtype": "int8"}])
def test_settings_that_do_not_fit_the_model_are_refused(bad: dict) -> None:
    with pytest.raises(ConfigError, match="engine: "):
        Engine(MODEL, PROCESSOR, settings(**bad))
