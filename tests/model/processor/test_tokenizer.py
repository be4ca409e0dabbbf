from __future__ import annotations

import json

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from holotron.errors import CheckpointError, ConfigError, InputError
from holotron.model.processor import StreamDecoder, Tokenizer, byte_tokenizer
from holotron.model.processor.ink import ink

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


def streamed(tokenizer: Tokenizer, ids: list[int], **options) -> list[str]:
    decoder = StreamDecoder(tokenizer, **options)
    return [decoder.push(index) for index in ids] + [decoder.finish()]


# --------------------------------------------------------------------------------- against transformers' fast tokenizer


@settings(max_examples=300, deadline=None)
@given(text=texts)
def test_encoding_equals_transformers(tokenizer, oracle, text):
    assert tokenizer.encode(text) == oracle.encode(text, add_special_tokens=False)


def test_control_tokens_in_trusted_text_count(tokenizer, oracle):
    text = "<s><SPECIAL_11>User\n<img><image></img> hello<SPECIAL_12>"
    ids = tokenizer.encode(text)
    assert ids == oracle.encode(text, add_special_tokens=False)
    assert tokenizer.image_id in ids
    assert ids[0] == tokenizer.bos_id


@settings(max_examples=500, deadline=None)
@given(data=st.data())
def test_streaming_any_ids_equals_transformers_decode(tokenizer, oracle, data):
    # Arbitrary ids: most sequences are broken UTF-8 somewhere, with control tokens in the middle of characters.
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=40))
    for skip in (True, False):
        expected = oracle.decode(ids, skip_special_tokens=skip)
        assert "".join(streamed(tokenizer, ids, skip_control=skip)) == expected
        assert tokenizer.decode(ids, skip_control=skip) == expected


# ------------------------------------------------------------------------------------------------------------ streaming


@settings(max_examples=300, deadline=None)
@given(text=texts)
def test_streaming_gives_back_the_text_and_only_whole_characters(tokenizer, text):
    pieces = streamed(tokenizer, tokenizer.encode_plain(text))
    assert "".join(pieces) == text
    assert "\ufffd" in text or not any("\ufffd" in piece for piece in pieces)


def test_a_character_of_four_tokens_comes_with_the_last():
    tokenizer = byte_tokenizer()
    assert streamed(tokenizer, tokenizer.encode("🙂!")) == ["", "", "", "🙂", "!", ""]


def test_an_incomplete_character_at_the_end_is_marked():
    tokenizer = byte_tokenizer()
    assert streamed(tokenizer, tokenizer.encode("a🙂")[:-1]) == ["a", "", "", "", "\ufffd"]


def test_reply_markup_survives_decoding_even_when_flagged_special():
    tokenizer = byte_tokenizer()
    ids = tokenizer.encode("<|im_start|><think>hm</think>yes<|im_end|>")
    assert tokenizer.decode(ids) == "<think>hm</think>yes"
    assert tokenizer.decode(ids, skip_control=False) == "<|im_start|><think>hm</think>yes<|im_end|>"


# ---------------------------------------------------------------------------------------------------------------- bytes


@settings(max_examples=200, deadline=None)
@given(text=texts)
def test_bytes_of_tokens_are_the_bytes_of_the_text(tokenizer, text):
    assert b"".join(map(tokenizer.bytes_of, tokenizer.encode_plain(text))) == text.encode()


def test_the_token_table_covers_the_vocabulary(tokenizer):
    table = tokenizer.token_bytes
    assert len(table) == tokenizer.vocab_size == tokenizer.backend.get_vocab_size()
    assert all(table)
    assert {bytes([byte]) for byte in range(256)} <= set(table)
    assert table[tokenizer.image_id] == b"<image>"


def test_ids_beyond_the_vocabulary_stand_for_nothing(tokenizer):
    assert tokenizer.bytes_of(10**6) == tokenizer.bytes_of(-1) == b""
    assert tokenizer.decode([10**6]) == ""


# --------------------------------------------------------------------------------------------- text apart from control


@settings(max_examples=300, deadline=None)
@given(
    pieces=st.lists(st.one_of(texts, st.sampled_from(["<s>", "<img>", "<image>", "<SPECIAL_11>", "<SPECIAL_1", "<"])))
)
def test_plain_text_never_becomes_a_control_token(tokenizer, pieces):
    text = "".join(pieces)
    ids = tokenizer.encode_plain(text)
    assert not set(ids) & {tokenizer.token_id(token) for token in tokenizer.control}
    assert tokenizer.decode(ids, skip_control=False) == text


@settings(max_examples=300, deadline=None)
@given(text=st.text("<SPECIAL_1>/simge", max_size=40), data=st.data())
def test_only_ink_becomes_control(tokenizer, text, data):
    """Whatever stands before and behind it, and however the text around it is broken off."""
    cut = data.draw(st.integers(0, len(text)))
    token = data.draw(st.sampled_from(sorted(tokenizer.control)))
    ids = tokenizer.encode_inked(text[:cut] + ink(token) + text[cut:])
    assert [index for index in ids if index in tokenizer.control_ids] == [tokenizer.token_id(token)]
    assert tokenizer.decode(ids, skip_control=False) == text[:cut] + token + text[cut:]


