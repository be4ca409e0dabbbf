"""API keys: where they come from, and who a request belongs to.

    keys = api_keys(settings.server)          # ConfigError if keys were meant to be there and are not
    owner = Keys(keys).owner(authorization)   # None: no such key

A server without keys is open to whoever can reach it. That must be what its operator wants: not saying anything about
keys is one thing (and the log warns if the network can reach it), naming an empty list or an empty file is another, and
an error. `server.open = true` says it outright.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from pathlib import Path

from holotron.errors import ConfigError
from holotron.server.settings import ServerSettings

KEY_SETTINGS = {"server.api_keys", "server.api_key_file"}
ANYONE = "anyone"  # the owner of everything, where there are no keys


def api_keys(settings: ServerSettings, *, said: bool = False) -> tuple[str, ...]:
    """All keys, once each. `said`: keys were spoken of, if only to say that there are none."""
    said = said or settings.api_keys is not None or settings.api_key_file is not None
    keys = [key.get_secret_value() for key in settings.api_keys or ()]
    for n, key in enumerate(keys, start=1):
        _check(key, f"server.api_keys: key {n}")
    if settings.api_key_file is not None:
        keys += read_keys(settings.api_key_file)
    if settings.open and keys:
        raise ConfigError("server.open serves everybody, but there are API keys too: leave out one of the two")
    if said and not keys and not settings.open:
        raise ConfigError(
            "server.api_keys and server.api_key_file name no key at all, which would leave the server open to "
            "everybody. Add a key, or say so: server.open = true"
        )
    return tuple(dict.fromkeys(keys))


def read_keys(path: Path) -> list[str]:
    """One per line. Empty lines and lines that begin with # are none."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()  # some editors begin a file with a mark
    except FileNotFoundError:
        raise ConfigError(f"server.api_key_file: there is no file {path}") from None
    except OSError as error:
        raise ConfigError(f"server.api_key_file: cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"server.api_key_file: {path} is not a text file") from None
    keys = []
    for n, line in enumerate(lines, start=1):
        key = line.strip()
        if key and not key.startswith("#"):
            _check(key, f"{path}, line {n}")
            keys.append(key)
    return keys


def _check(key: str, where: str) -> None:
    """Never with the key itself: it is a secret, right or wrong."""
    if not key or not all(33 <= ord(letter) <= 126 for letter in key):
        raise ConfigError(f"{where} is not a key: keys are letters, digits and signs of ASCII, without spaces")


class Keys:
    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = [key.encode() for key in keys]

    def __len__(self) -> int:
        return len(self._keys)

    def owner(self, authorization: bytes | None) -> str | None:
        """Who it is, by the value of the header; None: nobody we know."""
        if not self._keys:
            return ANYONE
        kind, _, given = (authorization or b"").partition(b" ")
        # All keys are compared, each in constant time: the time taken tells nothing about any of them.
        matches = [hmac.compare_digest(given.strip(), key) for key in self._keys]
        if kind.lower() != b"bearer" or not any(matches):
            return None
        return hashlib.sha256(self._keys[matches.index(True)]).hexdigest()[:12]
