"""Labelled pages as samples: what is written on them for the reading loss, and questions about them for the policy.

A question is a first turn in the compact dialect: the goal, the picture, and one line back. A dozen of them share a
picture, which the network then encodes once.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from holotron.agent.coordinates import Frame, Screen, point_to_model
from holotron.agent.dialects.compact import CompactDialect
from holotron.data.drawn import Painter
from holotron.data.fonts import font_files
from holotron.data.labels import Page
from holotron.data.pages.make import Size
from holotron.data.samples import make_samples
from holotron.data.shards import from_row, shard_files
from holotron.errors import InputError, MissingDependency
from holotron.model.config import ModelConfig
from holotron.model.processor import Processor, to_tiles
from holotron.training.characters import slot_labels
from holotron.training.mixture import CHUNK
from holotron.training.recipe import DrawnData, PageData
from holotron.training.samples import Sample, TokenSequence
from holotron.training.stream import CountingProcessor, conversation

_DIALECT = CompactDialect()
_CELLS = 1000
_LANE = 1_000_000_000  # pages between the starts of two lanes


class PageSamples:
    """Turns pages into samples, for one model."""

    def __init__(self, processor: Processor, config: ModelConfig, questions: int, kinds: tuple[str, ...]) -> None:
        self._processor = CountingProcessor(processor)
        self._image = config.image
        self._questions = questions
        self._kinds = kinds

    def sample(self, page: Page, rng: np.random.Generator) -> Sample:
        tiles = to_tiles(page.image, self._image)
        sequences = tuple(self._ask(page, rng)) if self._questions else ()
        return Sample(tiles, sequences, slot_labels(page, self._image))

    def _ask(self, page: Page, rng: np.random.Generator) -> Iterator[TokenSequence]:
        chance = random.Random(int(rng.integers(2**63)))
        found = make_samples(page.elements, page.text, chance)
        if self._kinds:
            found = [question for question in found if question.kind in self._kinds]
        height, width = page.image.shape[:2]
        view = (round(page.viewport[0]), round(page.viewport[1]))
        screen = Screen((width, height), view)

        def cells(x: float, y: float) -> str:
            column, row = point_to_model(Frame.CELLS, screen, x, y)
            return f"{column:03.0f} {row:03.0f}"

        for question in chance.sample(found, min(self._questions, len(found))):
            try:
                reply = _DIALECT.render(question.action(), screen)
            except InputError:
                continue
            sequence, _ = conversation(self._processor, first_turn(question.worded(cells), page.image, reply))
            box = None
            if question.kind in ("click", "find") and question.box is not None:
                left, top, right, bottom = (
                    _CELLS * edge / side for edge, side in zip(question.box, (*view, *view), strict=True)
                )
                box = (left, top, right, bottom)
            yield replace(sequence, box=box)


def first_turn(goal: str, image: Any, reply: str) -> list[dict[str, Any]]:
    """What the compact dialect shows a policy first, and the reply to it."""
    content = [{"type": "text", "text": f"{goal}\n"}, {"type": "image", "image": image}]
    return [{"role": "user", "content": content}, {"role": "assistant", "content": reply}]


class DrawnPages:
    """Pages painted when they are needed. Sample number n is page number n of the seed, wherever the fonts are the
    same."""

    def __init__(self, data: DrawnData, processor: Processor, config: ModelConfig) -> None:
        self._data = data
        self._samples = PageSamples(processor, config, data.questions, data.kinds)
        self._painter: Painter | None = None

    @property
    def size(self) -> None:
        return None

    def sample(self, index: int, rng: np.random.Generator) -> Sample:
        if self._painter is None:  # each worker process has its own
            data = self._data
            fonts = None if data.fonts is None else font_files([data.fonts])
            sizes = tuple(Size.parse(size) for size in data.sizes)
            self._painter = Painter(sizes=sizes, fonts=fonts, held_out=data.held_out)
        return self._samples.sample(self._painter.paint(self._data.seed, in_lanes(index, self._data.lanes)), rng)


def in_lanes(index: int, lanes: int) -> int:
    """Which page comes next when `lanes` stretches are painted side by side, a chunk of each in turn."""
    chunk, place = divmod(index, CHUNK)
    turn, lane = divmod(chunk, lanes)
    return lane * _LANE + turn * CHUNK + place


class StoredPages:
    """Pages of `holotron data synth`. They are held in memory as they are stored, compressed, and shared by workers."""

    def __init__(self, data: PageData, processor: Processor, config: ModelConfig) -> None:
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError:
            raise MissingDependency.extra("pyarrow", "train") from None
        self._table = pyarrow.concat_tables([parquet.read_table(file) for file in shard_files(data.folder)])
        self._samples = PageSamples(processor, config, data.questions, data.kinds)

    @property
    def size(self) -> int:
        return self._table.num_rows

    def sample(self, index: int, rng: np.random.Generator) -> Sample:
        return self._samples.sample(from_row(self._table.slice(index, 1).to_pylist()[0]), rng)
