"""How much of a stream its client has, so that another replica can go on with it; see `server.routed` for the comments
by which a replica says so.

    heard = Heard()
    for piece in answer: await send(heard.passed(piece))     # whole tokens only, without the comments
    await send(heard.rest())                                 # when the answer is complete: its end
"""

from __future__ import annotations

from typing import Any


class Heard:
    def __init__(self) -> None:
        self.begun = False
        self.tokens: dict[int, list[int]] = {}  # by choice
        self.spent: int | None = None
        self._ready = b""  # events of a token that is not complete yet
        self._torn = b""  # the beginning of an event

    def passed(self, piece: bytes) -> bytes:
        """What the client may have of it now: events up to the last token that is told completely."""
        *blocks, self._torn = (self._torn + piece).split(b"\n\n")
        out = b""
        for block in blocks:
            if not block.startswith(b":"):
                self._ready += block + b"\n\n"
                continue
            words = block[1:].split()
            if words[:1] == [b"spent"]:
                self.spent = int(words[1])
                continue
            if words == [b"begun"]:
                self.begun = True
            else:
                self.tokens.setdefault(int(words[0]), []).append(int(words[1]))
            out += self._ready
            self._ready = b""
        return out

    def rest(self) -> bytes:
        rest, self._ready, self._torn = self._ready + self._torn, b"", b""
        return rest

    def torn(self) -> None:
        """The replica is gone: what it had begun to say is said again elsewhere."""
        self._ready = self._torn = b""

    def told(self) -> dict[str, Any]:
        """For the replica that goes on with it."""
        return {"begun": self.begun, "said": {str(n): ids for n, ids in self.tokens.items()}}
