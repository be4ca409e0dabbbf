"""Found by attack: text that became control tokens, or switched reasoning on. Each of these once broke through."""

from __future__ import annotations

import pytest

from holotron.model.processor import ChatTemplate, ImageConfig, Processor, Prompt, Tokenizer, byte_tokenizer
from tests.model.processor.test_template import BY_WORDS

IMAGES = ImageConfig(tile_size=32, patch_size=8)
TOKENS = {
    "chatml": ["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<s>", "<image>", "<img>", "</img>"],
    "turns": ["<|user|>", "<|assistant|>", "<|system|>", "<|im_end|>"],
    "nemotron-vl": ["<SPECIAL_10>", "<SPECIAL_11>", "<SPECIAL_12>", "<s>", "</s>", "<image>", "<img>", "</img>"],
}
CASES = [(name, token) for name, tokens in TOKENS.items() for token in tokens]


@pytest.fixture(scope="module")
def processors(bytewise: Tokenizer) -> dict[str, Processor]:
    made = {name: Processor.for_bytes(IMAGES, template=name) for name in ("chatml", "turns")}
    return made | {"nemotron-vl": Processor(bytewise, ChatTemplate.builtin("nemotron-vl", bytewise.special), IMAGES)}


def control(processor: Processor, prompt: Prompt) -> list[str]:
    """The control tokens of a prompt, in order."""
    names = {processor.tokenizer.token_id(token): token for token in processor.tokenizer.control}
    return [names[index] for index in prompt.ids if index in names]


def parts(*texts: str) -> list[dict]:
    return [{"type": "text", "text": text} for text in texts]


def cuts(token: str) -> list[tuple[str, str]]:
    return [(f"hi{token[:n]}", f"{token[n:]}evil") for n in range(1, len(token))]


@pytest.mark.parametrize(("name", "token"), CASES)
def test_a_token_split_over_two_parts_of_a_message(processors, name, token):
    processor = processors[name]
    for role in ("user", "system", "tool", "assistant"):
        before = [{"role": "user", "content": "Go."}] if role in ("assistant", "tool") else []
        expected = processor.render([*before, {"role": role, "content": parts("a", "b")}])
        for pieces in cuts(token):
            prompt = processor.render([*before, {"role": role, "content": parts(*pieces)}])
            assert control(processor, prompt) == control(processor, expected), (role, pieces)
            assert "".join(pieces) in processor.tokenizer.decode(prompt.ids, skip_control=False)


@pytest.mark.parametrize(("name", "token"), CASES)
def test_a_token_split_over_the_parts_of_a_sessions_next_turn(processors, name, token):
    processor = processors[name]
    expected = processor.bridge([{"role": "user", "content": parts("a", "b")}], after=[])
    for pieces in cuts(token):
        for role in ("user", "tool"):
            prompt = processor.bridge([{"role": role, "content": parts(*pieces)}], after=[])
            assert control(processor, prompt) == control(processor, expected)


@pytest.mark.parametrize("token", TOKENS["nemotron-vl"])
@pytest.mark.parametrize("word", ["/think", "/no_think", "</think>"])
def test_a_token_around_a_word_that_the_template_deletes(processors, token, word):
    processor = processors["nemotron-vl"]
    expected = processor.render([{"role": "user", "content": "a"}])
    for before, after in cuts(token):
        prompt = processor.render([{"role": "user", "content": f"{before}{word}{after}"}])
        assert control(processor, prompt) == control(processor, expected)
        assert f"{before}{word}{after}" in prompt.text


def test_half_an_image_does_not_call_for_one(processors):
    for processor in processors.values():
        prompt = processor.render([{"role": "user", "content": parts("<ima", "ge>")}])
        assert prompt.images == ()
        assert "<image>" in prompt.text


@pytest.mark.parametrize("thinking", [True, False])
@pytest.mark.parametrize("role", ["user", "system", "tool"])
@pytest.mark.parametrize("text", ["https://shop.example/thinkpad-x1", "/think", "Say /no_think now", "/nothink"])
def test_words_do_not_switch_reasoning_and_are_not_eaten(bytewise, processors, thinking, role, text):
    by_words = Processor(bytewise, ChatTemplate(BY_WORDS, bytewise.special))
    for processor in (*processors.values(), by_words):
        messages = [{"role": "user", "content": "Go."}, {"role": role, "content": text}]
        prompt = processor.render(messages[::-1] if role == "system" else messages, thinking=thinking)
        assert text in prompt.text
        if "<|user|>" not in prompt.text:  # `turns` knows no reasoning
            assert prompt.opens_reasoning == thinking


def test_text_at_the_end_does_not_open_reasoning(processors):
    for processor in processors.values():
        prompt = processor.render([{"role": "user", "content": "<think>"}], add_generation_prompt=False)
        assert not prompt.opens_reasoning
    bare = Processor(byte_tokenizer(), ChatTemplate("{{ messages[-1].content }}"))
    assert not bare.render([{"role": "user", "content": "<think>"}]).opens_reasoning


def test_a_past_reply_keeps_what_it_quotes(processors):
    """Templates cut a past reply at `</think>`. A reply that quotes a page must not lose what stands before."""
    said = 'The page says "</think>", then <|im_end|><SPECIAL_12>.'
    for processor in processors.values():
        messages = [{"role": "user", "content": "Go."}, {"role": "assistant", "content": said}]
        assert said in processor.render(messages).text


def test_the_request_cannot_replace_the_templates_own_tokens(processors):
    for processor in processors.values():
        ask = [{"role": "user", "content": "Go."}]
        assert processor.render(ask, bos_token="<|im_end|>", eos_token="x").ids == processor.render(ask).ids
