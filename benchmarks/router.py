"""What the router costs: requests to stub replicas that answer at once, with and without it, and beside Ray Serve's.

    python benchmarks/router.py                            # 300 KB bodies, one client, then eight
    python benchmarks/router.py --ray                      # Ray Serve with a stub deployment too

One connection sends a request after the other, as an agent does. The router reads the body, finds out where its
conversation lives, and passes it on; stubs read the body and answer 1 KB of JSON. `overhead` is what p50 is above that
of asking a stub directly. Kinds of requests: in a session, by x-session-id, stateless (the beginning is hashed), and a
stream of 64 tokens, per token. Printed as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.fleet.playing import KEY, commit, wait_until_answers

ANSWER = json.dumps({"id": "chatcmpl-1", "choices": [{"index": 0, "message": {"content": "x" * 900}}]}).encode()
TOKENS = 64


# ------------------------------------------------------------------------------------------------------------- the stub


class Stub(asyncio.Protocol):
    """Reads a request, answers at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # type: ignore[union-attr]
        self.got = bytearray()
        self.end = -1

    def data_received(self, data: bytes) -> None:
        self.got += data
        while True:
            if self.end < 0:
                head_end = self.got.find(b"\r\n\r\n")
                if head_end < 0:
                    return
                head = bytes(self.got[:head_end]).lower()
                at = head.find(b"content-length:")
                self.end = head_end + 4 + (int(head[at + 15 :].split(b"\r\n")[0]) if at >= 0 else 0)
                self.head = head
            if len(self.got) < self.end:
                return
            streams = b'"stream": true' in self.got[self.end - 200 : self.end]
            del self.got[: self.end]
            self.end = -1
            if b"/fleet/status" in self.head:
                told = {"stage": "ready", "sessions": [], "capacity": 10_000, "max_sessions": 10_000, "version": 0}
                self._answer(json.dumps(told).encode())
            elif streams:
                self._stream()
            else:
                self._answer(ANSWER, b"x-fleet-session: s\r\n" if b"session" in self.head else b"")

    def _answer(self, body: bytes, more: bytes = b"") -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n%bcontent-length: %d\r\n\r\n" % (more, len(body))
        self.transport.write(head + body)

    def _stream(self) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        self.transport.write(head)

        async def tokens() -> None:
            for n in range(TOKENS):
                event = b'data: {"choices":[{"index":0,"delta":{"content":"word "}}]}\n\n: 0 %d\n\n' % n
                self.transport.write(b"%x\r\n%b\r\n" % (len(event), event))
                await asyncio.sleep(0)
            self.transport.write(b"0\r\n\r\n")

        self.task = asyncio.ensure_future(tokens())


async def stub(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Stub, "127.0.0.1", port)
    await server.serve_forever()


# ----------------------------------------------------------------------------------------------------------- the client


def body_of(kilobytes: int, n: int, **more: Any) -> bytes:
    picture = base64.b64encode(os.urandom(kilobytes * 750)).decode()
    content = [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture}"}},
        {"type": "text", "text": f"What do you see? ({n})"},
    ]
    messages = [{"role": "system", "content": "You look at screens."}, {"role": "user", "content": content}]
    return json.dumps({"model": "m", "messages": messages, **more}).encode()


