"""A small but real byte-level BPE tokenizer with the control tokens of Nemotron Nano v2 VL, and its oracle."""

from __future__ import annotations

import pytest
import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers, trainers

from holotron.model.processor import Tokenizer

# The pre-tokenisation of the Tekken family: words keep one leading sign, signs keep the line breaks behind them.
SPLIT_PATTERN = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CORPUS = [
    "Click the button labelled Submit, then read the answer.\nThe quick brown fox jumps over the lazy dog.\n",
    '<think>\nThe user wants the third link.\n</think>\n{"action": "click", "x": 512, "y": 88}\n',
    "Système, naïve, Größe, 日本語のテキスト, русский текст, 🙂🙃\n",
] * 20
SPECIAL = ["<unk>", "<s>", "</s>", *[f"<SPECIAL_{n}>" for n in range(3, 20)]]
IMAGES = ["<image>", "<img>", "</img>"]


@pytest.fixture(scope="session")
def backend() -> tokenizers.Tokenizer:
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT_PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(CORPUS, trainer)
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in IMAGES])
    return backend


@pytest.fixture(scope="session")
def tokenizer(backend: tokenizers.Tokenizer) -> Tokenizer:
    return Tokenizer(backend, special={"bos_token": "<s>", "eos_token": "<SPECIAL_12>", "unk_token": "<unk>"})


@pytest.fixture(scope="session")
def oracle(backend: tokenizers.Tokenizer):
    """The same tokenizer in transformers."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token="<s>",
        eos_token="<SPECIAL_12>",
        unk_token="<unk>",
        clean_up_tokenization_spaces=False,
    )


@pytest.fixture(scope="session")
def bytewise() -> Tokenizer:
    """The same control tokens over single bytes: no two neighbours ever merge, so texts can be compared by ids."""
    vocab = {char: n for n, char in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    backend = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL + IMAGES])
    return Tokenizer(backend, special={"bos_token": "<s>", "eos_token": "<SPECIAL_12>"})
