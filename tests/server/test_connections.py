"""Connections: nobody holds one for nothing, and answers leave at once."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator

import httpx
import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol

from holotron.server.portions import PORTION
from tests.server.inside import Inside, inside
from tests.server.process import running

SHORT = ("--connections.header_seconds", "0.5", "--connections.body_seconds", "0.5", "--connections.idle_seconds", "1")


@pytest.fixture(scope="module")
def impatient() -> Iterator[Inside]:
    with inside(*SHORT, "--connections.write_seconds", "0.5", "--connections.max_per_address", "12") as server:
        yield server


def everything(connection: socket.socket) -> bytes:
    """Until the server closes."""
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(65536):
            data += piece
    return data


def error_code(answer: bytes) -> str:
    return json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"]


def test_answers_leave_at_once(impatient: Inside) -> None:
    """Without TCP_NODELAY the second answer on a connection waits for the acknowledgement of the first."""
    with httpx.Client(base_url=impatient.url) as client:
        client.get("/health/live")
        (protocol,) = impatient.server.server_state.connections
        assert protocol.transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_silent_connection_is_closed(impatient: Inside) -> None:
    with impatient.connect() as connection:
        assert everything(connection) == b""


def test_a_slow_head(impatient: Inside) -> None:
    """However it trickles: the clock is not reset by another byte."""
    with impatient.connect() as connection:
        connection.sendall(b"GET /health/live HTTP/1.1\r\n")
        connection.settimeout(0.05)
        answer = b""
        until = time.monotonic() + 30
        while not answer and time.monotonic() < until:
            with contextlib.suppress(TimeoutError, OSError):
                connection.sendall(b"x: y\r\n")
                answer = connection.recv(4096)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert error_code(answer) == "request_timeout"


def test_a_slow_head_after_a_request(impatient: Inside) -> None:
    with impatient.connect() as connection:
        connection.sendall(b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")
        connection.sendall(b"GET /health")
        assert b"HTTP/1.1 408 " in everything(connection)


def test_a_body_that_does_not_come(impatient: Inside) -> None:
    head = b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    with impatient.connect() as connection:
        connection.sendall(head + b"content-length: 1000\r\n\r\n{")
        answer = everything(connection)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert error_code(answer) == "request_timeout"


def test_a_connection_at_rest_is_closed(impatient: Inside) -> None:
    with impatient.connect() as connection:
        connection.sendall(b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert everything(connection).startswith(b"HTTP/1.1 200 ")


def test_nonsense_is_answered_in_the_usual_shape(impatient: Inside) -> None:
    with impatient.connect() as connection:
        connection.sendall(b"\x16\x03\x01\x00\xa5 hello?\r\n\r\n")
        answer = everything(connection)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["type"] == "invalid_request_error"


def chunked(*pieces: bytes, more: bytes = b"") -> bytes:
    head = b"POST /tokenize HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked"
    body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return head + b"\r\n\r\n" + body + b"0\r\n\r\n" + more


@pytest.mark.parametrize("size", [1, 700, 50_000])
def test_bodies_in_chunks_arrive_whole(impatient: Inside, size: int) -> None:
    """Read in turns, and the requests behind them in their order."""
    body = json.dumps({"prompt": "abcdefghij" * 1500}).encode()
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    requests = chunked(
        *pieces, more=chunked(*pieces, more=b"GET /version HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    )
    with impatient.connect() as connection:
        connection.sendall(requests)
        answers = everything(connection)
    assert answers.count(b"HTTP/1.1 200 ") == 3, answers[:1000]
    assert answers.count(b'"count":15000') == 2
    assert answers.endswith(b'"}')
    assert b'"version":' in answers[-40:]


def test_small_chunks_do_not_stop_the_others(impatient: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight clients send bodies in chunks of one byte, as fast as they can. No turn of the event loop reads much."""
    read: list[int] = []
    handle = H11Protocol.data_received

    def counted(self: H11Protocol, data: bytes) -> None:
        read.append(len(data))
        handle(self, data)

    monkeypatch.setattr(H11Protocol, "data_received", counted)
    blob = b"1\r\n \r\n" * 100_000
    with contextlib.ExitStack() as stack:
        for _ in range(8):
            connection = stack.enter_context(impatient.connect())
            connection.sendall(chunked().partition(b"\r\n\r\n")[0] + b"\r\n\r\n")
            connection.setblocking(False)
            connection.send(blob)
        with httpx.Client(base_url=impatient.url, timeout=60) as client:
            for _ in range(20):
                assert client.get("/health/live").status_code == 200
    assert max(read) <= PORTION
    assert sum(read) > 8 * PORTION


