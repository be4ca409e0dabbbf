"""A stranger's program, checked with `mypy --strict` against the package as it is installed: the public API is typed
completely, and what it returns is never Any."""

from __future__ import annotations

import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

PROGRAM = '''\
"""Everything of the public API that a program usually touches."""

import asyncio
from pathlib import Path
from typing import Any

import holotron
from holotron import errors, types
from pydantic import BaseModel


class Place(BaseModel):
    x: int
    y: int


class Middle:
    """A policy of our own; it is its own session."""

    @property
    def name(self) -> str:
        return "middle"

    def describe(self) -> dict[str, Any]:
        return {}

    async def start(self, task: holotron.Task, environment: holotron.Environment | None = None) -> "Middle":
        return self

    async def act(self, seen: types.Observation, *, feedback: str = "", must_answer: bool = False) -> types.Reply:
        width, height = seen.viewport
        return types.Reply(types.Completion(""), action=types.Click(width // 2, height // 2))

    async def close(self) -> None:
        pass


def one_task(policy: holotron.Policy) -> str:
    secret = holotron.Secret("password", "x", hosts=("shop.example",))
    try:
        result = holotron.run("Buy it.", url="https://shop.example", policy=policy, secrets=[secret], steps=3)
    except errors.HolotronError as error:
        return f"{error.exit_code}"
    reveal_type(result)
    for step in result.steps:
        print(step.reply.thought, step.reward)
    return result.answer or result.outcome.value


async def suites(out: Path) -> float:
    evaluation = await holotron.evaluate_async("miniwob", out=out, view=holotron.View(scale=2.0))
    reveal_type(evaluation)
    await holotron.rollout_async("miniwob", out=out)
    reveal_type(evaluation.scores.mean_success)
    return evaluation.scores.mean_success or 0.0


def talk(picture: bytes) -> str:
    config = holotron.EngineConfig(kv_tokens=4096)
    with holotron.Model("tiny", config=config) as model:
        reply = model.chat("Where?", images=[picture], sampling=model.sampling(max_tokens=8))
        reveal_type(reply)
        for part in model.stream("Where?"):
            print(part.content)
        with model.session() as session:
            session.chat("Here.")
            reveal_type(session.chat("And where exactly?", schema=Place).parsed)
            reveal_type(session.fork())
        return reply.content


def network() -> int:
    model, processor = holotron.load_model("tiny")
    reveal_type(model)
    reveal_type(processor)
    return holotron.preset("tiny").decoder.hidden


if __name__ == "__main__":
    one_task(Middle())
    asyncio.run(suites(Path("runs")))
    talk(b"")
    network()
'''

# Libraries of others are left out: they take a minute to read and are not what is asked about.
CONFIG = """\
[mypy]
strict = true
cache_dir = {cache}
[mypy-torch.*,transformers.*,PIL.*,numpy.*,pandas.*,pyarrow.*,playwright.*,openai.*,fastapi.*,httpx.*,llguidance.*,triton.*]
follow_imports = skip
ignore_missing_imports = true
"""


def checked(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    """mypy in an environment that has this package installed: its own sources are then not what is reported."""
    if not (folder / "venv").exists():
        venv.create(folder / "venv", with_pip=False)
        site = next((folder / "venv" / "lib").glob("python*/site-packages"))
        others = next(path for path in sys.path if path.endswith("site-packages"))
        (site / "installed.pth").write_text(f"{ROOT / 'src'}\n{others}\n")
    (folder / "mypy.ini").write_text(CONFIG.format(cache=folder / "cache"))
    (folder / "program.py").write_text(program)
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "program.py"]
    python = ["--python-executable", str(folder / "venv" / "bin" / "python")]
    return subprocess.run([*command, *python], cwd=folder, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.slow
def test_a_program_passes_mypy_strict(tmp_path: Path) -> None:
    done = checked(tmp_path, PROGRAM)
    assert done.returncode == 0, done.stdout + done.stderr
    shown = re.findall(r'Revealed type is "([^"]*)"', done.stdout)
    assert len(shown) == PROGRAM.count("reveal_type(")
    assert not [kind for kind in shown if "Any" in kind]

    wrong = checked(
        tmp_path, PROGRAM.replace("steps=3", 'steps="three"').replace("return reply.content", "return reply")
    )
    assert wrong.stdout.count(" error: ") == 2, wrong.stdout
