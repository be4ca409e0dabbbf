"""What the page is told of a step and of a session, whether it happens now or was recorded: one shape for both.

Everything in it that pages or models wrote is plain text, and the page shows it as text. Long texts are cut: whoever
wants all of it has the run directory.
"""

from __future__ import annotations

from typing import Any

from holotron.actions import action_to_json
from holotron.agent.describe import describe
from holotron.envs.effects.question import Question
from holotron.evals.album import short
from holotron.storage.tables import Row
from holotron.types import Action, Observation, Reply, Step

LONGEST = 3000  # characters of one text


def seen(observation: Observation, frame: str) -> dict[str, Any]:
    """Of a screen: `frame` is the name of its picture."""
    return {
        "frame": frame,
        "viewport": list(observation.viewport),
        "url": short(observation.url, 500),
        "title": short(observation.title, 300),
        "notice": short(observation.note, 1000),
    }


def said(reply: Reply, seconds: float) -> dict[str, Any]:
    """Of what a policy replied."""
    completion = reply.completion
    return {
        "thought": short(reply.thought, LONGEST),
        "note": short(reply.note, LONGEST),
        "reasoning": short(completion.reasoning, LONGEST),
        "text": short(completion.text, LONGEST),
        "error": short(reply.error, LONGEST),
        "tokens": [completion.prompt_tokens, completion.cached_tokens, completion.generated_tokens],
        "images": completion.images_sent,
        "policy_seconds": round(seconds, 3),
        **meant("action", reply.action),
    }


def meant(name: str, action: Action | None) -> dict[str, Any]:
    """An action, for the page to draw, and in words."""
    if action is None:
        return {name: None, f"{name}_said": ""}
    return {name: action_to_json(action), f"{name}_said": describe(action)}


def asked(question: Question) -> dict[str, Any]:
    return {"summary": question.summary, "kind": str(question.kind), "lines": [list(line) for line in question.lines()]}


def card_of(step: Step, frame: str) -> dict[str, Any]:
    """A step that is over."""
    refused = bool(step.info.get("refused"))
    return {
        **seen(step.observation, frame),
        **said(step.reply, step.policy_seconds),
        **meant("proposed", step.proposed),
        "state": "refused" if refused else "done",
        "author": step.author,
        "instruction": short(step.instruction, LONGEST),
        "refused": short(str(step.info.get("asked", "")), LONGEST) if refused else "",
        "steered": [_note(note) for note in step.info.get("steered", ()) if isinstance(note, dict)],
        "private": bool(step.info.get("private")),
        "environment_seconds": round(step.environment_seconds, 3),
        "reward": step.reward,
    }


def _note(note: dict[str, Any]) -> dict[str, Any]:
    """What a person did beside the steps; texts as texts, whatever a file says."""
    kept = {key: short(str(note[key]), 600) for key in ("what", "text", "question", "reason") if note.get(key)}
    return kept | {key: note[key] for key in ("allow", "seconds") if isinstance(note.get(key), bool | int | float)}


def summary_of(row: Row) -> dict[str, Any]:
    """A session on record, from its row in `episodes`."""
    final = row["final"]
    frame = frame_name(final["image"]) if final is not None else ""
    return {
        "state": "ended",
        "since": row["started_at"] + row["seconds"],
        "suite": row["suite"],
        "task": row["task"],
        "seed": row["seed"],
        "attempt": row["attempt"],
        "goal": short(row["goal"], LONGEST),
        "outcome": row["outcome"],
        "answer": short(row["answer"], LONGEST),
        "error": short(row["error"], LONGEST),
        "assisted": bool(row.get("assisted")),
        "reward": row["reward"],
        "steps": row["steps"],
        "tokens": [row["prompt_tokens"], row["cached_tokens"], row["generated_tokens"]],
        "images": row["images_sent"],
        "started": row["started_at"],
        "seconds": round(row["seconds"], 2),
        "frame": frame,
        "thumb": frame,
        "url": short(final["url"], 500) if final is not None else "",
        "last": "",
    }


def frame_name(path: str) -> str:
    """`images/ab/abcd....jpg` is called `abcd....jpg`."""
    return path.rpartition("/")[2]
