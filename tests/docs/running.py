"""Runs the blocks of one page in a folder of its own, in order, as a reader would.

Bash blocks are scripts with `holotron` and `python` of this environment on the path; Python blocks of a page share one
namespace, in this process; SQL is duckdb's. Port 8000 becomes a free one throughout the page. The folder holds
`page.png`, a screenshot to ask about.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import json
import os
import re
import socket
import subprocess
import sys
import time
import types
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from tests import warm
from tests.docs.snippets import ROOT, Block

SECONDS = 240


class Page:
    """Where the blocks of one page are run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = _free_port()
        self.names: dict[str, Any] = {"__name__": "snippet"}
        self._servers: list[subprocess.Popen[bytes]] = []
        tools = folder / ".tools"
        tools.mkdir()
        for name, program in (("holotron", warm.holotron()), ("python", sys.executable)):
            (tools / name).write_text(f'#!/bin/sh\nexec "{program}" "$@"\n')
            (tools / name).chmod(0o755)
        self.environment = os.environ | {
            "PATH": f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "OMP_NUM_THREADS": "1",
            "COLUMNS": "120",
        }
        _screenshot().save(folder / "page.png")

    def run(self, block: Block) -> None:
        text = block.small.replace(":8000", f":{self.port}").replace("--port 8000", f"--port {self.port}")
        if block.mark.startswith("file "):
            path = self.folder / block.mark.removeprefix("file ")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif block.mark == "run in background":
            self._serve(text)
        elif block.language == "bash":
            self._script(block, text)
        elif block.language == "python":
            self._python(block, text)
        else:
            import duckdb

            with contextlib.chdir(self.folder):
                duckdb.sql(text).fetchall()

    def _script(self, block: Block, text: str) -> None:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, f"{block}\n{text}\n{done.stdout}\n{done.stderr}"

    def _python(self, block: Block, text: str) -> None:
        code = compile(text, str(block), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        with contextlib.chdir(self.folder):
            result = types.FunctionType(code, self.names)()
            if inspect.iscoroutine(result):
                asyncio.run(result)

    def _serve(self, text: str) -> None:
        log = self.folder / "server.log"
        with log.open("wb") as file:
            server = subprocess.Popen(
                ["bash", "-c", f"exec {text.strip()} --port {self.port}"],
                cwd=self.folder,
                env=self.environment,
                stdout=file,
                stderr=file,
            )
        self._servers.append(server)
        deadline = time.monotonic() + SECONDS
        asked = re.search(r"--replicas (\d+)", text)
        wanted = int(asked[1]) if asked else 0
        while True:
            with contextlib.suppress(OSError):
                ready = json.load(urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health/ready", timeout=5))
                replicas = ready.get("replicas", {})  # one whose process has not said where it is is not listed yet
                if set(replicas.values()) <= {"ready"} and len(replicas) >= wanted:
                    return
            assert server.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)

    def close(self) -> None:
        for server in self._servers:
            server.terminate()
        for server in self._servers:
            server.wait(timeout=60)


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[Page]:
    page = Page(folder)
    try:
        yield page
    finally:
        page.close()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _screenshot() -> Image.Image:
    image = Image.new("RGB", (160, 160), "white")
    ImageDraw.Draw(image).rectangle((30, 60, 130, 100), fill="gold", outline="black")
    ImageDraw.Draw(image).text((60, 72), "Search", fill="black")
    return image
