"""The columns of the trajectory store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holotron.rollouts.records import FORMAT
from holotron.storage.tables import Table, Tables, arrow

if TYPE_CHECKING:
    import pyarrow as pa


def schemas() -> tuple[pa.Schema, pa.Schema]:
    """The columns of `episodes` and `steps`."""
    pa = arrow()
    text, number, real, flag = pa.string(), pa.int64(), pa.float64(), pa.bool_()
    observation = pa.struct(
        {
            "image": text,
            "mime": text,
            "width": number,
            "height": number,
            "viewport_width": number,
            "viewport_height": number,
            "url": text,
            "title": text,
            "tabs": pa.list_(text),
            "active_tab": number,
            "note": text,
        }
    )
    costs = {"prompt_tokens": number, "cached_tokens": number, "generated_tokens": number, "images_sent": number}
    episodes = {
        "id": text,
        "suite": text,
        "task": text,
        "seed": number,
        "goal": text,
        "start_url": text,
        "options": text,
        "outcome": text,
        "success": flag,
        "reward": real,
        "answer": text,
        "error": text,
        "attempt": number,
        "started_at": real,
        "seconds": real,
        "steps": number,
        **costs,
        "assisted": flag,
        "final": observation,
    }
    steps = {
        "episode": text,
        "index": number,
        "observation": observation,
        "text": text,
        "reasoning": text,
        "note": text,
        "thought": text,
        "action": text,
        "label": text,
        "author": text,
        "proposed": text,
        "instruction": text,
        "tool_name": text,
        "reply_error": text,
        "reward": real,
        "done": flag,
        **costs,
        "tokens": pa.list_(pa.int32()),
        "logprobs": pa.list_(pa.float32()),
        "versions": pa.list_(pa.int32()),
        "policy_version": number,
        "finish_reason": text,
        "completion_seconds": real,
        "policy_seconds": real,
        "environment_seconds": real,
        "info": text,
    }
    metadata = {"holotron.format": str(FORMAT)}
    return pa.schema(episodes, metadata), pa.schema(steps, metadata)


TABLES = Tables(
    FORMAT,
    Table("episodes", lambda: schemas()[0]),
    Table("steps", lambda: schemas()[1], id="episode"),
    count="steps",
)
