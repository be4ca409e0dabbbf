"""Downloads from a hub, the real client against a small server of its protocol: what is there already is used, what was
interrupted goes on."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest

import holotron
from holotron.errors import ConfigError
from holotron.model.loading import resolve
from holotron.model.weights.hub import looks_like_hub_id

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SHARDS = [f"model-0000{n}-of-00003.safetensors" for n in (1, 2, 3)]
INDEX = "model.safetensors.index.json"
FILES = {name: name.encode() * 50 for name in SHARDS} | {
    "config.json": b"{}",
    INDEX: json.dumps({"weight_map": {f"tensor{n}": name for n, name in enumerate(SHARDS)}}).encode(),
}


CASES = {
    "complete": ([*SHARDS, INDEX, "config.json"], []),
    "one-shard": ([SHARDS[0], INDEX, "config.json"], SHARDS[1:]),
    "no-index": ([SHARDS[1], "config.json"], [SHARDS[0], SHARDS[2], INDEX]),
    "configuration-alone": (["config.json"], [*SHARDS, INDEX]),
    "nothing": ([], [*SHARDS, INDEX, "config.json"]),
    "unreachable": ([SHARDS[0], INDEX, "config.json"], []),
}
REVISIONS = ["tagged@v1.0", "tagged@refs/pr/2", "unreachable@v2"]


class Hub(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.sent: list[tuple[str, str]] = []
        self.revisions: set[tuple[str, str]] = set()  # that were asked for


class Handler(BaseHTTPRequestHandler):
    server: Hub

    def do_HEAD(self) -> None:
        self.do_GET(body=False)

    def do_GET(self, body: bool = True) -> None:
        parts = self.path.partition("?")[0].strip("/").split("/")
        repository, name = parts[parts.index("some") + 1], parts[-1]
        headers: dict[str, str] = {}
        if repository == "unreachable":
            self.close_connection = True
            return
        if "resolve" in parts:
            content = FILES[name]
            headers = {"ETag": f'"{hashlib.sha1(content).hexdigest()}"', "X-Repo-Commit": COMMIT}
            if body:
                self.server.sent.append((repository, name))
        elif "tree" in parts:
            entries = [{"type": "file", "path": file, "size": len(FILES[file]), "oid": "0"} for file in FILES]
            content = json.dumps(entries).encode()
        else:
            if "revision" in parts:
                self.server.revisions.add((repository, unquote(name)))
            siblings = [{"rfilename": file} for file in FILES]
            content = json.dumps({"id": f"some/{repository}", "sha": COMMIT, "siblings": siblings}).encode()
        self.send_response(200)
        for key, value in ({"Content-Length": str(len(content))} | headers).items():
            self.send_header(key, value)
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        pass


def cached(home: Path, repository: str, names: list[str]) -> None:
    """As an interrupted download leaves the client's cache."""
    folder = home / "hub" / f"models--some--{repository}"
    snapshot = folder / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(COMMIT)
    for name in names:
        (snapshot / name).write_bytes(FILES[name])


RESOLVE_ALL = """
import sys
from holotron.errors import CheckpointError
from holotron.model.weights.hub import snapshot
for name in sys.argv[1:]:
    try:
        print(snapshot(f"some/{name}"))
    except CheckpointError as error:
        print(error)
"""


@pytest.fixture(scope="module")
def resolved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, str], Hub]]:
    """Every case in one process: the client reads its settings when it is imported."""
    home = tmp_path_factory.mktemp("home")
    for name, (there, _) in CASES.items():
        if there:
            cached(home, name, there)
    hub = Hub()
    threading.Thread(target=hub.serve_forever, daemon=True).start()
    proxies = {f"{kind}_proxy" for kind in ("http", "https", "all")}
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HF_") and k.lower() not in proxies}
    environment |= {
        "HF_HOME": str(home),
        "HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}",
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "PYTHONPATH": str(Path(holotron.__file__).parents[1]),
    }
    done = subprocess.run(
        [sys.executable, "-c", RESOLVE_ALL, *CASES, *REVISIONS],
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    yield dict(zip([*CASES, *REVISIONS], done.stdout.splitlines(), strict=True)), hub
    hub.shutdown()
    hub.server_close()


@pytest.mark.parametrize("case", [name for name in CASES if name != "unreachable"])
def test_what_is_missing_is_fetched_and_nothing_else(resolved: tuple[dict[str, str], Hub], case: str) -> None:
    answers, hub = resolved
    folder = Path(answers[case])
    assert {name: (folder / name).read_bytes() for name in FILES} == FILES
    assert sorted(name for repository, name in hub.sent if repository == case) == sorted(CASES[case][1])


def test_without_a_network_the_error_says_what_is_missing(resolved: tuple[dict[str, str], Hub]) -> None:
    answer = resolved[0]["unreachable"]
    assert answer.startswith(f"cannot download some/unreachable (missing: {SHARDS[1]}, {SHARDS[2]}): ")
    assert "hf download some/unreachable" in answer


def test_a_revision_may_be_named(resolved: tuple[dict[str, str], Hub]) -> None:
    answers, hub = resolved
    assert {("tagged", "v1.0"), ("tagged", "refs/pr/2")} <= hub.revisions
    assert Path(answers["tagged@v1.0"]).name == Path(answers["tagged@refs/pr/2"]).name == COMMIT
    assert answers["unreachable@v2"].startswith(
        "cannot download some/unreachable@v2, and there is no folder of that name"
    )
    assert "hf download some/unreachable --revision v2" in answers["unreachable@v2"]


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("Hcompany/Holo2-8B", True),
        ("Hcompany/Holo2-8B@main", True),
        ("Hcompany/Holo2-8B@refs/pr/2", True),
        ("./model", False),
        ("../model", False),
        ("~/model", False),
        ("a/b/c", False),
        ("Holo2-8B", False),
        ("Hcompany/Holo2-8B@", False),
    ],
)
def test_what_is_taken_for_a_hub_id(text: str, is_one: bool) -> None:
    assert looks_like_hub_id(text) is is_one


@pytest.mark.parametrize("scheme", ["https", "hf"])
def test_an_address_is_told_from_a_folder(scheme: str) -> None:
    with pytest.raises(ConfigError, match="is an address; name a model by its hub id"):
        resolve(f"{scheme}://huggingface.co/Hcompany/Holo2-8B")
