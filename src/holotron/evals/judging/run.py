"""Every case of a source before one judge, several at a time, each verdict on record before the next is counted.

    judged = await judge(read_source(Path("runs/eval")), WebVoyagerJudge(), model)      # the same call again resumes
    judged.folder, judged.figures.overall

Nothing is asked twice: not after a kill -9, not by a second run. The exceptions are cases that the judge's server
failed, and episodes that were played again since; with `again`, also cases it refused or answered without a verdict.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holotron.agent.messages import Message
from holotron.errors import InputError, PolicyError
from holotron.evals.judging.cases import Ask, Case, Decided, Judge, Ruling, Said
from holotron.evals.judging.figures import JudgedFigures, judged_figures
from holotron.evals.judging.model import JudgeModel, Unanswered, Usage
from holotron.evals.judging.sources import Source
from holotron.evals.judging.store import VerdictWriter, config_of, default_folder

FAILURES_IN_A_ROW = 12  # after so many cases without an answer the server is taken to be down


@dataclass(slots=True)
class JudgeProgress:
    total: int
    done: int = 0
    kept: int = 0  # by earlier runs
    successes: int = 0
    undecided: int = 0
    seconds: float = 0.0

    @property
    def per_second(self) -> float:
        return (self.done - self.kept) / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Judged:
    folder: Path
    figures: JudgedFigures
    manifest: dict[str, Any]
    verdicts: dict[str, bool | None]  # by case

    def to_json(self) -> dict[str, Any]:
        return {**self.figures.to_json(), "manifest": self.manifest, "verdicts": self.verdicts}


async def judge(
    source: Source,
    by: Judge,
    model: JudgeModel,
    *,
    out: Path | None = None,
    again: bool = False,
    on_progress: Callable[[JudgeProgress], None] = lambda progress: None,
) -> Judged:
    """Judge what is not judged yet. A judge that cannot be reached ends it; what is done stays."""
    config = config_of(by, model)
    folder = out or default_folder(source.path, config)
    about = {"judged": source.path.resolve().name, "source": source.kind, "cases": len(source.cases)}
    with VerdictWriter(folder, config, **about) as writer:
        writer.forget(source.cases, Decided.FAILED, *((Decided.REFUSED, Decided.MALFORMED) if again else ()))
        await _Hearing(by, model, writer, len(source.cases), on_progress).all(source.cases)
        if model.adapted:
            writer.note(adapted=sorted(model.adapted))
        rows = [writer.rows[case.id] for case in source.cases]
    return Judged(folder, judged_figures(rows), writer.manifest, {row["id"]: row["verdict"] for row in rows})


class _Hearing:
    def __init__(
        self,
        by: Judge,
        model: JudgeModel,
        writer: VerdictWriter,
        total: int,
        on_progress: Callable[[JudgeProgress], None],
    ) -> None:
        self._by, self._model, self._writer, self._tell = by, model, writer, on_progress
        self._progress = JudgeProgress(total)
        self._failures = 0
        self._started = time.monotonic()

    async def all(self, cases: Sequence[Case]) -> None:
        places = asyncio.Semaphore(self._model.parallel)
        for case in cases:
            if (row := self._writer.rows.get(case.id)) is not None:
                self._progress.kept += 1
                self._count(row["verdict"])
        try:
            async with asyncio.TaskGroup() as group:
                for case in cases:
                    if case.id in self._writer.rows:
                        continue
                    await places.acquire()
                    group.create_task(self._one(case)).add_done_callback(lambda task: places.release())
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None  # the first says it all: the server is gone, say

    async def _one(self, case: Case) -> None:
        usage, began = Usage(), time.monotonic()

        async def ask(messages: Sequence[Message]) -> Said:
            said, cost = await self._model.ask(messages, self._by.max_tokens)
            usage.add(cost)
            return said

        ruling = await self._ruling(case, ask)
        await asyncio.to_thread(self._writer.add, case, ruling, usage, time.monotonic() - began)
        self._count(ruling.verdict)
        if ruling.decided is Decided.FAILED:
            self._failures += 1
            if self._failures >= FAILURES_IN_A_ROW:
                raise PolicyError(f"the judge failed {self._failures} times in a row; the last time: {ruling.text}")
        elif usage.requests:
            self._failures = 0

    async def _ruling(self, case: Case, ask: Ask) -> Ruling:
        if case.spoiled:
            return Ruling(None, Decided.SPOILED, case.spoiled)
        try:
            return await self._by.rule(case, ask)
        except Unanswered as why:
            return Ruling(None, Decided.FAILED, str(why))
        except InputError as why:  # a picture that is gone
            return Ruling(None, Decided.SPOILED, str(why))

    def _count(self, verdict: bool | None) -> None:
        progress = self._progress
        progress.done += 1
        progress.successes += verdict is True
        progress.undecided += verdict is None
        progress.seconds = time.monotonic() - self._started
        self._tell(progress)
