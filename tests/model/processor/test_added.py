"""Tokens that stand beside tokenizer.json: a text is the same ids as with transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from holotron.errors import CheckpointError, ConfigError
from holotron.model.processor import Processor

TEXT = "a<|click|>b <think> <|pad|>"
CLICK = {"content": "<|click|>", "lstrip": False, "rstrip": False, "normalized": False, "single_word": False}
PAD = {**CLICK, "content": "<|pad|>", "special": True, "__type": "AddedToken"}

FILES: dict[str, dict[str, dict[str, Any]]] = {
    "none": {},
    "by their ids": {"tokenizer_config": {"added_tokens_decoder": {"NEXT": {**CLICK, "special": True}}}},
    "by their ids, as in older files": {"added_tokens": {"<|click|>": "NEXT"}},
    "in a list": {"tokenizer_config": {"additional_special_tokens": ["<|click|>", PAD]}},
    "in a list of transformers 5": {"tokenizer_config": {"extra_special_tokens": ["<|click|>"]}},
    "by names": {"tokenizer_config": {"extra_special_tokens": {"click_token": "<|click|>"}}},
    "a padding token": {"tokenizer_config": {"pad_token": "<|pad|>"}},
    "a padding token in the older file": {"special_tokens_map": {"pad_token": "<|pad|>"}},
}


def folder(path: Path, files: dict[str, dict[str, Any]], shift: int = 0) -> Path:
    """Bytes, with files beside tokenizer.json; NEXT is the first id behind its own (and `shift` more)."""
    processor = Processor.for_bytes()
    processor.save(path)
    last = str(processor.tokenizer.backend.get_vocab_size() + shift)
    for name, said in files.items():
        file = path / f"{name}.json"
        before = json.loads(file.read_text()) if file.exists() else {}
        text = json.dumps(before | said).replace('"NEXT":', f'"{last}":').replace('"NEXT"', last)
        file.write_text(text)
    return path


@pytest.mark.parametrize("what", FILES)
def test_they_are_added_as_transformers_adds_them(what: str, tmp_path: Path) -> None:
    path = folder(tmp_path, FILES[what])
    theirs = AutoTokenizer.from_pretrained(path)(TEXT, add_special_tokens=False)["input_ids"]
    assert Processor.from_folder(path).tokenizer.encode(TEXT) == theirs


def test_what_is_saved_holds_them(tmp_path: Path) -> None:
    first = Processor.from_folder(folder(tmp_path / "first", FILES["in a list"]))
    first.save(tmp_path / "second")
    assert Processor.from_folder(tmp_path / "second").tokenizer.encode(TEXT) == first.tokenizer.encode(TEXT)


@pytest.mark.parametrize("what", ["by their ids", "by their ids, as in older files"])
def test_an_id_that_cannot_be(what: str, tmp_path: Path) -> None:
    with pytest.raises(
        CheckpointError, match=r"gives '<\|click\|>' the id \d+, but behind the tokens of tokenizer.json"
    ):
        Processor.from_folder(folder(tmp_path, FILES[what], shift=5))


@pytest.mark.parametrize(
    "said",
    [
        {"added_tokens_decoder": {"x": CLICK}},
        {"added_tokens_decoder": {"300": {}}},
        {"added_tokens_decoder": ["<|click|>"]},
        {"extra_special_tokens": [5]},
        {"extra_special_tokens": 5},
    ],
    ids=str,
)
def test_tokens_that_are_none(said: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tokenizer_config\.json: its tokens cannot be read"):
        Processor.from_folder(folder(tmp_path, {"tokenizer_config": said}))
