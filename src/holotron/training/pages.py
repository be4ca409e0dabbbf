"""Labelled pages as samples: what is written on them for the reading loss, and questions about them for the policy.

A question is the first turn of an episode, in the dialect that the policy will be asked in. A dozen of them share a
picture, which the network then encodes once. With `turns` some of them also share a conversation, the later ones asked
after the answer to the first: a picture is a hundred tokens, a question with its answer less than half of that.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from holotron.agent.coordinates import Frame, Screen, point_to_model
from holotron.agent.dialects import make_dialect
from holotron.agent.history import Selection, Shown, Turn
from holotron.agent.images import Image
from holotron.data.drawn import Painter
from holotron.data.fonts import font_files
from holotron.data.labels import Page, Text, middle
from holotron.data.labels import Sample as Question
from holotron.data.pages.make import Size
from holotron.data.pages.words import LANGUAGES
from holotron.data.samples import make_samples
from holotron.data.shards import from_row, load_table
from holotron.errors import InputError
from holotron.model.config import ModelConfig
from holotron.model.processor import Processor, TiledImage, to_tiles
from holotron.training.aims import with_places
from holotron.training.characters import slot_labels
from holotron.training.mixture import CHUNK
from holotron.training.recipe import DrawnData, PageData
from holotron.training.samples import Sample, Target, TokenSequence
from holotron.training.sparse import condensed
from holotron.training.stream import alone, conversation
from holotron.types import Observation, Task

_LANE = 1_000_000_000  # pages between the starts of two lanes
_CLICKS = 9  # to choose questions from, beside seven of the other kinds: pointing is most of what a policy does


class PageSamples:
    """Turns pages into samples, for one model and one dialect."""

    def __init__(self, data: DrawnData | PageData, processor: Processor, config: ModelConfig) -> None:
        self._data = data
        self._processor = processor
        self._image = config.image
        self._dialect = make_dialect(data.dialect)
        if self._dialect.resize is not None:
            raise InputError(f"the {data.dialect} dialect resizes screenshots; pages cannot be learnt in it")

    def sample(self, page: Page, rng: np.random.Generator) -> Sample:
        tiles = to_tiles(page.image, self._image)
        sequences = tuple(self._ask(page, tiles, rng)) if self._data.questions else ()
        if not self._image.sparse:
            return Sample(tiles, sequences, slot_labels(page, self._image))
        if not sequences:  # what is read of a page follows from how it is told
            height, width = page.image.shape[:2]
            sequences = (alone(self._processor, TiledImage(tiles, (width, height))),)
        token = self._processor.tokenizer.image_id
        assert token is not None
        return condensed(Sample(tiles, sequences, slot_labels(page, self._image)), self._image, token)

    def _ask(self, page: Page, tiles: Tensor, rng: np.random.Generator) -> Iterator[TokenSequence]:
        chance = random.Random(int(rng.integers(2**63)))
        found = make_samples(page.elements, page.text, chance, clicks=_CLICKS)
        if kinds := self._data.kinds:
            found = [question for question in found if question.kind in kinds]
        height, width = page.image.shape[:2]
        screen = Screen((width, height), (round(page.viewport[0]), round(page.viewport[1])))
        asked = chance.sample(found, min(self._data.questions, len(found)))
        for start in range(0, len(asked), self._data.turns):
            group = asked[start : start + self._data.turns]
            messages = self.first_turn(group[0], screen, TiledImage(tiles, screen.image))
            for question in group[1:]:
                messages += self.later_turn(question, screen)
            sequence, images = conversation(self._processor, messages)
            sequence = with_places(sequence, images, [screen.image], self._dialect, self._processor, self._image)
            first = group[0]
            if first.kind in ("click", "find") and first.box is not None:
                target = Target(first.box, self._dialect.name, screen.image, screen.viewport)
                sequence = replace(sequence, target=target)
            yield sequence
        for _ in range(self._data.census):
            if (all_there := census(page.text, chance, self._point(screen))) is not None:
                messages = self.first_turn(all_there, screen, TiledImage(tiles, screen.image))
                yield conversation(self._processor, messages)[0]

    def first_turn(self, question: Question, screen: Screen, image: TiledImage) -> list[dict[str, Any]]:
        """What the dialect shows a policy that is given this question as its task, and the reply to it."""
        picture = Image(b"", "image/png", screen.image)  # stands for the page; its pixels are filled in below
        turn = Turn(0, Observation(b"", "image/png", screen.image, screen.viewport), picture, screen)
        task = Task("pages", question.kind, goal=self._worded(question, screen))
        messages = self._dialect.messages(task, Selection((), (Shown(turn, picture),)))
        asked: list[dict[str, Any]] = [
            {
                "role": message.role,
                "content": [
                    {"type": "image", "image": image} if isinstance(part, Image) else {"type": "text", "text": part}
                    for part in message.parts
                ],
            }
            for message in messages
        ]
        return [*asked, self._replied(question, screen)]

    def later_turn(self, question: Question, screen: Screen) -> list[dict[str, Any]]:
        """One more question about the same picture."""
        return [
            {"role": "user", "content": self._worded(question, screen) + "\n"},
            self._replied(question, screen),
        ]

    def _replied(self, question: Question, screen: Screen) -> dict[str, Any]:
        """The right reply. Dialects that can say where they look first look at what the question quotes."""
        thought = ""
        if self._dialect.looks and question.anchor is not None:
            thought = f"look {self._point(screen)(*middle(question.anchor))}"
        return {"role": "assistant", "content": self._dialect.render(question.action(), screen, thought=thought)}

    def _worded(self, question: Question, screen: Screen) -> str:
        return question.worded(self._point(screen))

    def _point(self, screen: Screen) -> Callable[[float, float], str]:
        """How the dialect writes a place."""
        frame = self._dialect.frame

        def write(x: float, y: float) -> str:
            column, row = point_to_model(frame, screen, x, y)
            return f"{column:03.0f} {row:03.0f}" if frame is Frame.CELLS else f"({column:g}, {row:g})"

        return write


_CENSUS = 120  # characters of an answer, about


def census(text: Text, chance: random.Random, point: Callable[[float, float], str]) -> Question | None:
    """What is written where, line after line from some place down. One question that takes a dozen answers: it teaches
    to find and to read many times faster than questions about one thing."""
    lines = sorted(text, key=lambda line: (round((line.box[1] + line.box[3]) / 8), line.box[0]))
    if not lines:
        return None
    start = chance.randrange(len(lines))
    places_first = chance.random() < 0.5
    entries: list[str] = []
    size = 0
    for line in lines[start:]:
        place = point((line.box[0] + line.box[2]) / 2, (line.box[1] + line.box[3]) / 2)
        entry = f"{place} {line.text}" if places_first else f"{line.text} {place}"
        if entries and size + len(entry) > _CENSUS:
            break
        entries.append(entry)
        size += len(entry)
    first = lines[start].box
    begin = ((first[0] + first[2]) / 2, (first[1] + first[3]) / 2)
    asked = "What is written where, from {point} on?" if places_first else "Where is what written, from {point} on?"
    return Question("read", "census", asked, answer="; ".join(entries), point=begin)


class DrawnPages:
    """Pages painted when they are needed. Sample number n is page number n of the seed, wherever the fonts are the
    same."""

    def __init__(self, data: DrawnData, processor: Processor, config: ModelConfig) -> None:
        self._data = data
        self._samples = PageSamples(data, processor, config)
        self._painter: Painter | None = None

    @property
    def size(self) -> None:
        return None

    def sample(self, index: int, rng: np.random.Generator) -> Sample:
        if self._painter is None:  # each worker process has its own
            data = self._data
            fonts = None if data.fonts is None else font_files([data.fonts])
            sizes = tuple(Size.parse(size) for size in data.sizes)
            languages = data.languages or LANGUAGES
            self._painter = Painter(
                sizes=sizes, fonts=fonts, held_out=data.held_out, languages=languages, type_sizes=data.type_sizes
            )
        return self._samples.sample(self._painter.paint(self._data.seed, in_lanes(index, self._data.lanes)), rng)


def in_lanes(index: int, lanes: int) -> int:
    """Which page comes next when `lanes` stretches are painted side by side, a chunk of each in turn."""
    chunk, place = divmod(index, CHUNK)
    turn, lane = divmod(chunk, lanes)
    return lane * _LANE + turn * CHUNK + place


class StoredPages:
    """Pages of `holotron data synth`. They are held in memory as they are stored, compressed, and shared by workers."""

    def __init__(self, data: PageData, processor: Processor, config: ModelConfig) -> None:
        self._table = load_table(data.folder)
        self._samples = PageSamples(data, processor, config)

    @property
    def size(self) -> int:
        return self._table.num_rows

    def sample(self, index: int, rng: np.random.Generator) -> Sample:
        return self._samples.sample(from_row(self._table.slice(index, 1).to_pylist()[0]), rng)
