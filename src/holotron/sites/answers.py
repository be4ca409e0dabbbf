"""Is this the answer? Agents answer in sentences, so what counts is the value in them, compared by its kind.

    matches("It costs €1,049.50.", "1049.50", "number")            # True
    matches("Either Oslo or Bergen", "Oslo", others=("Bergen",))   # False
    says_impossible("This cannot be done: it is sold out.")        # True

Naming several of the values that could be meant is no answer, and neither is a page copied out.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Literal

Kind = Literal["text", "number", "impossible"]

LONGEST = 300  # characters; nobody who knows the answer needs more, and a page copied out would hold every value

_NUMBER = re.compile(r"(?<![\w.,])[-−]?\d+(?:[.,'\u2019\u00a0\u202f ]?\d{3})*(?:[.,]\d{1,2})?(?![\w])")

_IMPOSSIBLE = re.compile(
    r"\b(impossible|infeasible|not (?:possible|feasible|available|achievable)|unavailable|unable to|sold out|"
    r"out of stock|does not exist|doesn.t exist|no such|"
    r"(?:cannot|can.t|could not|couldn.t) be (?:done|completed|found)|n/a)(?!\w)",
    re.IGNORECASE,
)


def normal(text: str) -> str:
    """Lower case, without accents, punctuation and extra white space."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))
    return " ".join(re.sub(r"[^\w]+", " ", plain).split())


def numbers(text: str) -> list[float]:
    """Every number in the text, however thousands and decimals are marked."""
    return [_value(match[0]) for match in _NUMBER.finditer(text)]


def _value(written: str) -> float:
    sign = -1.0 if written[0] in "-−" else 1.0
    digits = written.lstrip("-−")
    decimals = re.search(r"[.,](\d{1,2})$", digits)
    whole = digits[: decimals.start()] if decimals else digits
    return sign * float(f"{re.sub('[^0-9]', '', whole) or 0}.{decimals[1] if decimals else 0}")


def says_impossible(answer: str) -> bool:
    return len(answer) <= LONGEST and _IMPOSSIBLE.search(answer) is not None


def matches(answer: str, expected: str, kind: Kind = "text", others: Sequence[str] = ()) -> bool:
    """Whether the answer says `expected` and none of `others`, the values it could be confused with."""
    if kind == "impossible":
        return says_impossible(answer)
    if len(answer) > LONGEST:
        return False
    if kind == "number":
        said = numbers(answer)
        wrong = {_only(other) for other in others} - {_only(expected)}
        return _only(expected) in said and not wrong & set(said)
    said_text = f" {normal(answer)} "

    def named(value: str) -> bool:
        return f" {normal(value)} " in said_text

    # A longer name that contains the right one is not that name: "Oslo lamp shade" is no "Oslo lamp".
    longer = [other for other in others if normal(expected) in normal(other) and normal(other) != normal(expected)]
    for other in longer:
        said_text = said_text.replace(f" {normal(other)} ", " # ") if named(other) else said_text
    return named(expected) and "#" not in said_text and not any(named(other) for other in others if other != expected)


def _only(value: str) -> float:
    found = numbers(value)
    if len(found) != 1:
        raise ValueError(f"{value!r} is not one number")
    return found[0]
