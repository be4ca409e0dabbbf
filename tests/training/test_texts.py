"""Text-only lessons: solvable from the goal alone, told in the agent's own turns, the same for everyone."""

from __future__ import annotations

import re

import numpy as np
import pytest

from holotron.agent.dialects import make_dialect
from holotron.model.loading import byte_processor
from holotron.model.presets import preset
from holotron.training.recipe import TextData
from holotron.training.texts import SKILLS, Dice, Texts

PROCESSOR = byte_processor(preset("holotron-mini"))
RNG = np.random.default_rng(0)


def lessons(skill: str, count: int = 200):
    for n in range(count):
        goal, writes = SKILLS[skill](Dice(np.random.default_rng([7, n])))
        yield goal, [write.content for write in writes]


@pytest.mark.parametrize("skill", ["login", "password", "quoted", "forward", "fields", "start", "lookup", "nth_word"])
def test_what_is_to_be_copied_is_in_the_goal(skill):
    for goal, typed in lessons(skill):
        assert typed and all(text and text in goal for text in typed)


def test_sums_are_right():
    for goal, (answer,) in lessons("sum"):
        a, sign, b = re.search(r"(-?\d+) ([+x-]) (-?\d+) =", goal).groups()
        assert eval(f"{a}{sign.replace('x', '*')}{b}") == int(answer)
    for goal, (answer,) in lessons("algebra"):
        left, right = goal.rpartition(": ")[2].split(" = ")
        assert eval(left, {"x": int(answer)}) == int(right)


def test_what_is_read_leads_to_what_is_typed():
    """It stands in the goal as well, and the answer follows from it alone."""
    for n in range(200):
        (goal, [sum_]), (task, [algebra]), (text, [nth]), (table, cells) = (
            SKILLS[skill](Dice(np.random.default_rng([7, n]))) for skill in ("sum", "algebra", "nth_word", "lookup")
        )
        assert sum_.read in goal and eval(sum_.read.replace("x", "*")) == int(sum_.content)
        left, right = algebra.read.split(" = ")
        assert algebra.read in task and eval(left, {"x": int(algebra.content)}) == int(right)
        words = nth.read.split()
        assert words[::2] == [str(place) for place in range(1, len(words) // 2 + 1)] and words[-1] == nth.content
        assert " ".join(words[1::2]) in text
        assert all(
            cell.read.endswith(f" {cell.content}") and cell.read.replace(" ", ": ", 1) in table for cell in cells
        )


def test_formats_are_right():
    for goal, (answer,) in lessons("date"):
        month, day, year = re.search(r"(\d+)/(\d+)/(\d+)", goal).groups()
        assert answer == f"{year}-{month}-{day}"
    for goal, (answer,) in lessons("time"):
        hour, minute, half = re.search(r"(\d+):(\d+) (AM|PM)", goal).groups()
        assert answer == f"{int(hour) % 12 + 12 * (half == 'PM'):02d}:{minute}"
    for goal, (answer,) in lessons("case"):
        assert answer == (answer.upper() if "upper case" in goal else answer.lower())
    for goal, (answer,) in lessons("remove"):
        ending = re.search(r"extension (\.\w+):", goal)[1]
        assert answer.startswith("rm ") and answer.endswith(ending) and answer[3:] in goal


def test_a_lesson_is_an_episode_without_its_pictures():
    source = Texts(TextData(kind="text", seed=3), PROCESSOR)
    kinds = set()
    for n in range(60):
        sample = source.sample(n, RNG)
        kinds.add(sample.name)
        assert sample.tiles.shape == (0, 3, 320, 320)
        (sequence,) = sample.sequences
        text = PROCESSOR.tokenizer.decode(sequence.ids.tolist(), skip_control=False)
        said = re.findall(r"<\|assistant\|>(.*?)<\|im_end\|>", text)
        learnt = PROCESSOR.tokenizer.decode(sequence.ids[sequence.learn].tolist(), skip_control=False)
        assert learnt.split("<|im_end|>")[:-1] == said[1::2]  # every other turn is a click
        dialect = make_dialect("compact")
        assert {type(dialect.read(line)[2]).__name__ for line in said} == {"Click", "Write"}
    assert len(kinds) > 8


def test_the_same_number_is_the_same_lesson():
    one, other = (Texts(TextData(kind="text", seed=3), PROCESSOR) for _ in range(2))
    assert one.sample(5, RNG).sequences[0].ids.tolist() == other.sample(5, RNG).sequences[0].ids.tolist()
    assert one.sample(5, RNG).sequences[0].ids.tolist() != one.sample(6, RNG).sequences[0].ids.tolist()
