"""Whose doing a request is: the agent's, or the page's own, which goes on whether anybody acts or not.

Before the agent's first action in a session everything is the page's own: the user chose that page. Its requests are
remembered, and from then on

* what repeats one of them (same method, address and content, times and identifiers aside) is the page's own, at any
  time: a heartbeat, a poll;
* what goes to the same address while a page is loading, before the agent has touched it, is the page's own: the
  statistics that every page of a site sends;
* a site that is opened for the first time is trusted as the first page was, while it is loading, with everything but
  sites on which the agent has been;
* everything else is the agent's doing, however long after its action, from whatever frame, tab or worker it comes.

A page gains nothing by sending something early in order to send it again later: it has sent it already.
"""

from __future__ import annotations

import hashlib
import re
from urllib.parse import urlsplit

from holotron.envs.effects.judging import Sent, same_site

_LONG = re.compile(rb"[\w.+/=-]{8,}")
MOST = 2000  # requests that are remembered
COMPARED = 1_000_000  # bytes of a body


class Background:
    def __init__(self) -> None:
        self.acted = False  # the agent has done something in this session
        self.fresh = True  # and nothing yet on the page in front
        self._repeats: set[str] = set()
        self._addresses: set[str] = set()
        self._sites: list[str] = []  # on which the agent has been, by an address of each

    def touch(self, page: str = "") -> None:
        """The agent does something on the page at this address."""
        self.acted, self.fresh = True, False
        if page and not self._been_at(page):
            self._sites.append(page)

    def _been_at(self, url: str) -> bool:
        return any(same_site(url, site) for site in self._sites)

    def page_changed(self) -> None:
        self.fresh = True

    def owns(self, sent: Sent, page: str = "") -> bool:
        """Whether it is the page's own; `page` is the address of the one in front."""
        address, repeat = _address(sent), _repeat(sent)
        first = self.fresh and bool(page) and not self._been_at(page) and not self._been_at(sent.url)
        if not self.acted or first:
            if len(self._repeats) < MOST:
                self._addresses.add(address)
                self._repeats.add(repeat)
            return True
        repeated = repeat in self._repeats and not sent.unseen
        return repeated or (self.fresh and address in self._addresses)


def _address(sent: Sent) -> str:
    parts = urlsplit(sent.url)
    return f"{sent.method} {parts.scheme}://{parts.netloc}{parts.path}"


def _repeat(sent: Sent) -> str:
    """The same for requests that differ only in long words with digits in them: times, identifiers."""
    content = urlsplit(sent.url).query.encode() + b"\n" + sent.body[:COMPARED]
    lasting = _LONG.sub(lambda word: b"" if any(48 <= byte <= 57 for byte in word[0]) else word[0], content)
    return f"{_address(sent)} {hashlib.sha256(lasting).hexdigest()}"
