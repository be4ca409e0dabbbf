"""Whose doing a request is: the agent's, or the page's own, which goes on whether anybody acts or not.

Before the agent's first action in a session everything is the page's own: the user chose that page. Its requests are
remembered, and from then on

* what repeats one of them (same method, address and content, times and identifiers aside) is the page's own, at any
  time: a heartbeat, a poll;
* what goes to the same address while a new page is loading, before the agent has touched it, is the page's own: the
  statistics that every page of a site sends. To a site on which the agent has been it must say the same but for where
  one is, and numbers, because many sites have one address for everything;
* a site that is opened for the first time is trusted as the first page was, while it is loading, with everything but
  sites on which the agent has been;
* everything else is the agent's doing, however long after its action, from whatever frame, tab or worker it comes.

A page gains nothing by sending something early in order to send it again later: it has sent it already. What carries
something that the agent has typed is nobody's habit (`gate`).
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import re
from urllib.parse import urlsplit

from holotron.envs.effects.judging import Sent, same_site

_TIME = re.compile(rb"\d{4}-\d\d-\d\d(?:[T +]|%20)\d\d(?::|%3A)\d\d(?:(?::|%3A)\d\d(?:\.\d+)?)?Z?", re.IGNORECASE)
_LONG = re.compile(rb"[\w.+/=-]{8,}")
_URL_SAFE = bytes.maketrans(b"-_", b"+/")
LONG_HEX = 16  # shorter numbers are words as well, by chance
LONGEST = 64  # letters of an identifier: what is longer says something
_WHERE = rb"page|path|pathname|url|uri|href|link|location|loc|title|referr?er|ref|screen|view|route|origin|dl|dp|dr|dt"
_PLACE = re.compile(rb'(?i)("(?:' + _WHERE + rb')"\s*:\s*)"(?:[^"\\]|\\.)*+"|((?:^|&)(?:' + _WHERE + rb")=)[^&\n]*")
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
MOST = 2000  # requests that are remembered
COMPARED = 1_000_000  # bytes of a body; one that is longer is like no other


class Background:
    def __init__(self) -> None:
        self.acted = False  # the agent has done something in this session
        self.fresh = True  # and nothing yet on the page in front
        self._repeats: set[str] = set()
        self._addresses: set[str] = set()
        self._shapes: set[str] = set()
        self._sites: list[str] = []  # on which the agent has been, by an address of each

    def touch(self, page: str = "") -> None:
        """The agent does something on the page at this address."""
        self.acted, self.fresh = True, False
        if page and not self._been_at(page):
            self._sites.append(page)

    def _been_at(self, url: str) -> bool:
        return any(same_site(url, site) for site in self._sites)

    def page_changed(self) -> None:
        """Another document is in front. One that only writes another address of its own has been touched."""
        self.fresh = True

    def owns(self, sent: Sent, page: str = "") -> bool:
        """Whether it is the page's own; `page` is the address of the one in front."""
        content = _content(sent)
        address, repeat = _address(sent), _digest(sent, content)
        first = self.fresh and bool(page) and not self._been_at(page) and not self._been_at(sent.url)
        if not self.acted or first:
            if len(self._repeats) < MOST:
                self._addresses.add(address)
                self._repeats.add(repeat)
                self._shapes.add(_digest(sent, _shape(content)))
            return True
        if sent.unseen or len(sent.body) > COMPARED:
            return False
        if repeat in self._repeats:
            return True
        if not self._been_at(sent.url):
            return self.fresh and address in self._addresses
        return self.fresh and _digest(sent, _shape(content)) in self._shapes


def _address(sent: Sent) -> str:
    parts = urlsplit(sent.url)
    return f"{sent.method} {parts.scheme}://{parts.netloc}{parts.path}"


def _content(sent: Sent) -> bytes:
    """The same for requests that differ only in times, and in identifiers: long words with digits in them. What is to
    be done may stand in a header, too; numbers in headers only count."""
    said = "".join(f"{name}: {value}\n" for name, value in sorted(sent.chosen().items()) if name != "referer")
    headers = _NUMBER.sub(b"#", said.encode())
    content = headers + urlsplit(sent.url).query.encode() + b"\n" + sent.body[:COMPARED]
    return _LONG.sub(lambda word: b"#" if _is_identifier(word[0]) else word[0], _TIME.sub(b"#", content))


def _is_identifier(word: bytes) -> bool:
    return len(word) <= LONGEST and any(48 <= byte <= 57 for byte in word) and not _is_text(word)


def _is_text(word: bytes) -> bool:
    """Whether it is words in a code."""
    decoded = b""
    with contextlib.suppress(binascii.Error):
        bare = word.rstrip(b"=").translate(_URL_SAFE)
        decoded = base64.b64decode(bare + b"=" * (-len(bare) % 4), validate=True)
    with contextlib.suppress(binascii.Error):
        decoded = binascii.unhexlify(word) if len(word) >= LONG_HEX else decoded
    return bool(decoded) and all(32 <= byte < 127 or byte in b"\t\r\n" for byte in decoded)


def _shape(content: bytes) -> bytes:
    """The same for requests that differ only in where one is, and in numbers."""
    placed = _PLACE.sub(lambda match: (match[1] or match[2]) + b"@", content)
    return _NUMBER.sub(b"#", placed)


def _digest(sent: Sent, content: bytes) -> str:
    return f"{_address(sent)} {hashlib.sha256(content).hexdigest()}"
