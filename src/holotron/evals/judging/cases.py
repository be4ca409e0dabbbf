"""What a judge is shown, and what it decides.

A verdict is True, False or None. None is everything that says nothing about the agent: the environment broke, the
judge's server failed, the judge refused or wrote no verdict. It is never counted as a failure, and never as a success.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from PIL import Image as Pillow

from holotron.agent.images import Image
from holotron.agent.messages import Message
from holotron.errors import ConfigError, InputError
from holotron.registry import Registry

_MIME = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp"}


@dataclass(frozen=True, slots=True)
class Case:
    """One episode before the judge. Pictures stay on disk until they are sent."""

    id: str
    task: str  # its name
    goal: str
    answer: str | None  # None: the agent ended without an answer
    screenshots: tuple[Path, ...]
    actions: tuple[str, ...] = ()  # what was done, one line each, without the answer
    site: str = ""
    spoiled: str = ""  # why it cannot be judged: the environment broke, records are missing

    def fingerprint(self) -> str:
        """Of what there is to judge: an episode that was played again under the same name is another one."""
        sizes = [(path.name, path.stat().st_size if path.is_file() else -1) for path in self.screenshots]
        said = [self.goal, self.answer, self.actions, self.spoiled, sizes]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]


def picture(path: Path) -> Image:
    """The bytes as they were recorded."""
    mime = _MIME.get(path.suffix.lower())
    if mime is None:
        raise InputError(f"{path}: a judge is shown PNG, JPEG or WebP pictures")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read the screenshot {path}: {error.strerror}") from None
    try:
        with Pillow.open(io.BytesIO(data)) as opened:
            opened.load()  # a judge that sees half a page would rule on it
            return Image(data, mime, opened.size)
    except (OSError, SyntaxError, ValueError) as error:
        raise InputError(f"the screenshot {path} is broken: {error}") from None


class Decided(StrEnum):
    """How it came to the verdict, or why there is none."""

    MODEL = "model"  # the judge said so
    RULE = "rule"  # the protocol says so without asking: no answer is a failure
    REFUSED = "refused"  # None: the judge would not answer
    MALFORMED = "malformed"  # None: the judge answered without a verdict
    FAILED = "failed"  # None: the judge's server failed; asked again by the next run
    SPOILED = "spoiled"  # None: there is nothing to judge


@dataclass(frozen=True, slots=True)
class Ruling:
    verdict: bool | None
    decided: Decided
    text: str = ""  # what the judge wrote, or the reason
    notes: Mapping[str, Any] = field(default_factory=dict)  # what came before: key points, scores
    screenshots: int = 0  # that were sent with the last question


NOTHING_TO_SEE = Ruling(None, Decided.SPOILED, "there are no screenshots")


@dataclass(frozen=True, slots=True)
class Said:
    """One reply of the judge's model."""

    text: str
    refused: bool = False
    cut: bool = False  # it ran into the limit of tokens

    def without_verdict(self, screenshots: int, notes: Mapping[str, Any] | None = None) -> Ruling | None:
        """The ruling where this reply cannot hold a verdict at all."""
        if self.refused:
            return Ruling(None, Decided.REFUSED, self.text, notes or {}, screenshots)
        if self.cut:
            why = "(cut off by the limit of tokens; a model that reasons needs a higher one)"
            return Ruling(None, Decided.MALFORMED, f"{why} {self.text}", notes or {}, screenshots)
        if not self.text.strip():
            return Ruling(None, Decided.MALFORMED, "(nothing)", notes or {}, screenshots)
        return None


Ask = Callable[[Sequence[Message]], Awaitable[Said]]


class Judge(Protocol):
    """A protocol: which questions are asked about a case, and how the replies are read."""

    @property
    def name(self) -> str: ...

    @property
    def max_tokens(self) -> int:
        """Of one reply."""
        ...

    def describe(self) -> dict[str, Any]:
        """For the manifest: everything that verdicts depend on, with a hash of the prompts."""
        ...

    async def rule(self, case: Case, ask: Ask) -> Ruling: ...


@dataclass(frozen=True, slots=True)
class JudgeRequest:
    """What somebody wants of a protocol."""

    screenshots: int | None = None  # the last so many; None: as published
    threshold: int | None = None  # of a screenshot's score, where screenshots are scored

    def refuse(self, name: str, *settings: str) -> None:
        for setting in settings:
            if getattr(self, setting) is not None:
                raise ConfigError(f"the protocol {name} has no {setting}")


protocols: Registry[Callable[[JudgeRequest], Judge]] = Registry(
    "judge's protocol",
    "holotron.judges",
    {"webvoyager": "holotron.evals.judging.webvoyager", "three-stage": "holotron.evals.judging.three_stage"},
)
