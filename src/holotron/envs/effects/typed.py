"""What the agent has typed, to recognise it in what leaves: an address that carries it to another site.

typed.add("ann@example.com", "https://shop.example/join")
typed.carried_by("https://tracker.example/?d=YW5uQGV4YW1wbGUuY29t")      'ann@example.com'
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import re
from urllib.parse import parse_qsl, unquote_plus

SHORTEST = 4  # characters: "5" is in every address
LOOKED_AT = 200_000  # characters of a body
MOST = 200  # texts that are remembered
LONGEST_SEARCH = 80
LOOKED_AT_CLOSELY = 2000  # characters of a value
_AUTHORITY = re.compile(r"^(\w+://)?[^/?#]*")
_CODED = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}")
_MAIL = re.compile(r"[^\s@]+@[^\s@]+\.\w+")
_CARD = re.compile(r"\d[\d -]{11,22}\d")
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]){11,30}\b", re.IGNORECASE)


class Typed:
    def __init__(self) -> None:
        self._texts: dict[str, str] = {}  # the text as it is looked for, and where it was typed
        self._searches: dict[str, str] = {}

    def add(self, text: str, site: str, *, search: bool = False) -> None:
        """`search`: it was typed to find something, so results will have its words in their addresses. Then only an
        address counts that carries it whole, as the value of a field, or in a code. Many words are no search."""
        search = search and len(text) <= LONGEST_SEARCH and "\n" not in text.strip()
        key, texts = _plain(text), self._searches if search else self._texts
        if len(key) >= SHORTEST:
            texts.pop(key, None)
            texts[key] = site
            while len(texts) > MOST:
                del texts[next(iter(texts))]

    def carried_by(self, text: str) -> dict[str, str]:
        """Which of the texts it holds, and where each was typed; also encoded in the usual ways."""
        if not self._texts and not self._searches:
            return {}
        if len(text.partition("\n")[0]) > LOOKED_AT:  # an address too long to be looked into
            return self._texts | self._searches
        text = text[:LOOKED_AT]
        spellings = [text]
        for _ in range(3):
            spellings.append(unquote_plus(spellings[-1]))
        values = [value for _, value in parse_qsl(text.partition("?")[2].partition("\n")[0])]
        spellings.append("".join(values))  # in pieces
        spellings += [one[::-1] for one in dict.fromkeys(spellings)]
        plain = list(dict.fromkeys(spellings))
        coded = [decoded for one in plain for token in _tokens(one) for decoded in _decoded(token)]
        seen, hidden = ("\n".join(_plain(one) for one in dict.fromkeys(ones)) for ones in ([*plain, *coded], coded))
        found = {key: site for key, site in self._texts.items() if key in seen}
        found |= {key: site for key, site in self._searches.items() if key in hidden}
        return found | {key: self._searches[key] for key in map(_plain, values) if key in self._searches}


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _tokens(text: str) -> list[str]:
    """What may be in a code. A slash is a letter of base64, and divides addresses."""
    found = list(dict.fromkeys(_CODED.findall(text)))
    return list(dict.fromkeys([*found, *(part for one in found for part in one.split("/") if part != one)]))


def _decoded(token: str) -> list[str]:
    found = []
    bare = token.rstrip("=").replace("-", "+").replace("_", "/")
    with contextlib.suppress(binascii.Error, ValueError):
        found.append(base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True).decode())
    with contextlib.suppress(ValueError):
        found.append(bytes.fromhex(token).decode())
    return found


def is_told(url: str) -> str:
    """What an address tells that somebody has put into it: a mail address, a payment's number, many words, plain or in
    a code. Empty: nothing of that kind."""
    told = _AUTHORITY.sub("", url.strip()[:LOOKED_AT])
    for value in map(unquote_plus, re.split(r"[/?#&;=]", told)):
        hidden = _decoded(value)
        if any(_MAIL.search(one[:LOOKED_AT_CLOSELY]) or is_payment(one) for one in (value, *hidden)):
            return value
        if (len(value) > LONGEST_SEARCH and value.count(" ") >= 5) or any(one.count(" ") >= 2 for one in hidden):
            return value
    return ""


def is_payment(text: str) -> bool:
    """A card number or an IBAN, by their own check digits: no label is needed to recognise them."""
    if any(_luhn(re.sub(r"\D", "", card)) for card in _CARD.findall(text)):
        return True
    return any(_mod97(re.sub(r"\s", "", iban).upper()) for iban in _IBAN.findall(text))


def is_personal(text: str) -> bool:
    """An address or a number that belongs to somebody."""
    text = text[:LOOKED_AT_CLOSELY]
    return bool(_MAIL.search(text)) or is_payment(text) or len(re.findall(r"\d", text)) >= 9


def _luhn(digits: str) -> bool:
    if not 13 <= len(digits) <= 19 or len(set(digits)) == 1:
        return False
    doubled = [int(digit) * (1 + index % 2) for index, digit in enumerate(reversed(digits))]
    return sum(number - 9 * (number > 9) for number in doubled) % 10 == 0


def _mod97(iban: str) -> bool:
    if not 15 <= len(iban) <= 34:
        return False
    return int("".join(str(int(letter, 36)) for letter in iban[4:] + iban[:4])) % 97 == 1
