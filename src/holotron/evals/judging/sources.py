"""Cases from what is on disk: runs of ours, and result folders of other people's agents.

    source = read_source(Path("runs/eval"))            # or a folder of WebVoyager's, or of Online-Mind2Web's
    source.kind, len(source.cases)

| kind | what lies there |
|---|---|
| `run` | a run directory of `holotron eval` or `rollout` |
| `webvoyager` | `task<id>/interact_messages.json` and `screenshot<n>.png`, as WebVoyager's own agent writes them |
| `online-mind2web` | `<task id>/result.json` and `trajectory/<n>....png`, both versions of its format |
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holotron.actions import stored_action
from holotron.agent.describe import describe
from holotron.errors import HolotronError, InputError
from holotron.evals.files import read_json
from holotron.evals.judging.cases import Case
from holotron.evals.judging.store import is_judgement
from holotron.rollouts.store import RunReader
from holotron.storage.manifest import MANIFEST
from holotron.types import Outcome

MESSAGES, RESULT, TRAJECTORY = "interact_messages.json", "result.json", "trajectory"


@dataclass(frozen=True, slots=True)
class Source:
    path: Path
    kind: str
    cases: tuple[Case, ...]

    def __post_init__(self) -> None:
        counted = Counter(case.id for case in self.cases)
        if not counted:
            raise InputError(f"there is nothing to judge in {self.path}: no episode is on record")
        if twice := [id for id, times in counted.items() if times > 1]:
            raise InputError(f"{self.path}: {twice[0]} occurs twice among what is to be judged")


def read_source(path: Path) -> Source:
    if not path.is_dir():
        raise InputError(f"there is no folder {path}")
    if is_judgement(path):
        raise InputError(f"{path} holds verdicts; name the run that they are about")
    if (path / MANIFEST).is_file():
        return Source(path, "run", tuple(_run_cases(path)))
    if (path / MESSAGES).is_file():
        return Source(path, "webvoyager", (webvoyager_case(path),))
    if (path / RESULT).is_file():
        return Source(path, "online-mind2web", (mind2web_case(path),))
    folders = sorted((folder for folder in path.iterdir() if folder.is_dir()), key=lambda folder: _natural(folder.name))
    if any((folder / MESSAGES).is_file() for folder in folders):
        return Source(path, "webvoyager", tuple(map(webvoyager_case, _of_tasks(folders))))
    if any((folder / RESULT).is_file() for folder in folders):
        wanted = [folder for folder in folders if (folder / RESULT).is_file() or (folder / TRAJECTORY).is_dir()]
        return Source(path, "online-mind2web", tuple(map(mind2web_case, wanted)))
    raise InputError(
        f"{path} holds nothing to judge: neither a run directory ({MANIFEST}), nor results of WebVoyager "
        f"(task.../{MESSAGES}), nor of Online-Mind2Web (.../{RESULT})"
    )


# ----------------------------------------------------------------------------------------------------------- our runs


def _run_cases(path: Path) -> Iterator[Case]:
    reader = RunReader(path)
    for episode, steps in reader.rows():
        steps = sorted(steps, key=lambda step: step["index"])
        answered = bool(steps) and steps[-1]["tool_name"] == "answer"
        shown = [step["observation"] for step in steps]
        if episode["final"] is not None and not answered:
            shown.append(episode["final"])
        options = json.loads(episode["options"] or "{}")
        yield Case(
            id=episode["id"],
            task=episode["task"],
            goal=episode["goal"],
            answer=episode["answer"] if answered else None,
            screenshots=tuple(reader.picture_path(seen) for seen in shown),
            actions=tuple(_actions(steps)),
            site=str(options.get("site", "")),
            spoiled=f"environment error: {episode['error']}" if episode["outcome"] == Outcome.ENVIRONMENT_ERROR else "",
        )


def _actions(steps: list[dict[str, Any]]) -> Iterator[str]:
    for step in steps:
        if step["action"] is None or step["tool_name"] == "answer":
            continue
        try:
            yield describe(stored_action(json.loads(step["action"])))
        except HolotronError:  # by an older version: as it was written
            yield str(step["action"])


# --------------------------------------------------------------------------------------------------------- WebVoyager


def webvoyager_case(folder: Path) -> Case:
    """A folder of WebVoyager's agent, read as its own judge reads it."""
    name = folder.name.removeprefix("task")
    site = name.rpartition("--")[0]
    shots = sorted((int(found[1]), file) for file in folder.iterdir() if (found := _SCREENSHOT.search(file.name)))
    pictures = tuple(file for _, file in shots)
    file = folder / MESSAGES
    if not file.is_file():
        return Case(name, name, "", None, pictures, site=site, spoiled=f"it has no {MESSAGES}")
    messages = read_json(file)
    if not isinstance(messages, list) or not messages:
        raise InputError(f"{file}: expected a list of messages")
    texts = [_text(message, f"{file}, row {number}") for number, message in enumerate(messages, start=1)]
    if len(texts) == 1:
        return Case(name, name, "", None, pictures, site=site, spoiled="the agent was asked nothing")
    task = re.search(r"Now given a task:(.+?)Please interact with", texts[1], re.DOTALL)
    if task is None:
        raise InputError(f"{file}, row 2: expected 'Now given a task: ... Please interact with ...'")
    said = [text for message, text in zip(messages, texts, strict=True) if message.get("role") == "assistant"]
    actions = [found[1].strip() for text in said if (found := re.search(r"Action:(.+)", text))]
    return Case(
        id=name,
        task=name,
        goal=task[1].strip(),
        answer=_answer(texts[-1]),
        screenshots=pictures,
        actions=tuple(action for action in actions if not action.startswith("ANSWER")),
        site=site,
    )


