"""The Parquet side of the store: schemas, and shards written whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holotron.errors import MissingDependency
from holotron.rollouts.journal import Episode
from holotron.rollouts.records import FORMAT, Row
from holotron.storage.files import TEMPORARY

if TYPE_CHECKING:
    import pyarrow as pa

EPISODES = "episodes"
STEPS = "steps"


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingDependency.extra("pyarrow", "agent") from None
    return pyarrow


def schemas() -> tuple[pa.Schema, pa.Schema]:
    """The columns of `episodes` and `steps`."""
    pa = _arrow()
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


def shard_path(run: Path, table: str, number: int) -> Path:
    return run / table / f"{number:06d}.parquet"


def shards(run: Path) -> list[int]:
    """Numbers of the shards in place. The episodes file is moved in last, so it is what makes a shard count."""
    return sorted(int(path.stem) for path in (run / EPISODES).glob("*.parquet"))


def write_shard(run: Path, number: int, episodes: Sequence[Episode]) -> None:
    """Both tables of a shard, steps first: a crash between the two leaves a shard that does not count yet."""
    episode_schema, step_schema = schemas()
    _write(shard_path(run, STEPS, number), [row for _, steps in episodes for row in steps], step_schema)
    _write(shard_path(run, EPISODES, number), [episode for episode, _ in episodes], episode_schema)


def _write(path: Path, rows: list[Row], schema: pa.Schema) -> None:
    pa = _arrow()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + TEMPORARY)
    pa.parquet.write_table(pa.Table.from_pylist(rows, schema), temporary, compression="zstd")
    temporary.replace(path)


def read_shard(run: Path, number: int, *, steps: bool = True) -> list[Episode]:
    """The episodes of a shard with their steps (or, faster, without)."""
    pa = _arrow()
    episodes = pa.parquet.read_table(shard_path(run, EPISODES, number)).to_pylist()
    by_episode: dict[str, list[Row]] = {row["id"]: [] for row in episodes}
    if steps:
        for row in pa.parquet.read_table(shard_path(run, STEPS, number)).to_pylist():
            if row["episode"] in by_episode:
                by_episode[row["episode"]].append(row)
    return [(row, by_episode[row["id"]]) for row in episodes]