@settings(max_examples=200, deadline=None)
@given(pieces=st.lists(st.one_of(texts, st.sampled_from(["<s>", "<SPECIAL_11>", "<img>"]))))
def test_what_a_template_writes_is_encoded_as_transformers_does(tokenizer, oracle, pieces):
    """Ink that is no control token is text like that around it, and merges with it."""
    written = "".join(pieces)
    assert tokenizer.encode_inked(ink(written)) == oracle.encode(written, add_special_tokens=False)
    harmless = "".join(ink(piece) if piece in tokenizer.control else piece for piece in pieces)
    if not any(token in "".join(piece for piece in pieces if piece not in tokenizer.control) for token in ("<", ">")):
        assert tokenizer.encode_inked(harmless) == oracle.encode(written, add_special_tokens=False)


def test_overlapping_control_tokens_are_all_found():
    backend = byte_tokenizer().backend
    backend.add_special_tokens(["ab|", "|ab", "b|a"])
    tokenizer = Tokenizer(backend)
    assert tokenizer.encode_plain("ab|ab|ab") == list(b"ab|ab|ab")


def test_a_token_in_brackets_is_control_though_nobody_flagged_it():
    """As Qwen's `<tool_response>`; a word that somebody added to the vocabulary is a word."""
    backend = byte_tokenizer().backend
    backend.add_tokens(["<tool_response>", "[INST]", "holotron", "   "])
    tokenizer = Tokenizer(backend)
    assert {"<tool_response>", "[INST]"} <= tokenizer.control
    assert tokenizer.encode_plain("<tool_response>[INST]") == list(b"<tool_response>[INST]")
    assert tokenizer.encode_plain("holotron   ") == [backend.token_to_id("holotron"), backend.token_to_id("   ")]
    assert tokenizer.decode(tokenizer.encode("<tool_response>")) == "<tool_response>"  # only flagged ones are hidden


def test_a_token_that_swallows_white_space_does_so_as_in_transformers():
    backend = byte_tokenizer().backend
    backend.add_special_tokens(
        [tokenizers.AddedToken("<|end|>", rstrip=True), tokenizers.AddedToken("<m>", lstrip=True)]
    )
    tokenizer = Tokenizer(backend)
    text = "a <|end|> \n b \t<m> c"
    inked = text.replace("<|end|>", ink("<|end|>")).replace("<m>", ink("<m>"))
    assert tokenizer.encode_inked(inked) == tokenizer.encode(text) == backend.encode(text).ids


def test_a_normaliser_cannot_make_a_token_of_something_else():
    backend = byte_tokenizer().backend
    backend.normalizer = tokenizers.normalizers.NFKC()
    backend.add_special_tokens([tokenizers.AddedToken("<|end|>", normalized=True), tokenizers.AddedToken("(1)")])
    tokenizer = Tokenizer(backend)
    for text in ("＜｜end｜＞", "a<|end|>b", "⑴", "a⑴", "⑴b"):
        assert not set(tokenizer.encode_plain(text)) & tokenizer.control_ids, text


def test_lone_surrogates_are_refused(tokenizer):
    with pytest.raises(InputError, match="Unicode"):
        tokenizer.encode("a\ud800b")


# ------------------------------------------------------------------------------------------------------- byte tokenizer


def test_byte_tokens_are_bytes():
    tokenizer = byte_tokenizer()
    assert tokenizer.encode("Aé") == list("Aé".encode())
    assert (tokenizer.image_id, tokenizer.image_start_id, tokenizer.image_end_id) == (256, 257, 258)
    assert (tokenizer.bos_id, tokenizer.eos_ids) == (259, {260})
    assert tokenizer.vocab_size == 267


def test_byte_tokens_make_room_for_ids_a_model_fixes():
    tokenizer = byte_tokenizer(image=131_072, image_start=131_073, image_end=131_074, bos=1, eos=12)
    assert (tokenizer.image_id, tokenizer.bos_id, tokenizer.eos_ids) == (131_072, 1, {12})
    text = "".join(map(chr, range(300)))
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert len({tokenizer.token_bytes[index] for index in range(131_075)}) == 256 + 11 + 1  # and the empty gaps


def test_a_byte_tokenizer_without_bos_or_images():
    tokenizer = byte_tokenizer(image=None, image_start=None, image_end=None, bos=None, eos=256)
    assert tokenizer.image_id is None
    assert tokenizer.bos_id is None
    assert tokenizer.encode("<image><s>") == list(b"<image><s>")


def test_the_byte_tokenizer_is_a_real_tokenizer_json(tmp_path):
    tokenizer = byte_tokenizer()
    tokenizer.backend.save(str(tmp_path / "tokenizer.json"))
    text = "<|im_start|>user\ngrüße 🙂<|im_end|>"
    loaded = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert loaded.encode(text).ids == tokenizer.encode(text)


# ------------------------------------------------------------------------------------------------------------ bad files


def test_a_broken_file_is_named(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"tokenizer\.json"):
        Tokenizer.from_file(tmp_path / "tokenizer.json")


def test_only_byte_level_tokenizers_are_accepted(tmp_path):
    (tmp_path / "tokenizer.json").write_text(tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, "a")).to_str())
    with pytest.raises(ConfigError, match="byte-level"):
        Tokenizer.from_file(tmp_path / "tokenizer.json")


def test_a_special_token_that_does_not_exist_is_named(backend):
    with pytest.raises(CheckpointError, match="<nope>"):
        Tokenizer(backend, special={"bos_token": "<nope>"})


def test_saved_truncation_does_not_cut_prompts(tmp_path, backend):
    saved = json.loads(backend.to_str())
    saved["truncation"] = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
    (tmp_path / "tokenizer.json").write_text(json.dumps(saved))
    assert len(Tokenizer.from_file(tmp_path / "tokenizer.json").encode("a b c d e f")) > 2
