"""Sessions append: the log that grows turn by turn must be what rendering the whole conversation gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holotron.errors import ConfigError
from holotron.model.processor import ChatTemplate, ImageConfig, Processor, PromptLimits
from holotron.model.processor.ink import ink
from tests.model.processor.test_images import picture
from tests.model.processor.test_template import BY_WORDS

CONFIG = ImageConfig(tile_size=32, patch_size=8)
MANY = PromptLimits(max_images=100, max_tiles=1000)
PIXELS = [np.asarray(picture(*size)) for size in ((32, 32), (64, 32), (40, 90))]
# What ends a reply: the line break the template wants before it, where it wants one.
BREAK = {"nemotron-vl": "\n", "chatml": ""}


@pytest.fixture(scope="module", params=["nemotron-vl", "chatml"])
def name(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def processor(name, bytewise) -> Processor:
    """One token per byte, so that equal text means equal ids."""
    if name == "chatml":
        return Processor.for_bytes(CONFIG, limits=MANY)
    return Processor(bytewise, ChatTemplate.builtin(name, bytewise.special), CONFIG, limits=MANY)


words = st.text("abc <>/\né🙂", max_size=20)
parts = st.one_of(
    words.map(lambda text: {"type": "text", "text": text}),
    st.sampled_from(PIXELS).map(lambda pixels: {"type": "image", "image": pixels}),
    st.sampled_from(["<|im_end|>", "<SPECIAL_12>", "<image>"]).map(lambda text: {"type": "text", "text": text}),
)
turns = st.one_of(
    st.builds(lambda content: [{"role": "user", "content": content}], st.lists(parts, max_size=3)),
    st.builds(lambda texts: [{"role": "tool", "content": t} for t in texts], st.lists(words, min_size=1, max_size=2)),
)
replies = st.tuples(words.map(str.strip), words.map(str.strip), st.sampled_from(["finished", "cut off"]))


class Session:
    """A token log as the engine keeps it, and beside it the messages somebody would re-send."""

    def __init__(self, processor: Processor, name: str, thinking: bool) -> None:
        self.processor, self.name, self.thinking = processor, name, thinking
        self.log: list[int] = []
        self.spans: list[tuple[int, int, tuple[bytes, ...]]] = []
        self.messages: list[dict] = []

    def append(self, messages: list[dict]) -> None:
        self.messages += messages
        if self.log:
            prompt = self.processor.bridge(messages, after=self.log[-8:], thinking=self.thinking)
        else:
            prompt = self.processor.render(messages, thinking=self.thinking)
        assert prompt.opens_reasoning == self.thinking
        self.spans += [(len(self.log) + image.start, image.length, image.keys) for image in prompt.images]
        self.log += prompt.ids

    def reply(self, reasoning: str, answer: str, how: str) -> None:
        said = f"{reasoning}</think>{answer}" if self.thinking else answer
        opening = "<think>\n" if self.thinking else "<think></think>"
        self.messages.append({"role": "assistant", "content": opening + said})
        (eos,) = self.processor.tokenizer.eos_ids
        # A model that spells `<|im_end|>` does not end its turn.
        reasoned, closing, rest = said.partition("</think>") if self.thinking else ("", "", said)
        self.log += self.processor.tokenizer.encode_inked(reasoned + ink(closing) + rest)
        if how == "finished":
            self.log += [*self.processor.encode_text(BREAK[self.name]), eos]


@settings(max_examples=100, deadline=None)
@given(
    system=st.one_of(st.none(), words),
    first=turns,
    rest=st.lists(st.tuples(replies, turns), min_size=1, max_size=4),
    thinking=st.booleans(),
)
def test_appending_equals_rendering_the_whole(processor, name, system, first, rest, thinking):
    session = Session(processor, name, thinking)
    session.append([*([{"role": "system", "content": system}] if system is not None else []), *first])
    for (reasoning, answer, how), messages in rest:
        # Nemotron's template trims what ends in white space; the log keeps what was said.
        session.reply(reasoning, answer or "-", how)
        session.append(messages)

    whole = processor.render(session.messages, thinking=thinking, truncate_history_thinking=False)
    assert session.log == whole.ids
    assert session.spans == [(image.start, image.length, image.keys) for image in whole.images]


def test_with_merging_tokens_the_appended_ids_are_those_of_the_whole(tokenizer):
    """Where neighbours merge, the boundary is a control token, which merges with nothing."""
    processor = Processor(tokenizer, ChatTemplate.builtin("nemotron-vl", tokenizer.special), CONFIG)
    opening = [{"role": "user", "content": "Click the button."}]
    following = [{"role": "user", "content": [{"type": "text", "text": "The third link.\n\nThen read."}]}]
    (eos,) = tokenizer.eos_ids
    log = processor.render(opening).ids + processor.encode_text("Done.\n") + [eos]
    more = processor.bridge(following, after=log)
    said = {"role": "assistant", "content": "<think></think>Done."}
    whole = processor.render([*opening, said, *following], truncate_history_thinking=False)
    assert whole.ids[-len(more) - 1 :] == [eos, *more.ids]
    assert tokenizer.decode(log + more.ids, skip_control=False) == whole.text


def test_an_end_without_its_line_break_is_not_repeated(bytewise):
    processor = Processor(bytewise, ChatTemplate.builtin("nemotron-vl", bytewise.special))
    (eos,) = bytewise.eos_ids
    more = processor.bridge([{"role": "user", "content": "Go."}], after=[*processor.encode_text("Done."), eos])
    decoded = bytewise.decode(more.ids, skip_control=False)
    assert decoded == "\n<SPECIAL_11>User\nGo.\n<SPECIAL_11>Assistant\n<think></think>"


def test_a_reply_cut_off_is_ended(processor, name):
    more = processor.bridge([{"role": "user", "content": "Go."}], after=processor.encode_text("Do"))
    end = {"nemotron-vl": "\n<SPECIAL_12>\n<SPECIAL_11>User", "chatml": "<|im_end|>\n<|im_start|>user"}[name]
    assert processor.tokenizer.decode(more.ids, skip_control=False).startswith(end)


def test_another_end_token_than_the_templates_leaves_the_end_whole(bytewise):
    """Generation may also stop on `</s>`; the template's own end is then still to be written."""
    from holotron.model.processor import Tokenizer

    stops = Tokenizer(bytewise.backend, special=bytewise.special, eos_ids=[bytewise.token_id("</s>")])
    processor = Processor(stops, ChatTemplate.builtin("nemotron-vl", stops.special))
    more = processor.bridge([{"role": "user", "content": "Go."}], after=[5, bytewise.token_id("</s>")])
    assert stops.decode(more.ids, skip_control=False).startswith("\n<SPECIAL_12>\n<SPECIAL_11>User\nGo.")


def test_a_template_toggled_by_words_can_be_continued(bytewise):
    processor = Processor(bytewise, ChatTemplate(BY_WORDS, bytewise.special))
    for thinking, end in ((True, "<think>"), (False, "<think></think>")):
        more = processor.bridge([{"role": "user", "content": "Go."}], after=[], thinking=thinking)
        assert bytewise.decode(more.ids) == f"\n[user] Go.\n[assistant] {end}"


def test_a_template_that_drops_replies_cannot_be_continued(bytewise):
    processor = Processor(bytewise, ChatTemplate("{{ messages[0].content }}"))
    with pytest.raises(ConfigError, match="drops"):
        processor.bridge([{"role": "user", "content": "Go."}], after=[])
