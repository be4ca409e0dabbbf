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
            match block[1:].split():
                case [b"spent", tokens] if tokens.isdigit():
                    self.spent = int(tokens)
                    continue
                case [b"begun"]:
                    self.begun = True
                case [index, token] if index.isdigit() and token.isdigit():
                    self.tokens.setdefault(int(index), []).append(int(token))
                case _:  # of somebody between us and the replica, to keep the connection open
                    continue
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
