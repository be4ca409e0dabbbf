"""A suite as an installable verifiers environment.

    write_package("sites", Path("out"), tasks="short", seeds="0:20")      # out/pyproject.toml, out/holotron_sites/...

    pip install ./out && vf-eval holotron-sites -n 3 --model ... --client.base-url http://127.0.0.1:8000/v1

The package is small: it names the suite and hands on classes of `holotron.exchange.verifiers_env`, so what is played is
what `holotron eval` plays. By verifiers' conventions its module exports a taskset, an environment and a harness.
"""

from __future__ import annotations

import json
from pathlib import Path

from holotron import __version__
from holotron.errors import ConfigError
from holotron.exchange.names import class_prefix, package_name, slug
from holotron.storage.files import make_folder, replace_file
from holotron.suites.base import find_suite, parse_seeds

VERIFIERS = "verifiers>=0.4"

_PYPROJECT = """\
[project]
name = "{dash}"
version = "0.1.0"
description = {about}
requires-python = ">=3.11"
dependencies = ["{verifiers}", "holotron[agent]>={version}"]
tags = ["computer-use", "multimodal", "multi-turn"]

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.hatch.build.targets.wheel]
packages = ["{package}"]
"""

_MODULE = '''\
"""{about}

    vf-eval {dash} -n 3
    from {package} import load_environment; env = load_environment(tasks="all")
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import verifiers.v1 as vf
from holotron.suites.verifiers_bridge.direct_harness import DirectHarness
from holotron.exchange.verifiers_env import SuiteConfig, SuiteEnv, SuiteEnvConfig, SuiteTask, load_tasks

__all__ = ["DirectHarness", "{prefix}Taskset", "SuiteEnv", "load_environment"]


class {prefix}Config(SuiteConfig):
    suite: str = {suite}
    tasks: str = {tasks}
    seeds: str = {seeds}
    dialect: str = {dialect}


class {prefix}Taskset(vf.Taskset[SuiteTask, {prefix}Config]):
    def load(self) -> Iterable[SuiteTask]:
        return load_tasks(self.config)


def load_environment(**taskset: Any) -> SuiteEnv:
    """The environment with these settings of its taskset: tasks, seeds, dialect."""
    return SuiteEnv(SuiteEnvConfig(taskset={{"id": "{dash}", **taskset}}))
'''

_README = """\
# {dash}

{about}

An environment for [verifiers](https://github.com/PrimeIntellect-ai/verifiers): multi-turn, a screenshot in each turn.

    pip install .
    vf-eval {dash} -n 3 --model MODEL --client.base-url http://127.0.0.1:8000/v1 --client.api-key-var ANY

Settings: `--env.taskset.tasks`, `--env.taskset.seeds`, `--env.taskset.dialect`, `--env.sessions`.
{warning}"""


def write_package(
    spec: str, out: Path, *, tasks: str = "all", seeds: str = "0:1", name: str = "", dialect: str = "holotron"
) -> Path:
    """Write the package into `out`, which must be new or empty; gives the folder back."""
    suite = find_suite(spec, tasks=tasks, seeds=parse_seeds(seeds))  # refuses what is not there
    dash = (name or f"holotron-{slug(spec)}").lower().replace("_", "-")
    package = package_name(dash)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out} is there already and not empty; choose another folder")
    about = f"Computer-use tasks of the holotron suite {spec}: {len({task.name for task in suite.tasks})} tasks."
    warning = ""
    if suite.held_out:
        warning = "\nThis suite is held out for measuring. **Nothing may be trained on it.**\n"
    values = {
        "dash": dash, "package": package, "prefix": class_prefix(package), "verifiers": VERIFIERS,
        "version": __version__, "warning": warning,
    }  # fmt: skip
    quoted = {"suite": spec, "tasks": tasks, "seeds": seeds, "dialect": dialect}
    files = {
        "pyproject.toml": _PYPROJECT.format(about=json.dumps(about), **values),
        "README.md": _README.format(about=about, **values),
        f"{package}/__init__.py": _MODULE.format(
            about=about.replace("\\", "/").replace('"""', "'''"),
            **values,
            **{key: repr(value) for key, value in quoted.items()},
        ),
    }
    for path, text in files.items():
        make_folder((out / path).parent)
        replace_file(out / path, text.encode())
    return out
