"""Conversations that somebody else wrote: what is wrong with a line is said with the line's number."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from holotron.errors import InputError
from holotron.model.loading import byte_processor
from holotron.training.recipe import ConversationData
from holotron.training.sources import Conversations
from tests.training.support import small_config, write_conversations

SAID = [{"role": "user", "content": "which?"}, {"role": "assistant", "content": "red"}]


def read(path: Path, number: int):
    source = Conversations(ConversationData(kind="conversations", files=(path,)), byte_processor(small_config()))
    return source.sample(number, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{'messages': []}", "this is not JSON"),
        ("[1, 2]", "found a list where a line is"),
        ({"prompt": "a", "completion": "b"}, "there is no 'messages', only 'prompt', 'completion'; a line is"),
        ({"messages": "hello"}, "'messages' should be a list of objects and is a text"),
        ({"messages": [{"from": "human", "value": "a"}]}, "message 0 needs a 'role' and a 'content'"),
        ({"messages": SAID, "images": "a.png"}, "'images' should be a list of paths and is a text"),
        ({"messages": SAID, "images": ["a.png"]}, "the picture a.png cannot be read"),
        ({"messages": SAID, "learn": [0]}, r"'learn' should be some of \[1\]"),
        ({"messages": SAID, "learn": 1}, r"'learn' should be some of \[1\]"),
        ({"messages": SAID[:1]}, "must end with a reply"),
    ],
)
def test_a_wrong_line_is_named_with_what_was_expected(tmp_path: Path, line: object, says: str):
    path = tmp_path / "mine.jsonl"
    wrong = line if isinstance(line, str) else json.dumps(line)
    path.write_text(json.dumps({"messages": SAID}) + "\n\n" + wrong + "\n")
    assert read(path, 0).sequences[0].learn.any()
    with pytest.raises(InputError, match=rf"mine\.jsonl, line 3: .*{says}"):
        read(path, 1)


def test_pictures_count_from_the_folder_of_their_file(tmp_path: Path):
    path = write_conversations(tmp_path / "here", count=1)
    assert len(read(path, 0).tiles)
    moved = tmp_path / "alone.jsonl"
    path.rename(moved)
    with pytest.raises(InputError, match=r"0\.png cannot be read .* its pictures must be moved along"):
        read(moved, 0)
