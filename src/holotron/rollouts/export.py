"""Trajectories as training data: chat-formatted JSON lines, in any dialect, under any history policy.

    report = export_sft(Path("runs/demo"), Path("sft.jsonl"), make_dialect("compact"), Append())

Each line is one conversation exactly as the agent would have held it live:

    {"id": ..., "messages": [{"role": "user", "content": [{"type": "text", "text": ...}, {"type": "image"}]}, ...],
     "images": ["sft-images/....png", ...], "learn": [2, 4]}

`images` are paths relative to the file, in order of appearance. They lie in a folder beside it that bears its name; the
two can be moved anywhere together. `learn` lists the messages to learn from, so that no reply is learnt twice where
lines overlap: with `append` a line is an episode, with `epoch` a stretch between restarts, with `window` a single turn.
Replies that were refused are left out, and so is everything an agent said in a language of its
own: actions are written anew in the chosen dialect, which is how a script's clicks teach a model to speak. What a
person did in the agent's place stands there as if the agent had said it; `author="person"` learns nothing else, with
the agent's own actions as the past that led there.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from holotron.agent.dialects.base import Dialect
from holotron.agent.events import Author
from holotron.agent.history import History, Turn
from holotron.agent.images import Image
from holotron.agent.messages import Message, to_openai
from holotron.errors import InputError
from holotron.rollouts.recorded import learnable, refuse_held_out_run
from holotron.rollouts.records import Row
from holotron.rollouts.store import RunReader
from holotron.storage.files import NewFile, make_folder, replace_file
from holotron.suites.base import refuse_held_out
from holotron.types import Reply, Task, Trajectory


@dataclass(frozen=True, slots=True)
class ExportReport:
    lines: int
    episodes: int
    replies: int
    skipped: dict[str, str]  # episode -> why


def export_sft(
    run: Path,
    out: Path,
    dialect: Dialect,
    history: History,
    *,
    where: Callable[[Row], bool] = lambda row: bool(row["success"]),
    author: Author | None = None,
    on_episode: Callable[[int], None] | None = None,
) -> ExportReport:
    """Write the episodes of a run that `where` selects (the successful ones, unless told otherwise) to `out`.
    `author`: learn only what the agent did, or only what a person did."""
    reader = RunReader(run)
    refuse_held_out_run(reader)
    pictures = _Pictures(run, out)
    lines = episodes = replies = 0
    skipped: dict[str, str] = {}
    make_folder(out.parent)
    with NewFile(out) as file:
        for trajectory in reader.trajectories(where=where):
            refuse_held_out(f"{run}, episode {trajectory.id}", trajectory.task.suite, trajectory.task.options)
            try:
                parts = conversations(trajectory, dialect, history, author)
                written = [_line(trajectory, *part, pictures) for part in parts]
            except InputError as error:
                skipped[trajectory.id] = str(error)
                continue
            for line in written:
                file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
                replies += len(line["learn"])
            lines += len(written)
            episodes += bool(written)
            if on_episode is not None:
                on_episode(episodes)
    return ExportReport(lines, episodes, replies, skipped)


def conversations(
    trajectory: Trajectory, dialect: Dialect, history: History, author: Author | None = None
) -> Iterator[tuple[list[Message], list[int]]]:
    """(messages, indices of the replies to learn), as few as cover every reply once: a request that the next one
    merely extends is not written by itself."""
    turns, authors = _turns(trajectory, dialect)
    messages: list[Message] = []
    learn: list[int] = []
    for count in range(1, len(turns) + 1):
        request = dialect.messages(trajectory.task, history.view([*turns[: count - 1], _unanswered(turns[count - 1])]))
        answered = dialect.messages(trajectory.task, history.view(turns[:count]))
        if len(answered) == len(request):  # the dialect keeps no replies in its requests
            answered = [*request, Message("assistant", (turns[count - 1].said,))]
        if messages and answered[: len(messages)] != messages:
            if learn:
                yield messages[: learn[-1] + 1], learn
            learn = []
        messages = answered
        if author in (None, authors[count - 1]):
            learn = [*learn, len(messages) - 1]
    if learn:
        yield messages[: learn[-1] + 1], learn


def _turns(trajectory: Trajectory, dialect: Dialect) -> tuple[list[Turn], list[Author]]:
    """What was done, turn by turn, and by whom."""
    turns: list[Turn] = []
    authors: list[Author] = []
    said_before = ""  # by the user, at steps that are left out
    for step in trajectory.steps:
        action = step.reply.action
        said_before = instruction = "\n".join(filter(None, (said_before, step.instruction)))
        if action is None or not learnable(step.info):
            continue
        if action.tool_name not in dialect.actions:
            raise InputError(f"{action.tool_name} is not among the dialect's actions")
        image, screen = dialect.look(step.observation)
        said = dialect.render(action, screen, note=step.reply.note, thought=step.reply.thought)
        reply = Reply(step.reply.completion, step.reply.note, step.reply.thought, action)
        turns.append(
            Turn(len(turns), step.observation, image, screen, reply=reply, said=said, instruction=instruction)
        )  # fmt: skip
        authors.append(step.author)
        said_before = ""
    return turns, authors


def _unanswered(turn: Turn) -> Turn:
    return replace(turn, reply=None, said="")


def _line(trajectory: Trajectory, messages: list[Message], learn: list[int], pictures: _Pictures) -> dict[str, Any]:
    task: Task = trajectory.task
    return {
        "id": trajectory.id,
        "suite": task.suite,
        "task": task.name,
        "messages": [_without_pixels(message) for message in messages],
        "images": [pictures.path(image) for message in messages for image in message.images],
        "learn": learn,
    }


def _without_pixels(message: Message) -> dict[str, Any]:
    # Content is a list in every message, so that the column has one type for Arrow readers.
    content = [
        {"type": "image"} if isinstance(part, Image) else {"type": "text", "text": part} for part in message.parts
    ]
    return to_openai(replace(message, parts=())) | {"content": content}


class _Pictures:
    """The folder beside the export: what the run has is linked, so that it takes no room of its own; what the dialect
    resized, or lies on another file system, is written."""

    def __init__(self, run: Path, out: Path) -> None:
        self._run = run
        self._folder = out.with_name(f"{out.stem}-images")

    def path(self, image: Image) -> str:
        digest = hashlib.sha256(image.data).hexdigest()
        suffix = ".png" if image.mime == "image/png" else ".jpg"
        place = self._folder / f"{digest}{suffix}"
        if not place.exists():
            make_folder(place.parent)
            try:
                os.link(self._run / "images" / digest[:2] / place.name, place)
            except OSError:
                replace_file(place, image.data)
        return f"{self._folder.name}/{place.name}"
