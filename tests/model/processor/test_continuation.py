"""What comes next in a conversation is decided in one place, and is a function of values: nothing to take back."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import holotron
from holotron.errors import InputError
from holotron.model.processor import ChatTemplate, Deltas, ImageConfig, Processor, Tokenizer, Transcript, byte_tokenizer
from holotron.model.processor.continuation import replay, reply_tokens, seam

PROCESSOR = Processor.for_bytes(ImageConfig(tile_size=32, patch_size=8))
GO = [{"role": "user", "content": "Go."}]


def say(text: str, *, closed: bool) -> list[int]:
    return [*PROCESSOR.encode_text(text), *(PROCESSOR.stop_ids if closed else ())]


def test_turns_add_up_to_the_whole_conversation() -> None:
    messages = [*GO, {"role": "assistant", "content": "Done."}, *GO, {"role": "assistant", "content": "Again."}, *GO]
    said, log = Transcript(), list[int]()
    for reply in ("Done.", "Again."):
        prompt = said.next(PROCESSOR, GO)
        log += [*prompt.ids, *say(reply, closed=True)]
        said = said.asked(prompt).replied(log)
    turns = [*replay(PROCESSOR, messages[:-1])]
    assert [turn.message for turn in turns] == [1, 3]
    assert [token for turn in turns for token in (*turn.prompt.ids, *turn.reply)] == log
    assert log + said.next(PROCESSOR, GO).ids == PROCESSOR.render(messages).ids


def test_a_turn_that_fails_leaves_no_trace() -> None:
    pixels = np.zeros((32, 64, 3), np.uint8)
    screen = [{"role": "user", "content": [{"type": "image", "image": pixels}]}]
    first = Transcript(deltas=Deltas())
    prompt = first.next(PROCESSOR, screen)
    said = first.asked(prompt).replied(say("Done.", closed=True))
    with pytest.raises(InputError):
        said.next(PROCESSOR, [{"role": "user", "content": [{"type": "image", "image": b"no image"}]}])
    again, once_more = said.next(PROCESSOR, screen), said.next(PROCESSOR, screen)
    assert again.ids == once_more.ids
    assert again.images[0].runs == ()  # nothing has changed on the screen since
    assert first.next(PROCESSOR, screen).ids == prompt.ids


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("left", [True, False])
def test_a_turn_can_follow_another_reply_than_it_did(before: bool, left: bool) -> None:
    """The seam makes a turn's tokens the ones it would have had after that reply, however either had ended."""
    ended = {closed: Transcript().replied(say("Done.", closed=closed)) for closed in (True, False)}
    closing, skip = seam(PROCESSOR, ended[before], ended[left])
    assert [*closing, *ended[left].next(PROCESSOR, GO).ids[skip:]] == ended[before].next(PROCESSOR, GO).ids


def test_a_reply_that_is_learnt_has_tags_where_a_reader_takes_them_for_such() -> None:
    """A quoted tag is letters, as everything else that looks like a control token."""
    backend = byte_tokenizer().backend
    backend.add_tokens(["<TOOLCALL>", "</TOOLCALL>"])
    tokenizer = Tokenizer(backend, special={"eos_token": "<|im_end|>"})
    processor = Processor(tokenizer, ChatTemplate.builtin("chatml", tokenizer.special))
    names = {tokenizer.token_id(token): token for token in tokenizer.control}

    def control(content: str) -> list[str]:
        tokens = reply_tokens(processor, {"role": "assistant", "content": content})
        assert tokenizer.decode(tokens, skip_control=False) == f"{content}<|im_end|>"
        return [names[token] for token in tokens if token in names]

    call = '<TOOLCALL>[{"name": "click", "arguments": {"x": 1}}]</TOOLCALL>'
    assert control("<think>Hm.</think>Go.") == ["<think>", "</think>", "<|im_end|>"]
    assert control(f"Go.{call}") == ["<TOOLCALL>", "</TOOLCALL>", "<|im_end|>"]
    for quoted in (
        "It says <think>no</think>",
        "</think>",
        "<TOOLCALL>no</TOOLCALL>",
        "<TOOLCALL>",
        "<|im_end|><image>",
    ):
        assert control(quoted) == ["<|im_end|>"], quoted
    with pytest.raises(InputError, match="Unicode"):
        control("\udc3c")


def test_nobody_else_decides_between_rendering_and_bridging() -> None:
    root = Path(holotron.__file__).parent
    others = [path for path in root.rglob("*.py") if path.parent != root / "model" / "processor"]
    found = [
        f"{path.relative_to(root)}:{node.lineno}"
        for path in others
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "bridge"
    ]
    assert found == []
