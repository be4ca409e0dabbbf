"""What pages say: labels, names, prices, sentences, in several languages or in no language at all.

A model that learns to read must not learn a vocabulary instead. So a page speaks in one of three voices: real words,
invented ones (letter by letter after the language's own statistics), or plain random strings. And pages repeat
themselves: a label often shares a word with another one, so that recognising half of it is not enough.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from functools import cache
from importlib.resources import files
from typing import Literal

Voice = Literal["real", "invented", "random"]

LANGUAGES = ("en", "de", "fr", "es", "pt", "it", "pl", "cs", "tr", "sv", "vi", "ru", "uk", "el")
PUNCTUATION = "!#$%&*+-/:;=?@_.,()[]{}<>~^|'\""
_ASCII = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_CURRENCIES = ("${}", "{} €", "£{}", "€{}", "{} USD", "{} kr", "{} zł", "¥{}")
_DOMAINS = ("example.com", "mail.org", "acme.io", "webshop.net", "company.co", "uni.edu")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@cache
def _lists(language: str) -> dict[str, list[str]]:
    raw = json.loads((files(__package__) / "assets" / "words.json").read_text(encoding="utf-8"))[language]
    return {kind: text.split("|") if kind == "ui" else text.split() for kind, text in raw.items()}


@cache
def _followers(language: str) -> dict[str, str]:
    """Which letters follow two others in the language's words ("^" begins a word, "$" ends it)."""
    table: defaultdict[str, list[str]] = defaultdict(list)
    for word in _lists(language)["words"]:
        marked = f"^^{word.lower()}$"
        for i in range(2, len(marked)):
            table[marked[i - 2 : i]].append(marked[i])
    return {pair: "".join(letters) for pair, letters in table.items()}


@cache
def alphabet(language: str) -> str:
    """The letters and digits of a language, both cases."""
    letters = {letter for words in _lists(language).values() for word in words for letter in word if letter.isalpha()}
    single = {form for letter in letters for form in (letter.lower(), letter.upper()) if len(form) == 1}
    return "".join(sorted(single)) + "0123456789"


