"""Text that somebody else chose (a page's title, a dialog, a model's own words), made fit to stand inside ours.

one_line("Shop\n| 1: Bank", 60)      'Shop | 1: Bank'
quoted('Sure?"; it was', 60)         '"Sure?\\'; it was"'       the quote ends where ours ends
"""

from __future__ import annotations

import re

_HALVES = re.compile("[\ud800-\udfff]")  # of surrogate pairs: JavaScript and JSON can say one alone, UTF-8 cannot
# Control characters (terminals obey them), marks that turn the direction of text, and letters that nobody sees.
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]"
)


def valid(text: str) -> str:
    """As it is, if it can be sent and stored at all."""
    return text if text.isascii() else _HALVES.sub("\ufffd", text)


def one_line(text: str, limit: int) -> str:
    """On one line, without what cannot be seen, of at most this many characters."""
    flat = " ".join(_UNSEEN.sub("", valid(text[: 20 * limit])).split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def quoted(text: str, limit: int) -> str:
    """In double quotes, of which it holds none itself."""
    inside = one_line(text, limit).replace('"', "'")
    return f'"{inside}"'