_SCREENSHOT = re.compile(r"screenshot(\d+)\.png$")


def _answer(last: str) -> str | None:
    """As WebVoyager's judge finds it; where its pattern finds nothing, whatever follows the word."""
    if "Action: ANSWER" not in last:
        return None
    found = re.search(r"ANSWER[; ]+\[?(.[^\]]*)\]?", last)
    return found[1].strip() if found else last.partition("Action: ANSWER")[2].strip(" \n:;")


def _text(message: Any, where: str) -> str:
    content = message.get("content") if isinstance(message, Mapping) else None
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, Mapping))
    raise InputError(f"{where}: expected a message with content")


# ---------------------------------------------------------------------------------------------------- Online-Mind2Web


def mind2web_case(folder: Path) -> Case:
    """`result.json` with `task`, `action_history` and the answer; the second version has one object per action."""
    file, pictures = folder / RESULT, folder / TRAJECTORY
    if not file.is_file():
        return Case(folder.name, folder.name, "", None, (), spoiled=f"it has no {RESULT}")
    result = read_json(file)
    if not isinstance(result, Mapping) or not isinstance(result.get("task"), str):
        raise InputError(f"{file}: expected an object with the task")
    history = result.get("action_history") or []
    if not isinstance(history, list):
        raise InputError(f"{file}: action_history is a list, found {history!r}"[:300])
    if result.get("schema_version") == "online-mind2web-v2":
        for number, step in enumerate(history, start=1):
            if not isinstance(step, Mapping) or not all(isinstance(step.get(k), str) for k in ("action", "screenshot")):
                raise InputError(f"{file}: action_history, row {number}: expected action and screenshot")
        shots = [pictures / Path(step["screenshot"]).name for step in history]
        actions = [step["action"] for step in history[:-1]]  # the last one is the agent's word, not a deed
        answer = result.get("agent_final_answer")
    else:
        found = pictures.iterdir() if pictures.is_dir() else ()
        shots = sorted((path for path in found if re.search(r"\d", path.stem)), key=lambda path: _natural(path.stem))
        actions = [str(action) for action in history]
        answer = result.get("final_result_response")
    id = str(result.get("task_id") or folder.name)
    return Case(id, id, result["task"], str(answer) if answer else None, tuple(shots), tuple(actions))


# --------------------------------------------------------------------------------------------------------------- files


def _of_tasks(folders: list[Path]) -> list[Path]:
    """Folders of tasks, also those an agent died in; not whatever else lies there."""
    return [folder for folder in folders if folder.name.startswith("task") or (folder / MESSAGES).is_file()]


def _natural(name: str) -> tuple[Any, ...]:
    """`task2` before `task10`."""
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name) if part)