class Words:
    """The words of one page, all drawn from one random stream."""

    def __init__(self, rng: random.Random, language: str = "en", voice: Voice = "real", sharing: float = 0.3) -> None:
        self.rng = rng
        self.language = language
        self.voice = voice
        self.sharing = sharing  # how often a label shares a word with another one
        self._lists = _lists(language)
        self._used: list[str] = []  # words that labels have used, to be shared
        self._labels: set[str] = set()

    # --------------------------------------------------------------------------------------------------- small parts

    def word(self) -> str:
        if self.voice == "random" and self.rng.random() < 0.8:
            return self.string(self.rng.randint(2, 9))
        if self.voice == "invented":
            return self.invented()
        return self.rng.choice(self._lists["words"])

    def invented(self) -> str:
        """A word that no list has, but that looks like the language."""
        followers, pair, letters = _followers(self.language), "^^", ""
        while len(letters) < 11:
            letter = self.rng.choice(followers[pair])
            if letter == "$":
                if len(letters) > 2:
                    break
                pair, letters = "^^", ""
                continue
            letters += letter
            pair = pair[1] + letter
        return letters

    def string(self, length: int) -> str:
        """Random characters, mostly letters and digits. No spaces."""
        letters = alphabet(self.language) if self.rng.random() < 0.5 else _ASCII
        kind = self.rng.random()
        if kind < 0.15:
            letters = "0123456789"
        elif kind < 0.3:
            letters = letters.lower()
        elif kind < 0.4:
            letters = letters.upper()
        elif kind < 0.5:
            letters += PUNCTUATION
        return "".join(self.rng.choice(letters) for _ in range(length))

    def code(self) -> str:
        return self.rng.choice((
            lambda: self.string(self.rng.randint(4, 8)),
            lambda: f"{self.string(2).upper()}-{self.number(4)}",
            lambda: f"#{self.number(5)}",
            lambda: "".join(self.rng.choice("0123456789abcdef") for _ in range(7)),
        ))()  # fmt: skip

    def number(self, digits: int) -> str:
        return str(self.rng.randint(10 ** (digits - 1), 10**digits - 1))

    # ----------------------------------------------------------------------------------------------------- labels

    def label(self, most_words: int = 3) -> str:
        """What a button, link or field is called. Distinct on a page, but often sharing words with another label."""
        for _ in range(20):
            label = self._label(most_words)
            if label and label.lower() not in self._labels:
                break
        else:
            label = f"{label} {self.rng.randint(2, 99)}"
        self._labels.add(label.lower())
        self._used.extend(label.split())
        return label

    def _label(self, most_words: int) -> str:
        rng = self.rng
        if self._used and most_words > 1 and rng.random() < self.sharing:
            parts = [rng.choice(self._used), self.word()]
            rng.shuffle(parts)
            return self._cased(" ".join(parts))
        if self.voice == "real" and rng.random() < 0.55:
            ready = rng.choice(self._lists["ui"])
            if len(ready.split()) <= most_words:
                return ready
        return self._cased(" ".join(self.word() for _ in range(rng.choice((1, 1, 2, most_words)))))

    def _cased(self, text: str) -> str:
        style = self.rng.random()
        if self.voice == "random":
            return text
        return text.capitalize() if style < 0.55 else text.title() if style < 0.8 else text

    # ------------------------------------------------------------------------------------------------- longer things

    def sentence(self, words: int) -> str:
        text = " ".join(self.word() for _ in range(words))
        return text[:1].upper() + text[1:] + self.rng.choice("...!?")

    def person(self) -> str:
        if self.voice == "random" and self.rng.random() < 0.5:
            return self.string(self.rng.randint(3, 8))
        first, last = self.rng.choice(self._lists["first"]), self.rng.choice(self._lists["last"])
        return self.rng.choice((first, f"{first} {last}", f"{first} {last[0]}."))

    def email(self) -> str:
        name = self.rng.choice(_lists("en")["first"]).lower()
        return f"{name}{self.rng.choice(('', '.', '_'))}{self.string(3).lower()}@{self.rng.choice(_DOMAINS)}"

    def price(self) -> str:
        amount = self.rng.choice((f"{self.rng.uniform(1, 99):.2f}", f"{self.rng.randint(1, 2000)}"))
        return self.rng.choice(_CURRENCIES).format(amount)

    def date(self) -> str:
        day, month, year = self.rng.randint(1, 28), self.rng.randint(1, 12), self.rng.randint(1990, 2035)
        return self.rng.choice((
            f"{month:02d}/{day:02d}/{year}", f"{year}-{month:02d}-{day:02d}", f"{day}.{month}.{year}",
            f"{_MONTHS[month - 1]} {day}", f"{day} {_MONTHS[month - 1]} {year}", f"{_MONTHS[month - 1]} {day}, {year}",
        ))  # fmt: skip

    def time(self) -> str:
        hour, minute = self.rng.randint(0, 23), self.rng.randint(0, 59)
        return self.rng.choice(
            (f"{hour:02d}:{minute:02d}", f"{hour % 12 + 1}:{minute:02d} {'AM' if hour < 12 else 'PM'}")
        )

    def datum(self) -> str:
        """A short value of any kind, as found in tables."""
        return self.rng.choice((
            self.price, self.date, self.time, self.person, self.code, lambda: self.number(self.rng.randint(1, 5)),
            lambda: f"{self.rng.randint(0, 100)}%", self.word, self.word,
        ))()  # fmt: skip

    def entry(self) -> str:
        """Something a person types into a field."""
        return self.rng.choice((self.person, self.word, self.code, self.email, lambda: self.number(4), self.date))()


_CHANCES: list[tuple[Voice, float]] = [("real", 0.5), ("invented", 0.28), ("random", 0.22)]


def draw_words(rng: random.Random, languages: tuple[str, ...], sharing: float = 0.3) -> Words:
    """The words of a new page; half of all pages are in English when the font allows it."""
    language = "en" if "en" in languages and rng.random() < 0.5 else rng.choice(languages)
    voice = rng.choices([voice for voice, _ in _CHANCES], [chance for _, chance in _CHANCES])[0]
    return Words(rng, language, voice, sharing)
