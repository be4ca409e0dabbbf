"""Whatever is sent, the answer is a 4xx in OpenAI's shape, and the server goes on."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import socket
import threading
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from PIL import Image

from holotron.errors import InputError
from holotron.server.images import ImageFetcher, is_public
from holotron.server.settings import ImageSettings
from tests.server.pictures import data_url, with_image
from tests.server.process import ServerProcess

HELLO = [{"role": "user", "content": "Hello"}]


def post(server: ServerProcess, path: str, body: Any, **options: Any) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"content-type": "application/json", **options.pop("headers", {})}
    return httpx.post(f"{server.url}{path}", content=content, headers=headers, timeout=60, **options)


def refused(response: httpx.Response, *statuses: int) -> dict[str, Any]:
    assert response.status_code in (statuses or (400,)), response.text[:500]
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert isinstance(error["message"], str)
    assert error["message"]
    assert len(error["message"]) < 2000
    return error


def png(width: int, height: int) -> bytes:
    """A PNG that claims to be this large, with next to nothing in it."""
    buffer = io.BytesIO()
    Image.new("1", (1, 1)).save(buffer, "PNG")
    data = bytearray(buffer.getvalue())
    data[16:24] = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    data[29:33] = zlib.crc32(data[12:29]).to_bytes(4, "big")
    return bytes(data)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        b"[]",
        b"null",
        b'"messages"',
        b"{",
        b"\xff\xfe{}",
        b'{"messages": []}',
        b'{"messages": "hello"}',
        b'{"messages": [1]}',
        b'{"messages": [{"role": "king", "content": "x"}]}',
        b'{"messages": [{"role": "user", "content": 5}]}',
        b'{"messages": [{"role": "user", "content": [{"type": "video"}]}]}',
        b'{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}',
        b'{"messages": [{"role": "user", "content": "\\ud800"}]}',
        b'{"messages": [{"role": "user", "content": "x"}], "max_tokens": 0}',
        b'{"messages": [{"role": "user", "content": "x"}], "max_tokens": 1e99}',
        b'{"messages": [{"role": "user", "content": "x"}], "temperature": NaN}',
        b'{"messages": [{"role": "user", "content": "x"}], "temperature": "hot"}',
        b'{"messages": [{"role": "user", "content": "x"}], "n": 100000}',
        b'{"messages": [{"role": "user", "content": "x"}], "stop": [""]}',
        b'{"messages": [{"role": "user", "content": "x"}], "stop": [' + b'"a",' * 16 + b'"a"]}',
        b'{"messages": [{"role": "user", "content": "x"}], "top_logprobs": 5}',
        b'{"messages": [{"role": "user", "content": "x"}], "logprobs": true, "top_logprobs": 500}',
        b'{"messages": [{"role": "user", "content": "x"}], "tools": [{"type": "function"}]}',
        b'{"messages": [{"role": "user", "content": "x"}], "tool_choice": "required"}',
        b'{"messages": [{"role": "user", "content": "x"}], "response_format": {"type": "xml"}}',
        b'{"messages": [{"role": "user", "content": "x"}], "response_format": {"type": "regex", "regex": "("}}',
        b'{"messages": [{"role": "user", "content": "x"}], "chat_template_kwargs": {"messages": []}}',
        b'{"messages": [{"role": "user", "content": "x"}], "chat_template_kwargs": {"self": 1}}',
        b'{"messages": [{"role": "user", "content": "x"}], "fork": true}',
        b'{"messages": [{"role": "user", "content": "x"}], "session_id": "../etc"}',
        b'{"messages": [{"role": "user", "content": "x"}], "logit_bias": {"five": 100}}',
        b'{"messages": [{"role": "user", "content": "x"}], "surprise": 1}',
        b"[" * 100_000,
        b'{"messages":' + b'[{"a":' * 5000,
    ],
)
def test_malformed_requests(server: ServerProcess, body: bytes) -> None:
    refused(post(server, "/v1/chat/completions", body), 400, 413, 415)


def test_other_content_types(server: ServerProcess) -> None:
    body = json.dumps({"messages": HELLO}).encode()
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        refused(post(server, "/v1/chat/completions", body, headers={"content-type": kind}), 415)


def test_no_such_thing(server: ServerProcess) -> None:
    refused(httpx.get(f"{server.url}/v1/nothing"), 404)
    refused(httpx.get(f"{server.url}/v1/chat/completions"), 405)
    refused(httpx.get(f"{server.url}/v1/sessions/nobody"), 404)
    refused(httpx.delete(f"{server.url}/v1/sessions/nobody"), 404)
    refused(post(server, "/v1/sessions/nobody/fork", {}), 404)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "data:",
        "data:image/png;base64,",
        "data:image/png;base64,!!!!",
        "data:image/png;base64," + base64.b64encode(b"not an image").decode(),
        "data:image/png;base64," + base64.b64encode(png(60_000, 60_000)).decode(),  # a bomb
        data_url()[: len(data_url()) // 2],  # truncated
        "data:image/svg+xml;base64," + base64.b64encode(b"<svg/>").decode(),
        "file:///etc/passwd",
        "ftp://example.com/x.png",
        "http://example.com/x.png",  # not allowed here
        "http://169.254.169.254/latest/meta-data",
        "//example.com/x.png",
        "javascript:alert(1)",
    ],
)
def test_bad_images(server: ServerProcess, url: str) -> None:
    error = refused(post(server, "/v1/chat/completions", {"messages": [with_image("?", url)], "max_tokens": 1}))
    assert "passwd" not in error["message"]


def test_too_many_images(server: ServerProcess) -> None:
    part = {"type": "image_url", "image_url": {"url": data_url(size=(8, 8))}}
    refused(post(server, "/v1/chat/completions", {"messages": [{"role": "user", "content": [part] * 65}]}))


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"},
        {"$ref": "#/nowhere"},
        {"$ref": "http://127.0.0.1:1/schema.json"},
        {"type": "string", "pattern": "("},
        {"enum": []},
        {"type": "object", "properties": {f"k{n}": {"type": "string", "maxLength": 10**9} for n in range(20_000)}},
    ],
)
def test_bad_schemas(server: ServerProcess, schema: dict[str, Any]) -> None:
    format = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    body = {"messages": HELLO, "response_format": format, "max_tokens": 4}
    refused(post(server, "/v1/chat/completions", body), 400, 413)


@pytest.mark.parametrize(
    "schema",
    [
        nested(90),
        {"type": "string", "pattern": "^" + "(a{1,1000}){1,1000}" * 20 + "$"},
        {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}}, "$ref": "#/$defs/a"},
        {"anyOf": [{"type": "string", "const": f"{n}" * 20} for n in range(2000)]},
        {"type": "array", "items": {"type": "array", "items": {"type": "array", "maxItems": 10**6}, "maxItems": 10**6}},
    ],
)
def test_heavy_schemas_do_no_harm(server: ServerProcess, schema: dict[str, Any]) -> None:
    """Served or refused, but not fatal and not forever."""
    format = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    response = post(server, "/v1/chat/completions", {"messages": HELLO, "response_format": format, "max_tokens": 4})
    assert response.status_code in (200, 400), response.text


def test_a_hundred_megabytes(server: ServerProcess) -> None:
    memory = resident(server.pid)
    body = b'{"messages": [{"role": "user", "content": "' + b"x" * (100 * 2**20) + b'"}]}'
    assert refused(post(server, "/v1/chat/completions", body), 413)["code"] == "request_too_large"

    def pieces() -> Iterator[bytes]:  # without saying how much will come
        for _ in range(100):
            yield b"x" * 2**20

    headers = {"content-type": "application/json"}
    response = httpx.post(f"{server.url}/v1/chat/completions", content=pieces(), headers=headers, timeout=60)
    assert refused(response, 413)["code"] == "request_too_large"
    assert resident(server.pid) - memory < 96 * 2**20  # at most one body of the allowed size is ever held


def resident(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_half_requests(server: ServerProcess) -> None:
    """Connections that say something and then nothing."""
    for head in (
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{",
        b"GET /",
        b"\x16\x03\x01",
    ):
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(head)
    assert httpx.get(f"{server.url}/health").status_code == 200


def test_it_still_works(server: ServerProcess) -> None:
    """After everything above (tests run in order)."""
    response = post(server, "/v1/chat/completions", {"messages": HELLO, "max_tokens": 3})
    assert response.status_code == 200
    metrics = server.settled()
    assert metrics["holotron_integrity_failures_total"] == 0


# ------------------------------------------------------------------------------------------------- images by address


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1::1", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::1", False),
        ("::", False),
        ("fe80::1", False),
        ("fe80::1%eth0", False),
        ("fc00::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:93.184.216.34", True),
        ("2002:7f00:0001::", False),  # 6to4 of 127.0.0.1
        ("64:ff9b::7f00:1", False),  # NAT64 of 127.0.0.1
        ("64:ff9b::5db8:d822", True),
    ],
)
def test_public_addresses(address: str, public: bool) -> None:
    assert is_public(address) == public


class ImageSite(BaseHTTPRequestHandler):
    """Serves /image, redirects /to?<address>, and counts who came."""

    visits: list[str]

    def do_GET(self) -> None:
        self.visits.append(self.path)
        if self.path.startswith("/to?"):
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/to?"))
            self.send_header("content-length", "0")
            self.end_headers()
            return
        body = b"x" * 5000 if self.path == "/large" else base64.b64decode(data_url().partition(",")[2])
        self.send_response(200 if self.path != "/missing" else 404)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def site() -> Iterator[tuple[int, list[str]]]:
    visits: list[str] = []
    handler = type("Site", (ImageSite,), {"visits": visits})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, daemon=True)
        thread.start()
        yield httpd.server_address[1], visits
        httpd.shutdown()


def fetch(url: str, resolve: Any = None, **settings: Any) -> bytes:
    async def run() -> bytes:
        options = {} if resolve is None else {"resolve": resolve}
        fetcher = ImageFetcher(ImageSettings(**{"allow_remote": True, **settings}), **options)
        try:
            return await fetcher.fetch(url)
        finally:
            await fetcher.close()

    return asyncio.run(run())


HERE = {"allowed_networks": ["127.0.0.1/32"]}


def test_fetching(site: tuple[int, list[str]]) -> None:
    port, _ = site
    expected = base64.b64decode(data_url().partition(",")[2])
    assert fetch(f"http://127.0.0.1:{port}/image", **HERE) == expected
    assert fetch(f"http://127.0.0.1:{port}/to?/image", **HERE) == expected
    for path, settings, message in (
        ("/missing", {}, "404"),
        ("/large", {"max_bytes": 1000}, "more than"),
        ("/to?" + "/to?" * 4 + "/image", {}, "redirected"),
        ("/to?file:///etc/passwd", {}, "http"),
        ("/to?http://[::1", {}, "malformed"),
    ):
        with pytest.raises(InputError, match=message):
            fetch(f"http://127.0.0.1:{port}{path}", **HERE, **settings)
    with pytest.raises(InputError, match="does not fetch"):
        fetch(f"http://127.0.0.1:{port}/image", allow_remote=False)


@pytest.mark.parametrize("url", ["http://a..b/", "http://.example/", "http://" + "x" * 70 + ".example/", "http://[::1"])
def test_names_that_are_none(url: str) -> None:
    with pytest.raises(InputError):
        fetch(url)


def test_private_addresses_are_not_fetched(site: tuple[int, list[str]]) -> None:
    port, visits = site
    for url in (f"http://127.0.0.1:{port}/image", f"http://localhost:{port}/image", f"http://[::1]:{port}/image"):
        with pytest.raises(InputError, match=r"not a public one|cannot be"):
            fetch(url)
    assert visits == []
    # A redirect from an allowed place into the private network.
    with pytest.raises(InputError, match="not a public one"):
        fetch(f"http://127.0.0.1:{port}/to?http://127.0.0.2:{port}/image", **HERE)
    assert len(visits) == 1


def test_names_that_change_their_address(site: tuple[int, list[str]]) -> None:
    """DNS rebinding: what is connected to is what was looked at, so a second look-up cannot smuggle anything in."""
    port, visits = site
    answers = iter([["127.0.0.1"], ["127.0.0.2"]])
    asked: list[str] = []

    async def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return next(answers)

    assert fetch(f"http://rebind.example:{port}/image", resolve=resolve, **HERE)
    assert asked == ["rebind.example"]
    assert visits == ["/image"]

    async def mixed(host: str, port: int) -> list[str]:
        return ["93.184.216.34", "127.0.0.1"]

    with pytest.raises(InputError, match="not a public one"):
        fetch(f"http://mixed.example:{port}/image", resolve=mixed)


def test_an_error_does_not_repeat_everything(server: ServerProcess) -> None:
    body = {"model": "a" * 5000, "messages": HELLO}
    said = httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=60)
    assert said.status_code == 404
    assert len(said.json()["error"]["message"]) < 400
