"""Trajectories as rows: the columns of the store, and the way there and back.

An episode is one row of `episodes`, each of its steps one row of `steps`; they join on the episode's id. Nested things
that no query needs (task options, step info) are JSON text. Images are named by path, see `pictures`. Logprobs are
stored as 32-bit floats, which is what engines compute them in.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from holotron.actions import action_to_json, stored_action
from holotron.storage.tables import Row
from holotron.types import Action, Completion, Observation, Outcome, Reply, Step, Task, Trajectory

FORMAT = 1
LONGEST_TEXT = 4000  # characters of what a page says about itself; dialects show the first 500 at most

BROKEN = (Outcome.ENVIRONMENT_ERROR, Outcome.POLICY_ERROR)
NO_VERDICT = (*BROKEN, Outcome.UNSCORED)  # outcomes that do not say whether the task was done

KeepImage = Callable[[Observation], str]  # stores the picture, returns its path
LoadImage = Callable[[str], bytes]


def to_rows(trajectory: Trajectory, keep: KeepImage) -> tuple[Row, list[Row]]:
    """One episode row and its step rows; `keep` is called for every screenshot."""
    task = trajectory.task
    final = trajectory.final
    episode: Row = {
        "id": trajectory.id,
        "suite": task.suite,
        "task": task.name,
        "seed": task.seed,
        "goal": task.goal,
        "start_url": task.start_url,
        "options": json.dumps(dict(task.options)),
        "outcome": str(trajectory.outcome),
        # What broke is neither a success nor a failure, and earned nothing that one could learn from: no value, not 0.
        "success": None if trajectory.outcome in NO_VERDICT else trajectory.outcome is Outcome.SUCCESS,
        "reward": None if trajectory.outcome in BROKEN else float(trajectory.reward),
        "answer": trajectory.answer,
        "error": bounded(trajectory.error),
        "attempt": trajectory.attempt,
        "started_at": trajectory.started_at,
        "seconds": trajectory.seconds,
        "steps": len(trajectory.steps),
        "prompt_tokens": sum(step.reply.completion.prompt_tokens for step in trajectory.steps),
        "cached_tokens": sum(step.reply.completion.cached_tokens for step in trajectory.steps),
        "generated_tokens": sum(step.reply.completion.generated_tokens for step in trajectory.steps),
        "images_sent": sum(step.reply.completion.images_sent for step in trajectory.steps),
        "assisted": trajectory.assisted,
        "final": None if final is None else _observation_row(final, keep),
    }
    return _storable(episode), [_storable(_step_row(trajectory.id, step, keep)) for step in trajectory.steps]


def from_rows(episode: Mapping[str, Any], steps: Iterable[Mapping[str, Any]], load: LoadImage) -> Trajectory:
    """The inverse of `to_rows`."""
    task = Task(
        suite=episode["suite"],
        name=episode["task"],
        goal=episode["goal"],
        seed=episode["seed"],
        start_url=episode["start_url"],
        options=json.loads(episode["options"]),
    )
    ordered = sorted(steps, key=lambda row: row["index"])
    final = episode["final"]
    return Trajectory(
        id=episode["id"],
        task=task,
        steps=tuple(_step(row, load) for row in ordered),
        outcome=Outcome(episode["outcome"]),
        reward=episode["reward"] or 0.0,
        answer=episode["answer"],
        error=episode["error"],
        attempt=episode["attempt"],
        started_at=episode["started_at"],
        seconds=episode["seconds"],
        final=None if final is None else _observation(final, load),
        assisted=bool(episode.get("assisted")),  # older runs do not say; nobody could
    )


def bounded(text: str) -> str:
    """Text that a page chooses (title, address, dialog), cut to a length that a record can carry, with a mark."""
    if len(text) <= LONGEST_TEXT:
        return text
    return f"{text[:LONGEST_TEXT]}… [cut: {len(text)} characters]"


def _storable(value: Any) -> Any:
    """Pages can hold text that is no valid Unicode (half of a surrogate pair); files cannot."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {key: _storable(item) for key, item in value.items()}
    return [_storable(item) for item in value] if isinstance(value, list) else value


