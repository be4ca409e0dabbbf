"""Verdicts on disk, beside the run they are about: one folder per judge, so that judges can be compared.

    run/judgements/webvoyager-gpt-4o-1f3a9c20/
      manifest.json                 protocol, hash of its prompts, screenshots, model, temperature, what was judged
      verdicts/000000.parquet       one row a case        select * from 'run/judgements/*/verdicts/*.parquet'
      journal/000001.jsonl          verdicts not yet in a shard (gone when the judge is done)

A verdict is on record when `add` returns. Journal, shards and manifest are those of `holotron.storage`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from holotron.errors import InputError
from holotron.evals.judging.cases import Case, Decided, Judge, Ruling
from holotron.evals.judging.model import JudgeModel, Usage
from holotron.quoting import valid
from holotron.storage.manifest import read_manifest
from holotron.storage.store import ShardedStore, read_records
from holotron.storage.tables import Row, Table, Tables, arrow

FOLDER = "judgements"
KIND = "judge"
LONGEST_TEXT = 100_000


def schema() -> Any:
    pa = arrow()
    text, number = pa.string(), pa.int64()
    return pa.schema({
        "id": text, "task": text, "site": text, "fingerprint": text,
        "verdict": pa.bool_(),  # null: undecided
        "decided": text, "text": text, "notes": text, "screenshots": number,
        "requests": number, "prompt_tokens": number, "generated_tokens": number, "seconds": pa.float64(),
    })  # fmt: skip


TABLES = Tables(1, Table("verdicts", schema))


def config_of(judge: Judge, model: JudgeModel) -> dict[str, Any]:
    """What a verdict depends on."""
    return {**judge.describe(), **model.describe(), "max_tokens": model.max_tokens or judge.max_tokens}


def default_folder(source: Path, config: Mapping[str, Any]) -> Path:
    """Beside what is judged; another configuration is another folder."""
    digest = hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:8]
    words = re.sub(r"[^A-Za-z0-9.]+", "-", f"{config['protocol']}-{config['model']}").strip("-.")[:80]
    return source / FOLDER / f"{words}-{digest}"


class VerdictWriter:
    """Creates a folder of verdicts, or takes up one that was interrupted."""

    def __init__(self, folder: Path, config: Mapping[str, Any], **about: Any) -> None:
        manifest = {"kind": KIND, "config": dict(config), **about}
        self._store = ShardedStore(folder, TABLES, manifest, shard_records=256, summary=_kept)

    @property
    def manifest(self) -> dict[str, Any]:
        return self._store.manifest

    @property
    def rows(self) -> Mapping[str, Row]:
        return self._store.finished

    def add(self, case: Case, ruling: Ruling, usage: Usage, seconds: float) -> None:
        self._store.append({
            "id": case.id, "task": case.task, "site": case.site, "fingerprint": case.fingerprint(),
            "verdict": ruling.verdict, "decided": str(ruling.decided), "text": _storable(ruling.text),
            "notes": json.dumps(dict(ruling.notes)), "screenshots": ruling.screenshots,
            "requests": usage.requests, "prompt_tokens": usage.prompt_tokens,
            "generated_tokens": usage.generated_tokens, "seconds": seconds,
        })  # fmt: skip

    def note(self, **about: Any) -> None:
        """Something else that the manifest should say."""
        self._store.update_manifest(**about)

    def forget(self, cases: Iterable[Case], *decided: Decided) -> None:
        """Take verdicts of these kinds off, and those on cases that have changed since, so that they are made again."""
        now = {case.id: case.fingerprint() for case in cases}
        changed = {id for id, row in self.rows.items() if now.get(id, row["fingerprint"]) != row["fingerprint"]}
        self._store.forget(changed | {id for id, row in self.rows.items() if row["decided"] in decided})

    def close(self) -> None:
        self._store.close()

    def __enter__(self) -> VerdictWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _kept(row: Row) -> Row:
    """What stays in memory of a verdict: not the judge's words."""
    return {name: value for name, value in row.items() if name not in ("text", "notes")}


def _storable(text: str) -> str:
    """Models can say half of a surrogate pair, files cannot; and nobody reads more than this of a reply gone wild."""
    return valid(text[:LONGEST_TEXT])


def is_judgement(folder: Path) -> bool:
    try:
        return read_manifest(folder, TABLES.format).get("kind") == KIND
    except InputError:
        return False


def read_verdict_rows(folder: Path) -> tuple[dict[str, Any], list[Row]]:
    """The manifest and the rows of a folder of verdicts."""
    if not is_judgement(folder):
        raise InputError(f"{folder} is no folder of verdicts, as `holotron judge` writes them")
    rows = [row for row, _ in read_records(folder, TABLES)]
    return read_manifest(folder, TABLES.format), rows
