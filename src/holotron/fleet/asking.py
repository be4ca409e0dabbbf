"""What a request wants from the router: a session, a response to continue, or whoever knows how it begins.

A body is read once, as far as that says. What is wrong with it is for the replica to tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain
from typing import Any, Literal

from pydantic_core import SchemaValidator, ValidationError, core_schema, from_json

Kind = Literal["generate", "open", "session", "fork", "move", "sessions", "response", "any"]

GENERATES = ("/v1/chat/completions", "/v1/completions", "/v1/responses")
VERBS = ("append", "fork", "rewind", "compact", "move")
PUBLIC = ("/version", "/openapi.json", "/docs")  # without a key
OTHERS = ("/v1/models", "/tokenize", "/detokenize", *PUBLIC)
_SESSION = re.compile(r"/v1/sessions/([A-Za-z0-9_.:-]{1,128})(?:/(\w+))?")
_RESPONSE = re.compile(r"/v1/responses/(resp_[0-9a-f]{1,64})(?:/\w+)?")
_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_NOT_SAID = frozenset(["id", "status", "annotations", "logprobs", "detail"])
PICTURE_TOKENS = 1500  # of a screenshot, about
LETTERS = 4  # per token, about
PIECE = 2048  # letters of a long text that are one link of its chain
MOST_TEXTS = 10_000  # that are looked at in one request: how it begins is enough
SMALL, FEW_VALUES = 2**20, 4096  # bytes and values that are read at once; more than that on a thread
_FLAG = SchemaValidator(core_schema.bool_schema())  # replicas take "true" and 1 for true, too


@dataclass(frozen=True)
class Link:
    """One more message: the digest of everything up to its end, and about how many tokens that are."""

    digest: bytes
    tokens: int


@dataclass(frozen=True)
class Asks:
    kind: Kind
    session: str | None = None  # ours, by name
    opens: bool = False
    forks: int = 0  # sessions that will be made from it
    made: tuple[str, ...] = ()  # their names, where the client gives them
    response: str | None = None  # that it continues or is about
    header: str | None = None  # x-session-id
    chain: tuple[Link, ...] = ()  # how the conversation begins
    pictures: tuple[bytes, ...] = ()  # digests

    @property
    def tokens(self) -> int:
        return self.chain[-1].tokens if self.chain else 0


@dataclass
class _Reading:
    owner: bytes
    digest: bytes = b""
    tokens: int = 0
    texts: int = 0
    links: list[Link] = field(default_factory=list)
    pictures: list[bytes] = field(default_factory=list)

    def add(self, value: Any) -> bool:
        """One message, item or piece of text. False: enough was read, and this one not to its end."""
        digest = blake2b(self.digest, digest_size=16, key=self.owner)
        for text in _texts(value):
            self.texts += 1
            if self.texts > MOST_TEXTS:
                return False
            data = text.encode("utf-8", "surrogatepass")
            if len(data) > 64:
                data = blake2b(data, digest_size=32, key=self.owner).digest()
            digest.update(len(data).to_bytes(1, "big") + data)
            if text.startswith("data:image/"):
                self.pictures.append(data)
                self.tokens += PICTURE_TOKENS
            else:
                self.tokens += 1 + len(text) // LETTERS
        self.digest = digest.digest()
        self.links.append(Link(self.digest, self.tokens))
        return True


def _texts(value: Any) -> Iterator[str]:
    """Everything a message says, in order; without the ids that clients and servers give it. Not by recursion: through
    a hundred levels each text would pass a hundred times."""
    rest = [value]
    while rest:
        one = rest.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            said = [(key, part) for key, part in one.items() if key not in _NOT_SAID and part is not None]
            rest.extend(word for key, part in reversed(said) for word in (part, key))
        elif isinstance(one, list):
            rest.extend(reversed(one))
        else:
            yield repr(one)


def quickly_read(body: bytes) -> bool:
    """Whether reading it keeps nobody waiting. It takes time per value, not per byte: screenshots are quick."""
    return len(body) <= SMALL and sum(map(body.count, (b",", b"[", b"{"))) <= FEW_VALUES


def route_of(path: str) -> str:
    """As one server calls it in its metrics."""
    if path in GENERATES or path == "/v1/sessions":
        return path
    if found := _SESSION.fullmatch(path):
        return "/v1/sessions/{session_id}" + (f"/{found[2]}" if found[2] in VERBS else "")
    if _RESPONSE.fullmatch(path):
        return "/v1/responses/{response_id}"
    return path if path in OTHERS else "unknown"


def asked(method: str, path: str, body: bytes, header: str | None, owner: str) -> Asks:
    """`header`: x-session-id. Knowing a beginning is of use within one owner only."""
    if method == "POST" and path in GENERATES:
        try:
            told = from_json(body, allow_inf_nan=False)
        except ValueError:
            told = None
        return _generation(told if isinstance(told, dict) else {}, header, owner)
    if path == "/v1/sessions":
        return _opening(body) if method == "POST" else Asks("sessions" if method == "GET" else "any")
    if found := _SESSION.fullmatch(path):
        name, verb = found[1], found[2]
        if verb == "move" and method == "POST":
            return Asks("move", session=name)
        if verb == "fork" and method == "POST":
            forks, made = _forks(body)
            return Asks("fork", session=name, forks=forks, made=made)
        return Asks("session", session=name)
    if found := _RESPONSE.fullmatch(path):
        return Asks("response", response=found[1])
    return Asks("any")


def _generation(told: dict[str, Any], header: str | None, owner: str) -> Asks:
    session, response = _text(told.get("session_id")), _text(told.get("previous_response_id"))
    if _flag(told.get("session_open")):
        return Asks("generate", session=session, opens=True)
    if session is not None:
        name = _text(told.get("fork"))
        forks = name is not None or _flag(told.get("fork"))
        return Asks("generate", session=session, forks=int(forks), made=(name,) if name is not None else ())
    if response is not None:
        return Asks("generate", response=response)
    if header is not None and _NAME.fullmatch(header):
        return Asks("generate", header=header)
    reading = _Reading(owner.encode()[:64])
    prompt = next((told[name] for name in ("messages", "input", "prompt") if name in told), None)
    before = [part for name in ("tools", "instructions") if (part := told.get(name))]
    for part in chain(before, _parts(prompt)):
        if not reading.add(part):
            break
    return Asks("generate", chain=tuple(reading.links), pictures=tuple(reading.pictures))


def _parts(prompt: Any) -> Iterator[Any]:
    if isinstance(prompt, str):
        yield from (prompt[start : start + PIECE] for start in range(0, len(prompt), PIECE))
    elif isinstance(prompt, list) and prompt and isinstance(prompt[0], int):
        step = PIECE // LETTERS
        yield from (repr(prompt[start : start + step]) for start in range(0, len(prompt), step))
    elif isinstance(prompt, list):
        yield from prompt


def _opening(body: bytes) -> Asks:
    try:
        told = from_json(body) if body else {}
    except ValueError:
        told = {}
    return Asks("open", session=_text(told.get("id")) if isinstance(told, dict) else None, opens=True)


def _forks(body: bytes) -> tuple[int, tuple[str, ...]]:
    """How many, and the names that they are given."""
    try:
        told = from_json(body) if body else {}
    except ValueError:
        return 1, ()
    if not isinstance(told, dict):
        return 1, ()
    ids, n = told.get("ids"), told.get("n")
    if isinstance(ids, list):
        return len(ids), tuple(name for name in map(_text, ids[:1024]) if name is not None)
    return n if isinstance(n, int) and 0 < n <= 1024 else 1, ()


def _flag(value: Any) -> bool:
    try:
        return bool(_FLAG.validate_python(value))
    except ValidationError:
        return False


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and _NAME.fullmatch(value) else None