# ------------------------------------------------------------------------------------------------------------- steps


def _step_row(episode: str, step: Step, keep: KeepImage) -> Row:
    reply, completion = step.reply, step.reply.completion
    action = reply.action
    return {
        "episode": episode,
        "index": step.index,
        "observation": _observation_row(step.observation, keep),
        "text": completion.text,
        "reasoning": completion.reasoning,
        "note": reply.note,
        "thought": reply.thought,
        "action": _action_row(action),
        "label": _action_row(reply.label),
        "author": step.author,
        "proposed": _action_row(step.proposed),
        "instruction": step.instruction,
        "tool_name": None if action is None else action.tool_name,
        "reply_error": reply.error,
        "reward": float(step.reward),
        "done": step.done,
        "prompt_tokens": completion.prompt_tokens,
        "cached_tokens": completion.cached_tokens,
        "generated_tokens": completion.generated_tokens,
        "images_sent": completion.images_sent,
        "tokens": list(completion.tokens),
        "logprobs": list(completion.logprobs),
        "versions": list(completion.versions),
        "policy_version": completion.policy_version,
        "finish_reason": completion.finish_reason,
        "completion_seconds": completion.seconds,
        "policy_seconds": step.policy_seconds,
        "environment_seconds": step.environment_seconds,
        "info": json.dumps(dict(step.info), default=str),
    }


def _action_row(action: Action | None) -> str | None:
    return None if action is None else json.dumps(action_to_json(action), ensure_ascii=False)


def _action(written: str | None) -> Action | None:
    return None if written is None else stored_action(json.loads(written))


def _step(row: Mapping[str, Any], load: LoadImage) -> Step:
    completion = Completion(
        text=row["text"],
        reasoning=row["reasoning"],
        prompt_tokens=row["prompt_tokens"],
        cached_tokens=row["cached_tokens"],
        generated_tokens=row["generated_tokens"],
        images_sent=row["images_sent"],
        tokens=tuple(row["tokens"]),
        logprobs=tuple(row["logprobs"]),
        versions=tuple(row.get("versions") or ()),  # runs recorded before there was this column have none
        policy_version=row["policy_version"],
        finish_reason=row["finish_reason"],
        seconds=row["completion_seconds"],
    )
    reply = Reply(
        completion=completion,
        note=row["note"],
        thought=row["thought"],
        action=_action(row["action"]),
        error=row["reply_error"],
        label=_action(row.get("label")),  # older runs have no labels, and nobody but the agent acted in them
    )
    return Step(
        index=row["index"],
        observation=_observation(row["observation"], load),
        reply=reply,
        reward=row["reward"],
        done=row["done"],
        policy_seconds=row["policy_seconds"],
        environment_seconds=row["environment_seconds"],
        info=json.loads(row["info"]),
        author=row.get("author") or "agent",
        proposed=_action(row.get("proposed")),
        instruction=row.get("instruction") or "",
    )


def _observation_row(observation: Observation, keep: KeepImage) -> Row:
    return {
        "image": keep(observation),
        "mime": observation.mime,
        "width": observation.image_size[0],
        "height": observation.image_size[1],
        "viewport_width": observation.viewport[0],
        "viewport_height": observation.viewport[1],
        "url": bounded(observation.url),
        "title": bounded(observation.title),
        "tabs": [bounded(title) for title in observation.tabs],
        "active_tab": observation.active_tab,
        "note": bounded(observation.note),
    }


def _observation(row: Mapping[str, Any], load: LoadImage) -> Observation:
    return Observation(
        image=load(row["image"]),
        mime=row["mime"],
        image_size=(row["width"], row["height"]),
        viewport=(row["viewport_width"], row["viewport_height"]),
        url=row["url"],
        title=row["title"],
        tabs=tuple(row["tabs"]),
        active_tab=row["active_tab"],
        note=row["note"],
    )
