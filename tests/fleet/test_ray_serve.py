"""The fleet as a Ray Serve application, with a real Serve: its cluster has the replica,
and sessions go through its proxy."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.fleet.playing import KEY, wait_until_answers


def test_sessions_through_serve(ray_cluster: str, ray_folder: Path) -> None:
    serve = pytest.importorskip("ray.serve")
    from holotron.fleet.ray_serve import application

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "fleet.key": KEY,
        "fleet.folder": str(ray_folder / "moving"),
        "fleet.journal": str(ray_folder / "journal"),
        "memory.sessions": 4,
        "memory.context": 1024,
    }
    url = f"http://127.0.0.1:{port}"

    def say(text: str, **more: Any) -> Any:
        body = {"messages": [{"role": "user", "content": text}], "max_tokens": 4, "session_id": "s", **more}
        answer = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60)
        assert answer.status_code == 200, answer.text
        return answer.json()

    serve.start(http_options={"host": "127.0.0.1", "port": port})
    try:
        serve.run(application("tiny", 1, settings), name="holotron", route_prefix="/")
        wait_until_answers(f"{url}/health", 120)  # Serve is ready before the replica is
        assert say("one", session_open=True)["session"]["turns"] == 1
        assert say("two")["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
        listed = httpx.get(f"{url}/v1/sessions", timeout=60).json()["data"]
        assert [row["replica"] for row in listed] == ["0"]
        (row,) = httpx.get(f"{url}/fleet/replicas", headers={"authorization": f"Bearer {KEY}"}).json()["replicas"]
        replica = psutil.Process(row["pid"])
    finally:
        serve.shutdown()
    replica.wait(30)  # it ends with the application, not only with the cluster
