"""An episode as the engine served it: which tokens stood in its log, which of them it sampled, how likely each was, and
by which weights.

Nothing is rendered again. `policy` keeps what went into the session (`Prompt`s: token ids, tiles) and what came out
(`Result`s); `play_of` strings them together, so a sequence to learn from *is* the session's log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from holotron.engine import Grammar, Matcher, Result
from holotron.model.processor import Prompt, PromptImage
from holotron.training.rl.recipe import LearnFrom
from holotron.training.samples import rows_shown
from holotron.types import Outcome, Task

Compile = Callable[[Grammar], Matcher | None]
NO_MASKS = np.empty((0, 0), np.int32)


@dataclass(frozen=True, slots=True)
class SampledTurn:
    """What was appended to a session, and what it said to that."""

    prompt: Prompt
    result: Result
    grammar: Grammar | None = None  # that the reply was held to


@dataclass(frozen=True, slots=True)
class Play:
    """The log of one session, to learn from. An append-only episode is one; a history that is rewritten makes more.

    Forced tokens (a grammar left no choice) and prompts are read but not learnt. Legend: T tokens, l learnt tokens.
    """

    ids_T: np.ndarray  # int32
    learn_T: np.ndarray  # bool
    tiles: tuple[bytes, ...]  # content keys of the tiles it looks at
    shown: np.ndarray  # int32 [i, 2]: for every image placeholder, one of these tiles and a row of it
    logprobs_l: np.ndarray  # float32, of the engine: among what the token was drawn from, by temperature and grammar
    versions_l: np.ndarray  # int32: the number of the update whose weights sampled the token
    masks_uW: np.ndarray = field(default_factory=lambda: NO_MASKS)  # int32: what a grammar allowed, 32 tokens a word
    mask_l: np.ndarray | None = None  # int32: which of them held for the token; None: there was no grammar

    def __len__(self) -> int:
        return len(self.ids_T)


@dataclass(frozen=True, slots=True)
class Rollout:
    """One finished episode of a group."""

    task: Task
    success: bool
    outcome: Outcome
    plays: tuple[Play, ...]
    tiles: dict[bytes, Tensor] = field(repr=False)  # uint8 [3, height, width]
    steps: int = 0
    seconds: float = 0.0
    replayed: bool = False  # an old success that stands in for a failure
    reward: float = 0.0  # of the whole episode, as its environment gives it; any number

    def value(self, learn_from: LearnFrom) -> float:
        return self.reward if learn_from == "reward" else float(self.success)

    @property
    def learnt(self) -> int:
        return sum(len(play.logprobs_l) for play in self.plays)

    @property
    def oldest(self) -> int:
        """The oldest weights that had a part in it."""
        return min((int(play.versions_l.min()) for play in self.plays if len(play.versions_l)), default=0)


def play_of(
    turns: Sequence[SampledTurn], first_version: int = 0, compile: Compile | None = None
) -> tuple[Play, dict[bytes, Tensor]]:
    """A session's log and the tiles it shows. `first_version`: the update that the engine's version 0 stands for.
    `compile`: the engine's, for replies that were held to a grammar; they all were, or none."""
    ids: list[int] = []
    learn: list[bool] = []
    images: list[PromptImage] = []
    logprobs: list[float] = []
    versions: list[int] = []
    masks: dict[bytes, int] = {}
    mask_of: list[int] = []
    for turn in turns:
        ids += turn.prompt.ids
        learn += [False] * len(turn.prompt.ids)
        images += turn.prompt.images
        result = turn.result
        ids += result.tokens
        learn += [not forced for forced in result.forced]
        for forced, logprob, version in zip(result.forced, result.logprobs, result.versions, strict=True):
            if not forced:
                logprobs.append(logprob)
                versions.append(first_version + version)
        if turn.grammar is not None:
            assert compile is not None
            for mask in allowed(compile(turn.grammar), result):
                mask_of.append(masks.setdefault(mask.tobytes(), len(masks)))
    keys = [key for image in images for key in image.keys]
    pixels = [tile for image in images for tile in image.tiles]
    shown = rows_shown(images)
    tiles = {keys[n]: pixels[n] for n in np.unique(shown[:, 0])}  # a picture told as changes may show few of its tiles
    place = {key: n for n, key in enumerate(tiles)}
    shown[:, 0] = [place[keys[n]] for n in shown[:, 0]]
    play = Play(
        np.asarray(ids, np.int32),
        np.asarray(learn, bool),
        tuple(tiles),
        shown,
        np.asarray(logprobs, np.float32),
        np.asarray(versions, np.int32),
        np.stack([np.frombuffer(mask, np.int32) for mask in masks]) if masks else NO_MASKS,
        np.asarray(mask_of, np.int32) if masks else None,
    )
    return play, tiles


def allowed(matcher: Matcher | None, result: Result) -> Iterator[np.ndarray]:
    """What a grammar allowed at every token that was not forced: the reply is gone through once more."""
    assert matcher is not None
    matcher.forced()
    for token, forced in zip(result.tokens, result.forced, strict=True):
        if not forced:
            yield matcher.allowed().numpy()
            matcher.accept(token)
            matcher.forced()
