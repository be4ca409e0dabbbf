"""How long a user waits for a server: from the command to the first answer of /health and to the first token.

    python benchmarks/server_start.py [--model tiny] [--rounds 5]

Importing torch is most of it and not the server's doing, so that is timed as well, in turns with the server, and the
difference is told.
"""

from __future__ import annotations

import argparse
import socket
import statistics
import subprocess
import sys
import time
from typing import Any

import httpx


def import_torch() -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    return time.perf_counter() - started


def start(model: str, port: int) -> tuple[float, float]:
    """Seconds to a healthy server, and to the first token."""
    url = f"http://127.0.0.1:{port}"
    started = time.perf_counter()
    words = [sys.executable, "-m", "holotron.cli.main", "serve", model, "--port", str(port)]
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not _healthy(url):
            if server.poll() is not None:
                raise SystemExit(f"the server ended with status {server.returncode}")
            time.sleep(0.02)
        ready = time.perf_counter() - started
        body: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1}
        httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60).raise_for_status()
        return ready, time.perf_counter() - started
    finally:
        server.terminate()
        server.wait(30)


def _healthy(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    rows = []
    for _ in range(args.rounds):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        rows.append((import_torch(), *start(args.model, port)))
        torch_alone, ready, token = rows[-1]
        print(f"import torch {torch_alone:.2f} s, healthy {ready:.2f} s, first token {token:.2f} s", flush=True)
    middle = [statistics.median(column) for column in zip(*rows, strict=True)]
    print(f"median: healthy {middle[1] - middle[0]:.2f} s and first token {middle[2] - middle[0]:.2f} s after what "
          f"importing torch takes ({middle[0]:.2f} s)")  # fmt: skip


if __name__ == "__main__":
    main()
