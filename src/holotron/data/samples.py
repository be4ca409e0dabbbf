"""Instructions with answers, from any labelled page.

    for sample in make_samples(page.elements, page.text, random.Random(7)):
        sample.instruction, sample.action()

Kinds: `click` (localisation), `absent` (the same kind of instruction about something that is not there), `find` (text
to point at), `read` (a question about what is written). Samples are drawn, not stored once for all: a trainer can draw
new ones from the same page in every epoch.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence

from holotron.data.colours import NAMES as COLOURS
from holotron.data.colours import UNCLEAR
from holotron.data.describing import LONGEST, NOUNS, DescribedScreen, Description, describe, normal
from holotron.data.labels import Element, Kind, Sample, Text
from holotron.data.pages.icons import NAMES as ICONS
from holotron.data.pages.icons import words_for
from holotron.data.reading import ReadingQuestion, find_text, questions
from holotron.data.targets import draw_targets

_CLICK = ("Click {}.", "Click on {}.", "Press {}.", "Tap {}.", "Select {}.", "Choose {}.", "Go to {}.", "click {}")
# How often each way of saying it is taken where it is possible; people mostly read out what they see.
_WEIGHTS = {"text": 5, "icon": 4, "colour": 3, "within": 3, "part": 2, "value": 2, "order": 0.5}  # others 1
# The same for practice: what takes two looks (find this, then what is beside it) is learnt slowly and asked more often.
_PRACTICE = _WEIGHTS | {"place": 8, "within": 6, "order": 1}
_VERBS = {
    "textbox": ("Click {}.", "Click into {}.", "Focus {}.", "Put the cursor into {}."),
    "checkbox": ("Click {}.", "Tick {}.", "Toggle {}.", "Check {}."),
    "switch": ("Toggle {}.", "Flip {}.", "Click {}."),
    "slider": ("Click {}.", "Point at {}."),
    "card": ("Click {}.", "Open {}."),
    "row": ("Click {}.", "Open {}."),
}


def make_samples(
    elements: Sequence[Element],
    text: Text,
    rng: random.Random,
    *,
    clicks: int = 6,
    absent: int = 1,
    finds: int = 2,
    reads: int = 4,
) -> list[Sample]:
    """Up to so many samples of each kind; fewer where the page does not give them."""
    screen = DescribedScreen(elements, text)
    made = list(click_samples(screen, rng, clicks))
    made += absent_samples(screen, rng, absent)
    made += [_sample("find", q) for _ in range(finds) if (q := find_text(screen, rng)) is not None]
    made += [_sample("read", q) for q, _ in zip(questions(screen, rng), range(reads), strict=False)]
    return made


def _sample(kind: Kind, question: ReadingQuestion) -> Sample:
    return Sample(kind, question.by, question.text, question.box, question.answer, question.point)


def click_samples(screen: DescribedScreen, rng: random.Random, count: int) -> Iterator[Sample]:
    """Different targets, each described in one way."""
    for target in draw_targets(screen, rng, count):
        sample = click_sample(screen, target, rng, _PRACTICE)
        if sample is not None:
            yield sample


def click_sample(
    screen: DescribedScreen, target: Element, rng: random.Random, weights: Mapping[str, float] = _WEIGHTS
) -> Sample | None:
    """The target described in one of the ways that are possible, if there is one."""
    found = describe(screen, target, rng)
    if not found:
        return None
    ways = sorted({description.by for description in found})
    by = rng.choices(ways, [weights.get(way, 1) for way in ways])[0]
    chosen = rng.choice([description for description in found if description.by == by])
    return Sample("click", by, command(target.role, chosen.phrase, rng), target.box, anchor=chosen.anchor)


def command(role: str, phrase: str, rng: random.Random) -> str:
    return rng.choice(_VERBS.get(role, _CLICK)).format(phrase)


# ----------------------------------------------------------------------------------------------- what is not there


def absent_samples(screen: DescribedScreen, rng: random.Random, count: int) -> Iterator[Sample]:
    """Instructions that sound just as sensible, about things that are not on the screen."""
    roles = [element.role for element in screen.targets]
    if not roles:
        return
    for _ in range(count):
        role = rng.choice(roles)
        makers = [_absent_text, _absent_text, _absent_icon, _absent_colour]
        rng.shuffle(makers)
        for make in makers:
            description = make(screen, role, rng)
            if description is not None:
                named = "button" if description.by == "icon" else role
                yield Sample("absent", description.by, command(named, description.phrase, rng))
                break


def _absent_text(screen: DescribedScreen, role: str, rng: random.Random) -> Description | None:
    """The name of something that is there, with a word replaced by another of the page, or a letter changed."""
    names = [e.name for e in screen.of_role(role) if 2 < len(e.name) <= LONGEST and '"' not in e.name]
    words = [word.text for word in screen.text.words() if word.text.isalnum()]
    for _ in range(8):
        if not names or not words:
            return None
        parts = rng.choice(names).split()
        place = rng.randrange(len(parts))
        if rng.random() < 0.6:
            parts[place] = rng.choice(words)
        else:
            letters = list(parts[place])
            letters[rng.randrange(len(letters))] = rng.choice(rng.choice(words))
            parts[place] = "".join(letters)
        name = " ".join(parts)
        if normal(name) not in screen.all_text:
            return Description("text", f'the "{name}" {rng.choice(NOUNS[role])}')
    return None


def _absent_icon(screen: DescribedScreen, role: str, rng: random.Random) -> Description | None:
    there = {element.icon for element in screen.elements if element.icon}
    if not there:
        return None
    missing = [icon for icon in ICONS if icon not in there and words_for(icon)[0] not in screen.all_text]
    alike = {word for icon in there for word in words_for(icon)}  # "reload" must not be asked for beside "refresh"
    missing = [icon for icon in missing if not alike & set(words_for(icon))]
    return Description("icon", f"the {words_for(rng.choice(missing))[0]} icon") if missing else None


def _absent_colour(screen: DescribedScreen, role: str, rng: random.Random) -> Description | None:
    painted = [e for e in screen.of_role(role) if e.colour]
    if role not in ("button", "swatch", "shape") or not painted or any(e.colour == UNCLEAR for e in painted):
        return None
    missing = [colour for colour in COLOURS[:8] if all(e.colour != colour for e in painted)]
    return Description("colour", f"the {rng.choice(missing)} {NOUNS[role][0]}") if missing else None
