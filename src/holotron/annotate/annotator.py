"""Asking: every item of a source once, several questions at a time, each answer on record before the next is counted.

    report = await annotate(source, "point", [policy], Path("labels"), Settings(samples=5), wishes)

Confidence. One model, several samples: the share of its answers that agree on the label. Two models: the label is the
first one's, the confidence the share of the second one's answers that agree with it. One model asked once: none.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from holotron.agent.dialects.base import Dialect, Output
from holotron.agent.messages import Message
from holotron.annotate.agreement import Rule, Value, settle, support
from holotron.annotate.items import (
    Item,
    Kind,
    Wishes,
    is_run,
    items_of_picture,
    items_of_run,
    open_picture,
    pictures,
)
from holotron.annotate.questions import Question, instructions_request, read_instructions
from holotron.annotate.store import LabelWriter, Row, make_row
from holotron.errors import ConfigError, InputError
from holotron.storage.files import replace_json
from holotron.types import Completion, Observation

INSTRUCTIONS = "instructions"  # folder: what a model proposed to ask about each picture


class Labeller(Protocol):
    """A model-backed policy, as far as it is needed here."""

    @property
    def name(self) -> str: ...

    @property
    def dialect(self) -> Dialect: ...

    def describe(self) -> dict[str, Any]: ...

    async def sample(
        self, messages: Sequence[Message], output: Output, *, n: int, temperature: float, seed: int
    ) -> list[Completion]: ...


@dataclass(frozen=True, slots=True)
class AnnotationSettings:
    samples: int = 1  # answers of each model
    temperature: float = 0.7  # of several answers; a single one is the most likely
    seed: int = 0
    generate: int = 0  # instructions for each picture that a model thinks up, where none are given
    rule: Rule = field(default_factory=Rule)
    parallel: int = 8  # questions at a time

    def __post_init__(self) -> None:
        if self.samples < 1 or self.parallel < 1 or self.generate < 0:
            raise ConfigError("samples and parallel must be at least 1, generate at least 0")


@dataclass(slots=True)
class AnnotationSummary:
    labelled: int = 0  # by this run
    kept: int = 0  # by earlier runs
    unreadable: int = 0  # of the new ones: no answer could be read
    broken: dict[str, str] = field(default_factory=dict)  # pictures
    seconds: float = 0.0

    @property
    def labels_per_second(self) -> float:
        return self.labelled / self.seconds if self.seconds else 0.0


def config_of(source: Path, kind: Kind, labellers: Sequence[Labeller], settings: AnnotationSettings) -> dict[str, Any]:
    """What labels depend on, for the manifest; not where a model is served."""
    asked = {key: value for key, value in asdict(settings).items() if key != "parallel"}
    models = [{key: value for key, value in one.describe().items() if key != "base_url"} for one in labellers]
    return {"source": str(source), "label": kind, "models": models, "settings": asked}


def count_items(source: Path, kind: Kind, wishes: Wishes, settings: AnnotationSettings) -> tuple[int, int]:
    """How many labels a source makes, and how many pictures they show. With generated instructions: at most."""
    if is_run(source):
        items = list(items_of_run(source, kind, wishes))
        return _some(len(items)), len({path for item in items for path in item.images})
    found = pictures(source)
    if kind == "caption":
        return len(found), len(found)
    counts = [len(wishes.of(path.relative_to(source).as_posix())) or settings.generate for path in found]
    return _some(sum(counts)), len(found)


def _some(items: int) -> int:
    if not items:
        raise InputError("there is nothing to ask: give instructions, or let the model think them up (generate)")
    return items


async def annotate(
    source: Path,
    kind: Kind,
    labellers: Sequence[Labeller],
    out: Path,
    settings: AnnotationSettings = AnnotationSettings(),
    wishes: Wishes = Wishes(),
    progress: Callable[[AnnotationSummary], None] = lambda report: None,
) -> AnnotationSummary:
    """Label everything that is not labelled yet. A model that cannot be reached ends the run; what is done stays."""
    if not 1 <= len(labellers) <= 2:
        raise ConfigError("one model labels, or two whose agreement counts")
    count_items(source, kind, wishes, settings)
    with LabelWriter(out, config_of(source, kind, labellers, settings)) as writer:
        work = _Work(source, kind, labellers, settings, wishes, writer, progress)
        try:
            return await work.run()
        finally:
            writer.broken(work.report.broken)


class _Work:
    def __init__(
        self,
        source: Path,
        kind: Kind,
        labellers: Sequence[Labeller],
        settings: AnnotationSettings,
        wishes: Wishes,
        writer: LabelWriter,
        progress: Callable[[AnnotationSummary], None],
    ) -> None:
        self._source, self._kind, self._wishes = source, kind, wishes
        self._labellers, self._settings = labellers, settings
        self._writer, self._progress = writer, progress
        self.report = AnnotationSummary()

    async def run(self) -> AnnotationSummary:
        started = time.monotonic()
        places = asyncio.Semaphore(self._settings.parallel)

        async def one(item: Item) -> None:
            try:
                await self._label(item)
            finally:
                places.release()
            self.report.seconds = time.monotonic() - started
            self._progress(self.report)

        try:
            async with asyncio.TaskGroup() as group:
                async for item in self._items():
                    if item.id in self._writer.done:
                        self.report.kept += 1
                        continue
                    await places.acquire()
                    group.create_task(one(item))
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None  # the first says it all: the server is gone, say
        self.report.seconds = time.monotonic() - started
        return self.report

    async def _items(self) -> AsyncIterator[Item]:
        if is_run(self._source):
            for item in items_of_run(self._source, self._kind, self._wishes):
                yield item
            return
        for picture in pictures(self._source):
            instructions: Iterable[str] = self._wishes.of(picture.relative_to(self._source).as_posix())
            if self._settings.generate and self._kind != "caption" and not instructions:
                instructions = await self._think_up(picture)
            for item in items_of_picture(self._source, picture, self._kind, instructions):
                yield item

    async def _think_up(self, picture: Path) -> list[str]:
        """Instructions by the first model, kept on disk: they are part of what the labels mean."""
        name = picture.relative_to(self._source).as_posix()
        kept = self._writer.folder / INSTRUCTIONS / f"{hashlib.blake2b(name.encode(), digest_size=12).hexdigest()}.json"
        if kept.exists():
            return list(json.loads(kept.read_text())["instructions"])
        look = self._open(picture, None)
        if look is None:
            return []
        count = self._settings.generate
        labeller = self._labellers[0]
        request = await asyncio.to_thread(instructions_request, look, labeller.dialect, count)
        (completion,) = await labeller.sample(*request, n=1, temperature=0.0, seed=self._seed(name))
        found = read_instructions(completion, count)
        kept.parent.mkdir(exist_ok=True)
        replace_json(kept, {"image": name, "instructions": found})
        return found

    def _open(self, path: Path, viewport: tuple[int, int] | None) -> Observation | None:
        try:
            return open_picture(path, viewport)
        except InputError as error:
            name = path.relative_to(self._source).as_posix() if path.is_relative_to(self._source) else str(path)
            self.report.broken[name] = str(error)
            return None

    def _seed(self, id: str) -> int:
        digest = hashlib.blake2b(f"{self._settings.seed} {id}".encode(), digest_size=4).digest()
        return int.from_bytes(digest, "big") >> 1

    async def _label(self, item: Item) -> None:
        opened = [await asyncio.to_thread(self._open, path, item.viewport) for path in item.images]
        looks = [look for look in opened if look is not None]
        if not looks or len(looks) < len(opened):
            return
        began = time.monotonic()
        answers = await asyncio.gather(*(self._ask(labeller, item, looks) for labeller in self._labellers))
        label, confidence = settle([value for value, _, _ in answers[0]], self._settings.rule)
        shown: float | None = confidence
        if len(answers) == 2:
            shown = support(label, [value for value, _, _ in answers[1]], self._settings.rule)
        elif self._settings.samples == 1 and label is not None:
            shown = None
        self._writer.add(self._row(item, looks[-1].viewport, label, shown, answers, time.monotonic() - began))
        self.report.labelled += 1
        self.report.unreadable += label is None

    async def _ask(
        self, labeller: Labeller, item: Item, looks: Sequence[Observation]
    ) -> list[tuple[Value | None, str, int]]:
        """Each answer's value, remark and number of tokens."""
        question = await asyncio.to_thread(Question, item, looks, labeller.dialect)
        n = self._settings.samples
        completions = await labeller.sample(
            question.messages(),
            question.output(),
            n=n,
            temperature=self._settings.temperature if n > 1 else 0.0,
            seed=self._seed(item.id),
        )
        return [(*question.read(completion), completion.generated_tokens) for completion in completions]

    def _row(
        self,
        item: Item,
        viewport: tuple[int, int],
        label: Value | None,
        confidence: float | None,
        answers: Sequence[list[tuple[Value | None, str, int]]],
        seconds: float,
    ) -> Row:
        said = [[{"value": value, "remark": remark} for value, remark, _ in of_one] for of_one in answers]
        remark = next((remark for value, remark, _ in answers[0] if value == label and remark), "")
        return make_row(
            item,
            viewport,
            label,
            confidence=confidence,
            remark=remark or ("" if label is not None else answers[0][0][1]),
            answers=json.dumps(said, ensure_ascii=False),
            model=self._labellers[0].name,
            second=self._labellers[1].name if len(self._labellers) > 1 else "",
            seconds=seconds,
            tokens=sum(tokens for of_one in answers for _, _, tokens in of_one),
        )