def test_a_head_of_many_lines_is_refused(impatient: Inside) -> None:
    with impatient.connect() as connection, contextlib.suppress(OSError):
        connection.sendall(b"GET /version HTTP/1.1\r\nhost: x\r\n" + b"a:\r\n" * 60_000 + b"\r\n")
        assert connection.recv(4096).startswith(b"HTTP/1.1 400 ")


def test_a_client_that_does_not_read_loses_its_stream(impatient: Inside) -> None:
    """And its session is free again, as it was before."""
    impatient.post("/v1/sessions", {"id": "unread"})
    body = json.dumps(
        {
            "messages": [{"role": "user", "content": "Hello"}],
            "session_id": "unread",
            "stream": True,
            "max_tokens": 30_000,
            "ignore_eos": True,
            "logprobs": True,
            "top_logprobs": 20,
        }
    ).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", impatient.port))
    with connection:
        # Small buffers on both sides, so that it shows soon that nobody reads.
        name = connection.getsockname()
        while not (there := [one for one in impatient.server.server_state.connections if one.client == name]):
            time.sleep(0.01)
        there[0].transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        connection.sendall(head + f"content-length: {len(body)}\r\n\r\n".encode() + body)

        def state() -> dict[str, object]:
            return httpx.get(f"{impatient.url}/v1/sessions/unread", timeout=60).json()

        until = time.monotonic() + 120
        while not state()["busy"]:
            assert time.monotonic() < until
        while (now := state())["busy"]:
            assert time.monotonic() < until
            time.sleep(0.05)
        assert now["turns"] == 0
    httpx.delete(f"{impatient.url}/v1/sessions/unread")


def test_one_address_cannot_take_them_all(impatient: Inside) -> None:
    with contextlib.ExitStack() as stack:
        mine = [stack.enter_context(impatient.connect()) for _ in range(12)]
        answers = [everything(stack.enter_context(impatient.connect())) for _ in range(3)]
        assert all(answer.startswith(b"HTTP/1.1 429 ") for answer in answers)
        assert all(error_code(answer) == "too_many_connections" for answer in answers)
        assert all(b"retry-after: " in answer.lower() for answer in answers)
        for connection in mine:
            connection.close()
    until = time.monotonic() + 30
    while httpx.get(f"{impatient.url}/health/live").status_code != 200:
        assert time.monotonic() < until


def test_running_out_of_descriptors_is_no_end() -> None:
    """A process that may open 256 files, and 300 who connect and say nothing."""
    with running("tiny", files=256) as server, contextlib.ExitStack() as stack:
        with httpx.Client(base_url=server.url, timeout=60) as client:
            client.get("/health/live")  # a connection that stays
            sockets = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port))) for _ in range(300)]
            for _ in range(20):
                assert client.get("/health/live").status_code == 200
            refused = sockets[-1]
            refused.settimeout(60)
            assert refused.recv(4096).startswith(b"HTTP/1.1 503 ")
        for one in sockets:
            one.close()
        until = time.monotonic() + 60
        while True:
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(f"{server.url}/health/live", timeout=10).status_code == 200:
                    break
            assert time.monotonic() < until
        assert len(server.lines) + len(server.noise) < 50
