"""What is too much is refused before it is worked on; what nobody waits for any more is given up."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from holotron.engine import Overloaded
from holotron.errors import CapacityError
from holotron.model.bundled import bundled_folder
from holotron.model.processor import Processor
from holotron.server import limits, pictures
from holotron.server.errors import ApiError
from holotron.server.limits import check_values, many_values
from holotron.server.logs import JsonLines, PlainLines
from holotron.server.settings import LimitSettings
from holotron.server.tokenising import TextGauge, unlock
from holotron.server.workers import LANES, Lane, Workers, check
from tests.server.inside import Inside, inside
from tests.server.pictures import with_image

HELLO = [{"role": "user", "content": "Hello"}]


def flat(width: int, height: int) -> str:
    """Many pixels, few bytes."""
    buffer = io.BytesIO()
    Image.new("1", (width, height)).save(buffer, "PNG")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


@pytest.fixture(scope="module")
def server() -> Iterator[Inside]:
    with inside("--images.max_request_pixels", "1000000", "--engine.max_context", "2048") as server:
        yield server


def refused(answer: httpx.Response, code: str | None, status: int = 400) -> None:
    assert answer.status_code == status, answer.text[:300]
    assert answer.json()["error"]["code"] == code


# -------------------------------------------------------------------------------------------------------- requests


def test_texts_that_cannot_fit(server: Inside) -> None:
    """With the code that clients look for, whether it shows before, while or after tokenising."""
    for text in ("word " * 2_000_000, "x" * 100_000, "a b " * 520, "\u00e9" * 1500):
        refused(server.chat(text), "context_length_exceeded")
        refused(server.post("/v1/completions", {"prompt": text, "max_tokens": 1}), "context_length_exceeded")
    server.post("/v1/sessions", {"id": "long"})
    refused(server.chat("a b " * 520, session_id="long"), "context_length_exceeded")
    refused(
        server.post("/v1/sessions/long/append", {"messages": [{"role": "user", "content": "y" * 9000}]}),
        "context_length_exceeded",
    )
    httpx.delete(f"{server.url}/v1/sessions/long")


def test_pixels_together(server: Inside) -> None:
    part = {"type": "image_url", "image_url": {"url": flat(800, 600)}}
    body = {"messages": [{"role": "user", "content": [part] * 3}], "max_tokens": 1}
    refused(server.post("/v1/chat/completions", body), "too_many_pixels")
    body = {"messages": [with_image("?", flat(9000, 9000))], "max_tokens": 1}
    refused(server.post("/v1/chat/completions", body), None)


def test_messages_tools_and_schemas(server: Inside) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    refused(server.post("/v1/chat/completions", {"messages": HELLO * 5000}), "too_many_messages")
    refused(server.post("/v1/chat/completions", {"messages": HELLO, "tools": [tool] * 257}), "too_many_tools")
    large = {"type": "object", "properties": {"a": {"description": "x" * 200_000}}}
    tool = {"type": "function", "function": {"name": "f", "parameters": large}}
    refused(server.post("/v1/chat/completions", {"messages": HELLO, "tools": [tool]}), "schema_too_large")
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": large}}
    refused(server.post("/v1/chat/completions", {"messages": HELLO, "response_format": form}), "schema_too_large")


@pytest.mark.parametrize("piece", [b"[]", b"{}", b"1", b'{"role":"user","content":""}', b'"a"', b"[[[]]]"])
def test_json_with_too_many_values(server: Inside, piece: bytes) -> None:
    for head, tail in ((b'{"messages":[', b"]}"), (b'{"messages":[{"role":"user","content":[', b"]}]}")):
        body = head + b",".join([piece] * 600_000) + tail
        refused(server.post("/v1/chat/completions", body), "request_too_large", 413)


def count_of(data: bytes, **limits: int) -> None:
    allowed = LimitSettings(**limits)
    if many_values(allowed, data):
        check_values(allowed, data)


def test_brackets_in_texts_do_not_count() -> None:
    data = json.dumps({"text": '{[,"\\' * 1000, "list": [1, 2, 3]}).encode()
    count_of(data, max_json_objects=16, max_json_values=16)
    with pytest.raises(ApiError):
        count_of(json.dumps([[]] * 17).encode(), max_json_objects=16)


@given(
    st.recursive(
        st.text() | st.text('"\\,:{[x') | st.integers(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
    st.integers(2, 50),
)
@settings(max_examples=50, deadline=None)
def test_values_are_counted_exactly(value: Any, block: int) -> None:
    def objects(one: Any) -> int:
        inner = one if isinstance(one, list) else one.values() if isinstance(one, dict) else ()
        return isinstance(one, list | dict) + sum(map(objects, inner))

    def members(one: Any) -> int:
        inner = one if isinstance(one, list) else one.values() if isinstance(one, dict) else ()
        return (len(one) if isinstance(one, dict) else 0) + sum(map(members, inner))

    data = json.dumps([value] * 20).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "_BLOCK", block)
        for name, wanted in (("max_json_objects", objects([value] * 20)), ("max_json_members", members([value] * 20))):
            if wanted >= 16:
                check_values(LimitSettings(**{name: wanted}), data)
            if wanted > 16:
                with pytest.raises(ApiError):
                    check_values(LimitSettings(**{name: wanted - 1}), data)


@pytest.mark.parametrize("text", ['"', '["\\', '"\\"', '{"a', '["a\\"', "", "\\", '"' + "\\" * 7])
def test_counting_ends_whatever_it_reads(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_BLOCK", 3)
    check_values(LimitSettings(), text.encode())


def test_escapes_are_counted(server: Inside) -> None:
    """Reading them takes time: ten million of them stopped the server for a fifth of a second."""
    refused(server.chat("\u4e2d" * 1_000_001), "request_too_large", 413)


def test_reasoning_that_is_none_counts(server: Inside) -> None:
    """What a template leaves out does not count; a tag at the end of a long text does not make it reasoning."""
    long = "x" * 40_000
    for said, code in ((f"{long}</think>", "context_length_exceeded"), (f"<think>{long}</think>hi", None)):
        messages = [*HELLO, {"role": "assistant", "content": said}, *HELLO]
        answer = server.post("/v1/chat/completions", {"messages": messages, "max_tokens": 1})
        assert (answer.json().get("error") or {}).get("code") == code, answer.text[:200]


# ---------------------------------------------------------------------------------------------------------- tokens


@pytest.fixture(scope="module")
def processor() -> Processor:
    processor = Processor.from_folder(bundled_folder())
    unlock(processor.tokenizer)
    unlock(processor.tokenizer)  # twice does no harm
    return processor


@given(st.lists(st.text(max_size=400) | st.text("ab \n=", max_size=3000), max_size=4))
@settings(max_examples=60, deadline=None)
def test_the_bound_is_a_bound(processor: Processor, texts: list[str]) -> None:
    whole = "".join(texts)
    tokens = len(processor.tokenizer.encode_plain(whole))
    for context in (1, 10_000_000):  # as letters, and as bytes
        assert TextGauge(processor.tokenizer, context).at_least(texts) <= tokens
    TextGauge(processor.tokenizer, max(1, tokens)).check(texts)  # what fits is never refused
    if len(whole.encode()) > 64:
        with pytest.raises(CapacityError):
            TextGauge(processor.tokenizer, 1).check(texts)


def test_long_texts_are_tokenised_as_before_and_let_others_work(processor: Processor) -> None:
    plain = Processor.from_folder(bundled_folder())
    for text in ("short", "the quick brown fox \u00e9\u4e2d\n" * 3000, "<|im_end|>" * 500):
        assert processor.tokenizer.encode_plain(text) == plain.tokenizer.encode_plain(text)
    ticks, over = 0, threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not over.wait(0.001):
            ticks += 1

    thread = threading.Thread(target=tick)
    thread.start()
    processor.tokenizer.encode_plain("the quick brown fox " * 40_000)
    over.set()
    thread.join()
    assert ticks > 10  # with the lock held it would be one or two


# --------------------------------------------------------------------------------------------------------- workers


def test_owners_take_turns() -> None:
    order: list[str] = []

    async def play() -> None:
        workers, blocked = Workers(threads=1), threading.Event()
        first = asyncio.ensure_future(workers.run("z", blocked.wait))
        names = [f"a{n}" for n in range(3)] + ["b0", "c0", "b1"]
        rest = [asyncio.ensure_future(workers.run(name[0], lambda name=name: order.append(name))) for name in names]
        await asyncio.sleep(0)
        blocked.set()
        await asyncio.gather(first, *rest)
        workers.close()

    asyncio.run(play())
    assert order == ["a0", "b0", "c0", "a1", "b1", "a2"]


def test_what_nobody_waits_for_is_not_done() -> None:
    done: list[str] = []

    async def play() -> None:
        workers, blocked = Workers(threads=1, max_waiting=2), threading.Event()

        def in_pieces() -> None:
            blocked.wait(10)
            while True:
                check()
                time.sleep(0.001)

        running = asyncio.ensure_future(workers.run("a", in_pieces))
        queued = asyncio.ensure_future(workers.run("a", lambda: done.append("queued")))
        await asyncio.sleep(0.01)
        queued.cancel()
        running.cancel()
        blocked.set()
        # The thread notices between two pieces, and is free for the next.
        await asyncio.wait_for(workers.run("a", lambda: done.append("next")), 10)
        slow = threading.Event()
        full = [asyncio.ensure_future(workers.run("a", slow.wait)) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(Overloaded):
            await workers.run("a", slow.wait)
        slow.set()
        await asyncio.gather(*full)
        with pytest.raises(ZeroDivisionError):
            await workers.run("a", lambda: 1 / 0)
        workers.close()

    asyncio.run(play())
    assert done == ["next"]


def test_lanes_do_not_wait_for_each_other() -> None:
    async def play() -> None:
        workers, blocked = Workers(threads=1), threading.Event()
        slow = asyncio.ensure_future(workers.run("a", lambda: blocked.wait(30), "large"))
        assert await asyncio.wait_for(workers.run("a", lambda: 1), 10) == 1
        blocked.set()
        await slow
        workers.close()

    asyncio.run(play())


def test_long_work_leaves_a_core_free_and_lanes_take_turns() -> None:
    order: list[str] = []
    at_once, most = 0, 0
    lock = threading.Lock()

    def work(name: str) -> None:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        time.sleep(0.005)
        with lock:
            at_once -= 1
            order.append(name)

    async def play(room: int) -> None:
        workers = Workers(threads=2, room=room)
        lanes: list[Lane] = ["large"] * 4 + ["grammar"] * 2 + ["parse"]
        await asyncio.gather(*[workers.run("a", lambda lane=lane: work(lane), lane) for lane in lanes])
        workers.close()

    async def priorities() -> tuple[int, int]:
        workers = Workers(threads=1)
        own = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
        quick, slow = [
            await workers.run("a", lambda: os.getpriority(os.PRIO_PROCESS, threading.get_native_id()), lane)
            for lane in LANES[:2]
        ]
        workers.close()
        return quick - own, slow - own

    if sys.platform == "linux":
        quick, slow = asyncio.run(priorities())
        assert quick == 0 < slow
    asyncio.run(play(1))
    assert most == 1
    assert order == ["large", "grammar", "parse", "large", "grammar", "large", "large"]
    asyncio.run(play(3))
    assert 1 < most <= 3


def test_a_client_that_leaves_takes_its_pictures_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight large pictures, abandoned while the only thread for such work is busy: none of them is ever decoded."""
    cut: list[bytes] = []
    monkeypatch.setattr(pictures, "cut_picture", lambda data, processor: cut.append(data))
    with inside("--limits.workers", "1") as server:
        parts = [{"type": "image_url", "image_url": {"url": flat(4000, 2000 + n)}} for n in range(8)]
        body = {"messages": [{"role": "user", "content": parts}], "max_tokens": 1}
        queue = server.service.workers._queues["large"]
        release = threading.Event()
        queue.pool.submit(release.wait, 60)
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=httpx.Timeout(60, read=1.5))
        until = time.monotonic() + 60
        while server.service.in_flight:
            assert time.monotonic() < until
            time.sleep(0.01)
        release.set()
        while queue.free == 0:
            assert time.monotonic() < until
            time.sleep(0.01)
        assert cut == []
        assert server.service.loaded is not None
        assert server.service.loaded.engine.stats().requests == 0
        assert server.chat("still there").status_code == 200


# ------------------------------------------------------------------------------------------------------------ logs


def test_logs_cannot_be_forged() -> None:
    evil = "/v1/x\n12:00:00 info    request path=/fake status=200\x1b[2J\x9b1m\u2028\u202e\x00"
    for formatter in (PlainLines(), JsonLines()):
        record = logging.LogRecord("x", logging.INFO, "", 0, "request %s", (evil,), None)
        record.fields = {"path": evil, "status": 404, "note": 'a="b" c'}
        try:
            raise ValueError(evil)
        except ValueError as error:
            record.exc_info = (ValueError, error, error.__traceback__)
        lines = formatter.format(record).splitlines()
        assert not any(letter != "\n" and not letter.isprintable() for line in lines for letter in line)
        assert all(line.startswith("    | ") for line in lines[1:])
        assert "status=200" not in lines[0].split()
    plain = PlainLines().format(logging.LogRecord("x", logging.INFO, "", 0, "ready", (), None))
    assert plain.endswith(" info    ready")
