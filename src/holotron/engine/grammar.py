"""Constrained decoding with llguidance: which tokens may come next, and which must.

Compiling happens on a worker thread, once per distinct grammar; a request gets a copy of the compiled matcher. While a
generation runs, its matcher answers three questions after every token: may it end here, is the continuation forced
(then those tokens are appended without asking the network), and if not, which tokens are allowed.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from holotron.engine.api import Grammar
from holotron.errors import InputError, MissingDependency
from holotron.model.processor.tokenizer import Tokenizer

if TYPE_CHECKING:
    import llguidance

MAX_SOURCE = 128 * 1024  # characters
KEPT = 64  # compiled grammars
MOST_SAID = 500  # characters of the library's own words: it may repeat the grammar


class Matcher:
    """Where one generation stands in its grammar."""

    def __init__(self, matcher: llguidance.LLMatcher) -> None:
        self._matcher = matcher

    def copy(self) -> Matcher:
        """Another one that stands where this one stands."""
        return Matcher(self._matcher.deep_copy())

    def accept(self, token: int) -> None:
        if not self._matcher.consume_token(token):
            raise InputError(f"the grammar cannot go on: {self._matcher.get_error()}")

    def forced(self) -> list[int]:
        """Tokens that must come next, already accepted."""
        tokens = self._matcher.compute_ff_tokens()
        if tokens and not self._matcher.consume_tokens(tokens):
            raise InputError(f"the grammar cannot go on: {self._matcher.get_error()}")
        return tokens

    @property
    def finished(self) -> bool:
        """Nothing but the end can follow."""
        return self._matcher.is_stopped()

    def allowed(self) -> Tensor:
        """Bit mask over the vocabulary, int32 words."""
        words = np.frombuffer(self._matcher.compute_bitmask(), np.int32)
        if self._matcher.is_error():
            raise InputError(f"the grammar cannot go on: {self._matcher.get_error()}")
        return torch.from_numpy(words.copy())


class GrammarCompiler:
    """Compiles for one tokenizer; safe to call from several threads."""

    def __init__(self, tokenizer: Tokenizer, vocab: int, eos: Sequence[int]) -> None:
        self._tokenizer = tokenizer
        self._vocab = vocab
        self._eos = list(eos)
        self._guide: llguidance.LLTokenizer | None = None
        self._compiled: OrderedDict[tuple[bytes, Grammar], llguidance.LLMatcher] = OrderedDict()
        self._lock = threading.Lock()

    def compile(self, grammar: Grammar, scope: bytes = b"") -> Matcher:
        """What another scope has compiled is compiled again: the time it takes tells nothing about others."""
        try:
            import llguidance
        except ImportError:
            raise MissingDependency.extra("llguidance", "serve") from None
        with self._lock:
            if self._guide is None:
                self._guide = self._wrap(llguidance)
            ready = self._compiled.get((scope, grammar))
            if ready is not None:
                self._compiled.move_to_end((scope, grammar))
                return Matcher(ready.deep_copy())
        matcher = self._build(llguidance, grammar)
        with self._lock:
            self._compiled[scope, grammar] = matcher
            if len(self._compiled) > KEPT:
                self._compiled.popitem(last=False)
        return Matcher(matcher.deep_copy())

    def _build(self, llguidance: Any, grammar: Grammar) -> Any:
        if len(grammar.source) > MAX_SOURCE:
            raise InputError(f"the grammar has {len(grammar.source):,} characters; the limit is {MAX_SOURCE:,}")
        convert = {
            "json_schema": llguidance.LLMatcher.grammar_from_json_schema,
            "regex": llguidance.LLMatcher.grammar_from_regex,
            "lark": llguidance.LLMatcher.grammar_from_lark,
        }[grammar.kind]
        # A fifth of the library's limits: what an honest schema needs, and a hostile one exhausts within a second.
        limits = llguidance.LLParserLimits(
            initial_lexer_fuel=200_000, max_grammar_size=100_000, max_lexer_states=50_000, verbose_errors=False
        )
        try:
            matcher = llguidance.LLMatcher(self._guide, convert(grammar.source), log_level=0, limits=limits)
        except ValueError as error:
            raise InputError(f"the {grammar.kind} is malformed: {_said(str(error))}") from None
        trial = matcher.deep_copy()
        if not trial.is_error():
            # The heavy part comes with the first tokens: let it happen here, and let it fail here.
            trial.consume_tokens(trial.compute_ff_tokens())
            trial.compute_bitmask()
        if trial.is_error():
            raise InputError(f"the {grammar.kind} cannot be used: {_said(trial.get_error())}")
        return matcher

    def _wrap(self, llguidance: Any) -> Any:
        if not self._eos:
            raise InputError(
                "replies cannot be held to a grammar: nothing says which token ends them. Add eos_token_id to the "
                "checkpoint's generation_config.json"
            )
        tokenizer = self._tokenizer
        table = tokenizer.token_bytes[: self._vocab]
        table = table + [b""] * (self._vocab - len(table))

        class Vocabulary:
            eos_token_id = self._eos[0]
            bos_token_id = tokenizer.bos_id
            tokens = table
            special_token_ids = sorted(i for i in tokenizer.hidden_ids if i < len(table))

            def __call__(self, text: str) -> list[int]:
                return tokenizer.encode_plain(text)

        return llguidance.LLTokenizer(llguidance.TokenizerWrapper(Vocabulary()), eos_token=self._eos)


def _said(error: str) -> str:
    """What the library says, without its remark that it could say more."""
    text = error.removesuffix("<non-verbose/>").strip()
    if text == "NoExtensionBias":
        return "no reply could ever satisfy it"
    if text.startswith("panic:"):
        return "the compiler of grammars failed on it"
    return text if len(text) <= MOST_SAID else text[:MOST_SAID] + " ..."
