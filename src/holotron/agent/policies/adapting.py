"""What servers of one protocol take differently. A request that is refused for the way it is put is put in another way,
and so are those after it.

    fitting = Fitting()
    request = fitting.fit(request)              # as this server wants it
    if fitting.learn(status, text, request):    # it refused: is there another way?
        ...                                     # ask again
"""

from __future__ import annotations

import re
from typing import Any

NEWER_NAME = "max_completion_tokens"
NO_SEED, NO_TEMPERATURE = "no seed", "no temperature"
_REFUSALS = (400, 422)


class Fitting:
    """`temperature`: whether it may be left to the server, where it takes none."""

    def __init__(self, *, temperature: bool = False) -> None:
        self._temperature = temperature
        self.known: set[str] = set()  # what the server did not take as it is

    def fit(self, request: dict[str, Any]) -> dict[str, Any]:
        request = dict(request)
        if NEWER_NAME in self.known and "max_tokens" in request:
            request[NEWER_NAME] = request.pop("max_tokens")
        if NO_SEED in self.known:
            request.pop("seed", None)
        if NO_TEMPERATURE in self.known:
            request.pop("temperature", None)
        return request

    def learn(self, status: int, text: str, request: dict[str, Any]) -> bool:
        """From a refusal of this request: whether it is worth asking again."""
        if status not in _REFUSALS:
            return False
        if NEWER_NAME in text and "max_tokens" in request:
            self.known.add(NEWER_NAME)
        elif re.search(r"\bseed\b", text) and "seed" in request:
            self.known.add(NO_SEED)
        elif self._temperature and re.search(r"\btemperature\b", text) and "temperature" in request:
            self.known.add(NO_TEMPERATURE)
        else:
            return False
        return True
