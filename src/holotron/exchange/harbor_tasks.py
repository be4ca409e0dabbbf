"""Suites as Harbor task directories: a folder for each task and seed, with image, instruction, solution and verifier.

    write_tasks("sites", Path("out"), tasks="shop-wish", seeds="0:5")

    shop-wish-3/
        task.toml            limits, resources, where it comes from
        instruction.md       the goal, and how to look and act
        environment/         Dockerfile; `computer`, the agent's hands and eyes; task.json, what is played
        solution/            solve.sh and what the suite's solver did, action by action
        tests/test.sh        writes /logs/verifier/reward.json and reward.txt

The episode lives in a server inside the container that root owns; the agent is another user and has `computer look` and
`computer act`. The state of the application, and the verdict, are out of its reach.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holotron import __version__
from holotron.actions import ACTIONS, DESCRIPTIONS, action_to_json
from holotron.agent.loop import Episode
from holotron.errors import ConfigError
from holotron.exchange.names import folder_name
from holotron.storage.files import make_folder
from holotron.suites.base import Suite, find_suite, parse_seeds
from holotron.types import Outcome, Task

PARTS = Path(__file__).parent / "harbor"
SCHEMA = "1.4"

_DOCKERFILE = """\
FROM python:3.12-slim-bookworm
RUN apt-get update && apt-get install -y --no-install-recommends chromium-headless-shell fonts-dejavu-core \\
    fonts-noto-color-emoji && rm -rf /var/lib/apt/lists/*
# What playing needs and no more: the package's own dependencies hold torch, which nothing here uses.
RUN pip install --no-cache-dir numpy pillow jinja2 pydantic typer rich playwright miniwob pyarrow
{copy}RUN pip install --no-cache-dir --no-deps {package}
RUN useradd --create-home agent && mkdir -p /opt/holotron
COPY task.json /opt/holotron/task.json
COPY computer /usr/local/bin/computer
WORKDIR /home/agent
"""

_INSTRUCTION = """\
{goal}

You do this in a graphical program, by looking at its screen and using mouse and keyboard:

    computer look                     prints how things stand and saves a screenshot beside you (its path is printed)
    computer act '{example}'

`act` prints and saves the same afterwards. Coordinates are pixels, from (0, 0) at the top left of a screen that is
{width} wide and {height} high; if the picture has another size, scale them. There are at most {steps} actions. The task
is over when `"over"` is true.{answer}

Actions:

{actions}
"""

_TEST = """\
#!/bin/bash
# No reward is written where the environment itself has failed: that is nobody's zero.
set -eu
logs="${HOLOTRON_LOGS:-/logs/verifier}"
mkdir -p "$logs"
verdict=$(computer verdict)
printf '%s' "$verdict" > "$logs/reward.json"
printf '%s' "$verdict" | python3 -c 'import json, sys; print(json.load(sys.stdin)["reward"])' > "$logs/reward.txt"
"""

_SOLVE = """\
#!/bin/bash
# What the suite's scripted solver did, action by action.
set -eu
while IFS= read -r action; do
    computer act "$action" > /dev/null
done < "$(dirname "$0")/actions.jsonl"
"""


def write_tasks(
    spec: str,
    out: Path,
    *,
    tasks: str = "all",
    seeds: str = "0:1",
    organisation: str = "holotron",
    package: str = "holotron",
    solve: bool = True,
    on_task: Callable[[Path], None] = lambda folder: None,
) -> list[Path]:
    """Write them all; a folder that is there already is an error, before anything is written."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", organisation):
        raise ConfigError(f"{organisation!r} cannot stand before the slash of a task's name; use letters and digits")
    suite = find_suite(spec, tasks=tasks, seeds=parse_seeds(seeds))
    folders = {task.id: out / folder_name(task.name, task.seed) for task in suite.tasks}
    there = [folder for folder in folders.values() if folder.exists()]
    if there:
        raise ConfigError(f"{there[0]} is there already; choose another folder, or remove it first")
    if solve and suite.solver is None:
        raise ConfigError(f"{spec} has no solver, so tasks get no solution; say --no-solve")
    return asyncio.run(_write(spec, suite, folders, organisation, package, solve, on_task))


async def _write(
    spec: str, suite: Suite, folders: dict[str, Path], organisation: str, package: str, solve: bool,
    on_task: Callable[[Path], None],
) -> list[Path]:  # fmt: skip
    pool = suite.open(1)
    environment = await pool.acquire()
    policy = suite.solver() if solve and suite.solver is not None else None
    try:
        for task in suite.tasks:
            actions: list[dict[str, Any]] = []
            if policy is not None:
                played = await Episode(environment, policy, task, limits=suite.limits).run()
                if played.outcome is not Outcome.SUCCESS:
                    raise ConfigError(f"the solver did not do {task.id}: {played.outcome} {played.error}")
                actions = [action_to_json(step.reply.action) for step in played.steps if step.reply.action is not None]
            seen = await environment.reset(task)
            folder = folders[task.id]
            _write_task(folder, spec, suite, environment.task, seen.viewport, organisation, package, actions)
            on_task(folder)
    finally:
        if policy is not None:
            await policy.close()
        await pool.release(environment)
        await pool.close()
    return list(folders.values())


def _write_task(
    folder: Path, spec: str, suite: Suite, task: Task, viewport: tuple[int, int], organisation: str, package: str,
    actions: list[dict[str, Any]],
) -> None:  # fmt: skip
    """Whole or absent: made beside its place, then renamed."""
    make_folder(folder.parent)
    making = Path(tempfile.mkdtemp(prefix=".making-", dir=folder.parent))
    try:
        environment, tests = making / "environment", making / "tests"
        environment.mkdir()
        tests.mkdir()
        (making / "task.toml").write_text(_toml(folder.name, spec, suite, task, organisation), encoding="utf-8")
        (making / "instruction.md").write_text(_instruction(suite, task, viewport), encoding="utf-8")
        (environment / "Dockerfile").write_text(_dockerfile(environment, package), encoding="utf-8")
        played = {"suite": spec, "task": task.name, "seed": task.seed}
        (environment / "task.json").write_text(json.dumps(played, indent=1) + "\n", encoding="utf-8")
        _script(environment / "computer", (PARTS / "computer").read_text(encoding="utf-8"))
        _script(tests / "test.sh", _TEST)
        if actions:
            (making / "solution").mkdir()
            _script(making / "solution" / "solve.sh", _SOLVE)
            lines = "".join(json.dumps(action) + "\n" for action in actions)
            (making / "solution" / "actions.jsonl").write_text(lines, encoding="utf-8")
        making.chmod(0o755)
        making.rename(folder)
    finally:
        shutil.rmtree(making, ignore_errors=True)


def _toml(name: str, spec: str, suite: Suite, task: Task, organisation: str) -> str:
    """JSON strings and numbers are TOML as well."""
    seconds = suite.limits.seconds
    metadata: dict[str, Any] = {
        "category": "computer-use", "suite": spec, "task": task.name, "seed": task.seed, "holotron": __version__,
    }  # fmt: skip
    if suite.held_out:
        metadata["held_out"] = True  # for measuring: nothing may be trained on it
    sections: dict[str, dict[str, Any]] = {
        "task": {
            "name": f"{organisation}/{name}", "description": f"{spec}: {task.name}, seed {task.seed}",
            "keywords": ["computer-use", "browser"],
        },
        "metadata": metadata,
        "verifier": {"timeout_sec": 120.0, "user": "root"},
        "agent": {"timeout_sec": seconds, "user": "agent"},
        "environment": {"build_timeout_sec": 1800.0, "cpus": 1, "memory_mb": 2048, "storage_mb": 10240},
        "environment.healthcheck": {
            "command": "computer start", "timeout_sec": 200.0, "interval_sec": 5.0, "retries": 3,
        },
    }  # fmt: skip
    lines = [f'schema_version = "{SCHEMA}"']
    for section, values in sections.items():
        lines += ["", f"[{section}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
    return "\n".join(lines) + "\n"


def _instruction(suite: Suite, task: Task, viewport: tuple[int, int]) -> str:
    names = suite.actions
    lines = [f"- `{name}` ({_fields(name)}): {DESCRIPTIONS[name]}" for name in names]
    answer = "\nIf a question was asked, or the task cannot be done, end with the action `answer`."
    first = {"tool_name": names[0]} | ({"x": 80, "y": 120} if names[0] == "click" else {})
    return _INSTRUCTION.format(
        goal=task.goal, example=json.dumps(first), width=viewport[0], height=viewport[1], steps=suite.limits.steps,
        answer=answer if "answer" in names else "", actions="\n".join(lines),
    )  # fmt: skip


def _fields(name: str) -> str:
    """Those that may be left out have a question mark."""
    fields = [field for field in dataclasses.fields(ACTIONS[name]) if field.name not in ("tool_name", "element")]
    optional = {field.name for field in fields if field.default is not dataclasses.MISSING}
    return ", ".join(f"{field.name}{'?' * (field.name in optional)}" for field in fields) or "nothing more"


def _dockerfile(environment: Path, package: str) -> str:
    if not package.endswith(".whl"):
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._\[\],=<>~!-]*", package):
            raise ConfigError(f"{package!r} is neither a requirement nor a wheel")
        return _DOCKERFILE.format(copy="", package=f'"{package}"')
    wheel = Path(package)
    if not wheel.is_file():
        raise ConfigError(f"there is no wheel {package}")
    shutil.copy(wheel, environment / wheel.name)
    return _DOCKERFILE.format(copy=f"COPY {wheel.name} /tmp/\n", package=f"/tmp/{wheel.name}")


def _script(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
