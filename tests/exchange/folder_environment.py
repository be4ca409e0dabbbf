"""A Harbor environment without a container: a folder stands for its file system. Runs beside Harbor, for the tests.

Everything but the container is Harbor's own: it uploads, checks the health, has its oracle play the solution, runs the
verifier and reads the reward. Paths of the container are rewritten to lie in the folder.
"""

import asyncio
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from harbor.environments.base import BaseEnvironment, ExecResult

IN_CONTAINER = re.compile(r"(?<![\w./-])/(tests|logs|solution|home|opt|var)\b")


class FolderEnvironment(BaseEnvironment):
    @staticmethod
    def type() -> str:
        return "folder"

    def _validate_definition(self) -> None:
        assert (self.environment_dir / "Dockerfile").exists()

    async def start(self, force_build: bool) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="holotron-harbor-"))
        for name in (
            "tests",
            "logs/agent",
            "logs/verifier",
            "logs/artifacts",
            "solution",
            "home/agent",
            "opt/holotron",
        ):
            (self.root / name).mkdir(parents=True)
        (self.root / "bin").mkdir()
        shutil.copy(self.environment_dir / "computer", self.root / "bin" / "computer")
        shutil.copy(self.environment_dir / "task.json", self.root / "opt" / "holotron" / "task.json")

    async def stop(self, delete: bool) -> None:
        for process in Path("/proc").glob("[0-9]*"):
            line = (process / "cmdline").read_bytes() if (process / "cmdline").exists() else b""
            if b"episode_server" in line and str(self.root).encode() in line:
                os.kill(int(process.name), 15)
        shutil.rmtree(self.root, ignore_errors=True)

    def _here(self, path: Any) -> Path:
        return self.root / str(path).lstrip("/")

    async def upload_file(self, source_path: Any, target_path: str) -> None:
        self._here(target_path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source_path, self._here(target_path))

    async def upload_dir(self, source_dir: Any, target_dir: str) -> None:
        shutil.copytree(source_dir, self._here(target_dir), dirs_exist_ok=True)

    async def download_file(self, source_path: str, target_path: Any) -> None:
        shutil.copy(self._here(source_path), target_path)

    async def download_dir(self, source_dir: str, target_dir: Any) -> None:
        shutil.copytree(self._here(source_dir), target_dir, dirs_exist_ok=True)

    async def exec(
        self, command: str, cwd: Any = None, env: Any = None, timeout_sec: Any = None, user: Any = None, **more: Any
    ) -> ExecResult:
        process = await asyncio.create_subprocess_exec(
            "bash", "-c", IN_CONTAINER.sub(rf"{self.root}/\1", command), cwd=self.root / "home" / "agent",
            env=os.environ | (env or {}) | {
                "HOLOTRON_TASK": f"{self.root}/opt/holotron/task.json",
                "HOLOTRON_STATE": f"{self.root}/var/lib/holotron",
                "HOLOTRON_LOGS": f"{self.root}/logs/verifier", "PATH": f"{self.root}/bin:{os.environ['PLAYING_PATH']}",
            },
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        out, error = await asyncio.wait_for(process.communicate(), timeout_sec or 300)
        return ExecResult(stdout=out.decode(), stderr=error.decode(), return_code=process.returncode or 0)
