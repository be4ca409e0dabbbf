"""Recorded episodes as samples: the conversation that the agent would have held with the engine, replies to learn.

Under an append-only history an episode is one sequence with all its screenshots. Where a teacher labelled a learner's
episode, the learner's own words stay in the past, because that is the past it will meet again, and the teacher's word
is learnt at every step: one sequence holds the steps on which they agree, and each step on which they do not is a
sequence of its own that ends in what should have been said.

    agreed      goal, picture, click 1, picture, click 2 ...         learnt: click 1
    corrected   goal, picture, click 1, picture, CLICK 3             learnt: CLICK 3

Episodes may be shifted as a whole across the screen, coordinates along with the pictures, so that places are looked for
rather than remembered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from holotron.agent.coordinates import Screen
from holotron.agent.dialects import make_dialect
from holotron.agent.dialects.base import Dialect
from holotron.agent.history import History, Turn, parse_history
from holotron.agent.images import Image
from holotron.agent.messages import Message
from holotron.errors import ConfigError, InputError
from holotron.model.config import ModelConfig
from holotron.model.processor import Deltas, Processor, TiledImage, to_tiles
from holotron.rollouts.recorded import Recorded, RecordedEpisode, RecordedStep, open_recorded
from holotron.rollouts.records import Row
from holotron.suites.base import parse_seeds
from holotron.training.aims import with_places
from holotron.training.recipe import EpisodeData
from holotron.training.samples import Sample, TokenSequence, joined
from holotron.training.shift import shifted
from holotron.training.stream import as_read, conversation
from holotron.types import Completion, Observation, Reply

CIRCLE = 3  # an action repeated so often on one screen draws a warning into the conversation: lessons end before


class Episodes:
    """An endless source: a task is drawn by weight, then one of its episodes."""

    def __init__(
        self, data: EpisodeData, processor: Processor, config: ModelConfig, deltas: Deltas | None = None
    ) -> None:
        self._data = data
        self._processor = processor
        self._deltas = deltas
        self._image = config.image
        self._dialect = make_dialect(data.dialect)
        self._history = parse_history(data.history)
        if self._dialect.resize is not None:
            raise ConfigError(f"the {data.dialect} dialect resizes screenshots; export conversations instead")
        self._by_task: dict[str, list[tuple[Recorded, RecordedEpisode]]] = {}
        wanted = _wanted(data)
        for run in data.runs:
            source = open_recorded(run, wanted)
            for episode in map(self._usable, source.episodes):
                if episode.steps and (episode.success or episode.labelled):
                    self._by_task.setdefault(episode.task.name, []).append((source, episode))
        weights = np.array([data.task_weights.get(task, 1.0) for task in self._by_task])
        if not weights.sum():
            raise ConfigError(f"no episode to learn from in {', '.join(map(str, data.runs))}")
        self._tasks = list(self._by_task)
        self._edges = np.cumsum(weights / weights.sum())

    @property
    def size(self) -> None:
        return None

    @property
    def episodes(self) -> dict[str, int]:
        """How many there are of each task."""
        return {task: len(found) for task, found in self._by_task.items()}

    def sample(self, index: int, rng: np.random.Generator) -> Sample:
        place = min(int(np.searchsorted(self._edges, rng.random(), side="right")), len(self._tasks) - 1)
        episodes = self._by_task[self._tasks[place]]
        return self.lesson(*episodes[int(rng.integers(len(episodes)))], rng)

    def held_out(self, count: int) -> Iterator[Sample]:
        """The same episodes for everyone, tasks in turn, none shifted."""
        longest = max(map(len, self._by_task.values()))
        chosen = [found[n] for n in range(longest) for found in self._by_task.values() if n < len(found)]
        for source, episode in chosen[:count]:
            yield self.lesson(source, episode, None)

    def lesson(self, source: Recorded, episode: RecordedEpisode, rng: np.random.Generator | None) -> Sample:
        try:
            frames = {step.frame: source.pixels(step.frame) for step in episode.steps}
            sizes = {frame: (pixels.shape[1], pixels.shape[0]) for frame, pixels in frames.items()}
            by = self._draw_shift(rng)
            if any(by) and not self._thinks_aloud(episode, sizes):
                episode, frames = shifted(episode, frames, by)
            pictures = {_name(f): TiledImage(to_tiles(frames[f], self._image), sizes[f]) for f in frames}
            sequences = [
                self._sequence(messages, learn, pictures)
                for messages, learn in lessons(episode, sizes, self._dialect, self._history)
            ]
        except InputError as error:
            raise InputError(f"{episode.id}: {error}") from error
        tiles, frame_sizes = joined([picture.tiles for picture in pictures.values()])
        sample = Sample(tiles, tuple(sequences), name=episode.task.name, sizes=frame_sizes)
        return as_read(sample, self._image, self._processor.tokenizer.image_id)

    def _usable(self, episode: RecordedEpisode) -> RecordedEpisode:
        return _before_trouble(episode._replace(steps=episode.steps[: self._data.steps]))

    def _sequence(
        self, messages: Sequence[Message], learn: Sequence[int], pictures: dict[bytes, TiledImage]
    ) -> TokenSequence:
        """A picture that is shown several times is one: its tiles stand once in the sample."""
        plain = [_plain(message, pictures) for message in messages]
        sequence, images = conversation(self._processor, plain, learn, self._deltas)
        first = dict(zip(pictures, np.cumsum([0, *(len(p.tiles) for p in pictures.values())]), strict=False))
        shown = [image.data for message in messages for image in message.images]
        sizes = [pictures[name].size for name in shown]
        sequence = with_places(sequence, images, sizes, self._dialect, self._processor, self._image)
        places = [np.arange(first[name], first[name] + len(pictures[name].tiles)) for name in shown]
        return sequence.moved(np.concatenate(places))

    def _thinks_aloud(self, episode: RecordedEpisode, sizes: dict[int | str, tuple[int, int]]) -> bool:
        """Whether thoughts are in the words to learn: they may name places, which a shift would not move."""

        def said(step: RecordedStep, thought: str) -> str:
            assert step.action is not None  # see `lessons`
            return self._dialect.render(step.action, Screen(sizes[step.frame], step.viewport), thought=thought)

        return any(step.thought and said(step, step.thought) != said(step, "") for step in episode.steps)

    def _draw_shift(self, rng: np.random.Generator | None) -> tuple[int, int]:
        """Mostly right and down: pages begin at their upper left corner, and what leaves the screen is lost."""
        right, down = self._data.shift
        if rng is None or not (right or down) or rng.random() >= self._data.shifted:
            return 0, 0
        return int(rng.integers(-(right // 4), right + 1)), int(rng.integers(-(down // 4), down + 1))


def lessons(
    episode: RecordedEpisode, sizes: dict[int | str, tuple[int, int]], dialect: Dialect, history: History
) -> Iterator[tuple[list[Message], list[int]]]:
    """(messages, replies to learn). Without labels every reply is learnt; with them, see above."""
    turns: list[Turn] = []
    agreed: list[bool] = []
    for step in episode.steps:
        turn = _turn(len(turns), step, sizes[step.frame])
        assert step.action is not None  # the episode is cut before a step without an action
        said = dialect.render(step.action, turn.screen, note=step.note, thought=step.thought)
        wanted = _taught(step, said, dialect, turn.screen) if episode.labelled else said
        if wanted is not None and wanted != said:
            request = dialect.messages(episode.task, history.view([*turns, turn]))
            yield [*request, Message("assistant", (wanted,))], [len(request)]
        turns.append(replace(turn, reply=Reply(Completion(said), step.note, step.thought, step.action), said=said))
        agreed.append(wanted == said)
    yield from _agreed(episode, turns, agreed, dialect, history)


def _taught(step: RecordedStep, said: str, dialect: Dialect, screen: Screen) -> str | None:
    """What the teacher would have said: the same words, where it would have done the same. None: it was at a loss."""
    if step.action is None or step.label is None:
        return None
    done, wanted = (dialect.render(action, screen) for action in (step.action, step.label))
    return said if done == wanted else wanted


def _agreed(
    episode: RecordedEpisode, turns: list[Turn], agreed: list[bool], dialect: Dialect, history: History
) -> Iterator[tuple[list[Message], list[int]]]:
    """As few conversations as cover every agreed reply once: a request that the next one merely extends is not written
    by itself."""
    messages: list[Message] = []
    learn: list[int] = []
    for count in range(1, len(turns) + 1):
        answered = dialect.messages(episode.task, history.view(turns[:count]))
        if messages and answered[: len(messages)] != messages:
            if learn:
                yield messages, learn
            learn = []
        messages = answered
        learn = [*learn, len(messages) - 1] if agreed[count - 1] else learn
    if learn:
        yield messages[: learn[-1] + 1], learn


def _turn(index: int, step: RecordedStep, size: tuple[int, int]) -> Turn:
    name = _name(step.frame)
    observation = Observation(name, "image/png", size, step.viewport)
    image, screen = Image(name, "image/png", size), Screen(size, step.viewport)
    return Turn(index, observation, image, screen, instruction=step.instruction)


def _name(frame: int | str) -> bytes:
    """Stands for a picture in messages; its tiles are cut apart from them."""
    return str(frame).encode()


def _plain(message: Message, pictures: dict[bytes, TiledImage]) -> dict[str, Any]:
    return {
        "role": message.role,
        "content": [
            {"type": "image", "image": pictures[part.data]}
            if isinstance(part, Image)
            else {"type": "text", "text": part}
            for part in message.parts
        ],
    }


def _wanted(data: EpisodeData) -> Any:
    seeds = parse_seeds(data.seeds) if data.seeds else None
    tasks = set(data.tasks)

    def where(row: Row) -> bool:
        return (seeds is None or row["seed"] in seeds) and (not tasks or row["task"] in tasks)

    return where


def _before_trouble(episode: RecordedEpisode) -> RecordedEpisode:
    """Up to where the live conversation held more than actions: a refused reply, a warning about a circle."""
    seen: Counter[tuple[Any, ...]] = Counter()
    for place, step in enumerate(episode.steps):
        if step.refused or step.action_json is None:
            return episode._replace(steps=episode.steps[:place])
        seen[step.frame, step.action_json] += 1
        if seen[step.frame, step.action_json] >= CIRCLE:
            return episode._replace(steps=episode.steps[: place + 1])
    return episode
