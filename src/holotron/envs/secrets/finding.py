"""Finding secrets in text, however it is written: other case, other widths, spaces, dashes or invisible letters in
between, half of it, or encoded as addresses, JSON, base64 and hex have it.

    finder = Finder([Secret("code", "hunter2-long", hosts=...)])
    finder.redact("the code: HUNTER 2 LONG")        'the code: <secret:code>'

Text is compared *folded*: without case, accents and everything that is neither letter nor digit. Secrets that have
little else keep their signs.
"""

from __future__ import annotations

import base64
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holotron.envs.secrets.declared import Secret

TELLING = 5  # folded letters in a row give a secret away, if they are half of it
ENOUGH = 16  # and so many always
FEW = 6  # folded letters: shorter than this, signs count as well
_EACH_PLACE = 200  # longer secrets are looked for at every eighth place only

Span = tuple[int, int, str]  # from, to, name


class _Fold(dict[int, str]):
    """For `str.translate`: what becomes of a character."""

    def __init__(self, signs: bool) -> None:
        super().__init__()
        self._signs = signs

    def __missing__(self, code: int) -> str:
        letters = unicodedata.normalize("NFKD", chr(code)).casefold()
        kept = "".join(letter for letter in unicodedata.normalize("NFKD", letters) if self._keeps(letter))
        self[code] = kept
        return kept

    def _keeps(self, letter: str) -> bool:
        if letter.isalnum():
            return True
        return self._signs and unicodedata.category(letter)[0] in "PS"


_LETTERS, _SIGNS = _Fold(signs=False), _Fold(signs=True)


def fold(text: str, *, signs: bool = False) -> str:
    return text.translate(_SIGNS if signs else _LETTERS)


def _places(text: str, signs: bool) -> list[int]:
    """Where each folded letter stands in the text."""
    table = _SIGNS if signs else _LETTERS
    return [at for at, sign in enumerate(text) for _ in table[ord(sign)]]


@dataclass(frozen=True, slots=True)
class _Needle:
    name: str
    value: str
    signs: bool
    pieces: tuple[str, ...]  # any of these gives it away
    encoded: re.Pattern[str]

    def marks(self, folded: str) -> list[tuple[int, int]]:
        """Where it stands in folded text."""
        found = []
        for piece in self.pieces:
            at = folded.find(piece)
            while at >= 0:
                found.append((at, at + len(piece)))
                at = folded.find(piece, at + 1)
        return _merged(found)


def _needle(secret: Secret) -> _Needle:
    signs = len(fold(secret.value)) < FEW
    whole = fold(secret.value, signs=signs) or secret.value
    size = len(whole) if len(whole) < FEW else min(ENOUGH, max(TELLING, -(-len(whole) // 2)))
    step = 1 if len(whole) <= _EACH_PLACE else 8
    pieces = dict.fromkeys(whole[at : at + size] for at in range(0, len(whole) - size + 1, step))
    return _Needle(
        secret.name, secret.value, signs, tuple(pieces), re.compile("|".join(_spellings(secret.value)), re.IGNORECASE)
    )


def _spellings(value: str) -> list[str]:
    """As patterns: letter by letter in an address, in JSON or in HTML; as base64, wherever it may begin; as hex."""
    each = ["".join(f"(?:{'|'.join(_letter(letter))})" for letter in text) for text in {value, value[::-1]}]
    for data in (value.encode(), value.encode("utf-16-le")):
        each += [re.escape(data.hex())]
        for before in range(3):
            coded = base64.b64encode(b"\0" * before + data).decode().rstrip("=")
            known = coded[-(-before * 4 // 3) : len(coded) - (1 if (before + len(data)) % 3 else 0)]
            each += ["".join({"+": "[+-]", "/": "[/_]"}.get(sign, sign) for sign in known)] if len(known) > 4 else []
    return each


def _letter(letter: str) -> list[str]:
    code = ord(letter)
    percent = "".join(f"%(?:25)*{byte:02x}" for byte in letter.encode("utf-8", "replace"))
    ways = [re.escape(letter), percent, rf"\\u{code:04x}", rf"\\x{code:02x}", f"&#0*{code};", f"&#x0*{code:x};"]
    named = {" ": [r"\+"], "&": ["&amp;"], "<": ["&lt;"], ">": ["&gt;"], '"': ["&quot;", r"\\\""], "\\": [r"\\\\"]}
    return ways + named.get(letter, [])


class Finder:
    def __init__(self, secrets: Iterable[Secret]) -> None:
        known = list(secrets)
        self._placeholders = {secret.name: secret.placeholder for secret in known}
        self._needles = tuple(map(_needle, known))

    def __bool__(self) -> bool:
        return bool(self._needles)

    @property
    def every(self) -> set[str]:
        return {needle.name for needle in self._needles}

    def names(self, text: str) -> set[str]:
        """Which secrets, or telling parts of them, stand in a text."""
        if not self._needles:
            return set()
        folded = {signs: fold(text, signs=signs) for signs in {needle.signs for needle in self._needles}}
        return {
            needle.name
            for needle in self._needles
            if any(piece in folded[needle.signs] for piece in needle.pieces) or needle.encoded.search(text)
        }

    def spans(self, text: str) -> list[Span]:
        """Where they stand, in places of the text as it is."""
        found: list[Span] = []
        for needle in self._needles:
            marks = needle.marks(fold(text, signs=needle.signs))
            if marks:
                places = _places(text, needle.signs)
                found += [(places[a], places[b - 1] + 1, needle.name) for a, b in marks]
            found += [(*match.span(), needle.name) for match in needle.encoded.finditer(text) if match[0]]
        return sorted(found)

    def across(self, texts: Sequence[str]) -> dict[int, list[tuple[int, int]]]:
        """The same in texts that stand one after the other: which of them hold a part, and where in each."""
        found: dict[int, list[tuple[int, int]]] = {}
        whole = "".join(texts)
        for signs in {needle.signs for needle in self._needles}:
            needles = [needle for needle in self._needles if needle.signs is signs]
            marks = [mark for needle in needles for mark in needle.marks(fold(whole, signs=signs))]
            if not marks:
                continue
            begin = 0
            for index, text in enumerate(texts):
                end = begin + len(fold(text, signs=signs))
                for a, b in marks:
                    if a < end and b > begin:  # what goes on in the next text, or comes from the last, has no gap there
                        places = _places(text, signs)
                        first = 0 if a < begin else places[a - begin]
                        last = len(text) if b > end else places[b - 1 - begin] + 1
                        found.setdefault(index, []).append((first, last))
                for needle in needles if index in found else ():  # with the signs around it
                    at = text.find(needle.value)
                    found[index] += [(at, at + len(needle.value))] if at >= 0 else []
                begin = end
        return {index: _merged(spans) for index, spans in found.items()}

    def redact(self, text: str) -> str:
        """The text with placeholders for secrets."""
        spans = self.spans(text)
        if not spans:
            return text
        pieces, at = [], 0
        for begin, end, name in _joined(spans):
            pieces += [text[at:begin], self._placeholders[name]]
            at = end
        return "".join([*pieces, text[at:]])


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def _joined(spans: list[Span]) -> list[Span]:
    """Without overlaps; of two that overlap, the first one's name stands."""
    joined: list[Span] = []
    for begin, end, name in spans:
        if joined and begin < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]), joined[-1][2])
        else:
            joined.append((begin, end, name))
    return joined
