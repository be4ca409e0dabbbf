"""Recognising a secret in what leaves the browser: plain, in pieces, or encoded in the ways that a line of script does.

Looked into are addresses, headers, bodies and messages. Each is read as it is and as what comes out when percent signs,
escapes of JSON and HTML, base64, hex, numbers of letters and wide letters are undone, one in the other, up to three
times; backwards as well. What a script encrypts or compresses is not recognised; what is too long to be looked into
counts as if it held every secret.
"""

from __future__ import annotations

import binascii
import html
import re
from collections.abc import Iterable, Iterator
from urllib.parse import parse_qsl, unquote_plus

from holotron.envs.secrets.finding import Finder

LONGEST = 200_000  # characters of one text; a larger one is not looked into
DEEPEST = 3  # encodings in encodings
_CODED = re.compile(r"[A-Za-z0-9+/_-]{6,}={0,2}")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}[\s:,%x\\-]{0,2}){4,}")
_NUMBERS = re.compile(r"\d{2,5}(?:[^0-9A-Za-z]{1,4}\d{2,5}){3,}")
_ESCAPES = re.compile(r"\\u\{?([0-9a-fA-F]{2,6})\}?|\\x([0-9a-fA-F]{2})|%u([0-9a-fA-F]{4})")


def carried(finder: Finder, texts: Iterable[str]) -> set[str]:
    """The names of the secrets that these texts hold."""
    found: set[str] = set()
    for text in texts:
        if len(text) > LONGEST:
            return finder.every
        for view in views(text):
            found |= finder.names(view)
    return found


def views(text: str) -> Iterator[str]:
    """The text, and what it may stand for."""
    seen: dict[str, None] = {}
    waiting = [text]
    for _ in range(DEEPEST + 1):
        fresh = [one for one in dict.fromkeys(waiting) if one and one not in seen]
        seen |= dict.fromkeys(fresh)
        for one in fresh:
            yield one
            yield one[::-1]
        waiting = [view for one in fresh for view in _decoded(one)]


def _decoded(text: str) -> Iterator[str]:
    if "%" in text or "+" in text:
        yield unquote_plus(text)
    if "&" in text:
        yield html.unescape(text)
    if "=" in text:
        query = text.partition("?")[2] or text
        yield "".join(value for _, value in parse_qsl(query.partition("\n")[0], keep_blank_values=True))  # in pieces
    if "\\" in text or "%u" in text:
        yield _ESCAPES.sub(_letter, text)
    if "\0" in text:
        yield text.replace("\0", "")  # wide letters
    yield from _from_base64(_CODED.findall(text))
    hexes = (re.sub(r"[^0-9a-fA-F]", "", digits) for digits in _HEX.findall(text))
    yield "\n".join(bytes.fromhex(digits).decode("utf-8", "replace").replace("\0", "") for digits in hexes)
    yield "\n".join(_from_numbers(numbers) for numbers in _NUMBERS.findall(text))


def _from_numbers(numbers: str) -> str:
    return "".join(chr(int(number)) for number in re.findall(r"\d+", numbers) if int(number) < 0xD800)


def _letter(match: re.Match[str]) -> str:
    code = int(match[1] or match[2] or match[3], 16)
    return chr(code) if code < 0xD800 else " "


def _from_base64(words: list[str]) -> Iterator[str]:
    """All of them together, once for each place at which something else may end that stands before."""
    for start in range(4):
        texts = []
        for word in words:
            whole = word.rstrip("=").replace("-", "+").replace("_", "/")[start:]
            whole = whole[:-1] if len(whole) % 4 == 1 else whole
            text = binascii.a2b_base64(whole + "=" * (-len(whole) % 4)).decode("utf-8", "replace").replace("\0", "")
            if text.count("\ufffd") * 4 <= len(text):  # or it was no text
                texts.append(text)
        yield "\n".join(texts)