class Client:
    def __init__(self, port: int, path: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._path = path

    def ask(self, body: bytes, header: str = "") -> float:
        head = f"POST {self._path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n{header}"
        message = f"{head}content-length: {len(body)}\r\n\r\n".encode() + body
        started = time.perf_counter()
        self._socket.sendall(message)
        got = b""
        while b"\r\n\r\n" not in got:
            got += self._more()
        told, _, got = got.partition(b"\r\n\r\n")
        told = told.lower()
        assert b" 200 " in told.split(b"\r\n")[0], told + got
        if b"chunked" in told:
            while not got.endswith(b"0\r\n\r\n"):
                got += self._more()
        else:
            length = int(told.split(b"content-length:")[1].split(b"\r\n")[0])
            while len(got) < length:
                got += self._more()
        return time.perf_counter() - started

    def _more(self) -> bytes:
        data = self._socket.recv(2**18)
        assert data, "the connection was closed"
        return data


def measure(port: int, path: str, kind: str, args: argparse.Namespace, clients: int = 1) -> dict[str, float]:
    times: list[float] = []

    def body(who: int, n: int) -> bytes:
        more: dict[str, Any] = {"stream": True} if kind == "stream" else {}
        if kind == "session":
            more = {"session_id": f"s-{who}"} | ({"session_open": True} if n == 0 else {})
        return body_of(args.kilobytes, n, **more)

    bodies = [[body(who, n) for n in range(args.requests // clients)] for who in range(clients)]

    def run(who: int) -> None:
        client = Client(port, path)
        for n, data in enumerate(bodies[who]):
            took = client.ask(data, f"x-session-id: h-{who}\r\n" if kind == "header" else "")
            if n >= 10:
                times.append(took)

    threads = [threading.Thread(target=run, args=(who,)) for who in range(clients)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rate = sum(map(len, bodies)) / (time.perf_counter() - started)
    cuts = statistics.quantiles(times, n=100)
    told = {name: round(cuts[at - 1] * 1e3, 3) for name, at in (("p50", 50), ("p90", 90), ("p99", 99))}
    return told | {"per_second": round(rate, 1)}


# ------------------------------------------------------------------------------------------------------------ Ray Serve


def ray_serve(args: argparse.Namespace, stubs: list[str]) -> dict[str, Any]:
    """A stub deployment behind Serve's own proxy and router; and our entrance as a Serve application, over the same
    stubs as without Ray."""
    import ray
    from ray import serve
    from starlette.requests import Request
    from starlette.responses import Response

    from holotron.fleet.ray_serve import application

    @serve.deployment(num_replicas=2, ray_actor_options={"num_cpus": 0}, max_ongoing_requests=100)
    class StubDeployment:
        async def __call__(self, request: Request) -> Response:
            await request.body()
            return Response(ANSWER, media_type="application/json")

    ray.init(num_cpus=2, include_dashboard=False, logging_level="error", log_to_driver=False)
    port = free_port()
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    serve.run(StubDeployment.bind(), name="stub", route_prefix="/stub")
    fleet = application({"model": "tiny"}, stubs, {"fleet.key": KEY})
    serve.run(fleet, name="holotron", route_prefix="/")
    try:
        # Serve says that it is ready before the entrance knows its replicas.
        wait_until_answers(f"http://127.0.0.1:{port}/health", 60)
        return {
            "ray": ray.__version__,
            "stub_one_client": measure(port, "/stub/v1/chat/completions", "stateless", args),
            "stub_eight_clients": measure(port, "/stub/v1/chat/completions", "stateless", args, clients=8),
            "application_one_client": measure(port, "/v1/chat/completions", "session", args),
        }
    finally:
        serve.shutdown()
        ray.shutdown()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kilobytes", type=int, default=300)
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--ray", action="store_true", help="Ray Serve too")
    parser.add_argument("--stub", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.stub is not None:
        asyncio.run(stub(args.stub))
        return
    ports = [free_port(), free_port(), free_port()]
    stubs = [subprocess.Popen([sys.executable, __file__, "--stub", str(port)]) for port in ports[:2]]
    addresses = ",".join(f"http://127.0.0.1:{port}" for port in ports[:2])
    command = [sys.executable, "-m", "holotron.cli.main", "serve", "tiny", "--replicas", addresses]
    flags = ["--fleet.key", KEY, "--server.port", str(ports[2]), "--server.log_level", "warning"]
    told: dict[str, Any] = {"commit": commit(), "kilobytes": args.kilobytes, "requests": args.requests}
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "XDG_STATE_HOME": folder}
        router = subprocess.Popen([*command, *flags], env=environment)
        try:
            wait_until_answers(f"http://127.0.0.1:{ports[2]}/health", 60, router)
            time.sleep(1)
            path = "/v1/chat/completions"
            for clients, name in ((1, "one_client"), (8, "eight_clients")):
                rows: dict[str, Any] = {"direct": measure(ports[0], path, "stateless", args, clients)}
                for kind in ("session", "header", "stateless"):
                    rows[kind] = measure(ports[2], path, kind, args, clients)
                if clients == 1:  # several at once queue for one core: what counts then is how many get through
                    rows["overhead_p50_ms"] = {
                        kind: round(rows[kind]["p50"] - rows["direct"]["p50"], 3)
                        for kind in ("session", "header", "stateless")
                    }
                told[name] = rows
            streams = [measure(port, path, "stream", args)["p50"] for port in (ports[0], ports[2])]
            told["stream_overhead_us_per_token"] = round((streams[1] - streams[0]) / TOKENS * 1e3, 1)
            router.terminate()
            router.wait(20)
            if args.ray:
                rows = ray_serve(args, addresses.split(","))
                direct = told["one_client"]["direct"]["p50"]
                rows["overhead_p50_ms"] = {
                    kind: round(rows[f"{kind}_one_client"]["p50"] - direct, 3) for kind in ("stub", "application")
                }
                told["ray_serve"] = rows
        finally:
            for process in (router, *stubs):
                process.terminate()
                process.wait(20)
    print(json.dumps(told, indent=2))


if __name__ == "__main__":
    main()
