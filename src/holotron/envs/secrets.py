"""Passwords and the like that an agent may use and must not see.

    Secret("password", value, hosts=("shop.example",))

The policy writes `<secret:password>`; the environment types the value, and only on a page of those hosts. From then on
the value is masked in screenshots and replaced by its placeholder in addresses, titles and notes, so that it is in no
prompt, no record and no training data.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.resources import files
from urllib.parse import quote, quote_plus, urlsplit

from holotron.envs.hands import ActionRefused
from holotron.envs.tab import Tab
from holotron.errors import ConfigError

_MASK = (files(__package__) / "assets" / "mask.js").read_text()
_PLACEHOLDER = re.compile(r"<secret:([\w.-]+)>")
_SPEC = re.compile(r"(?P<name>[\w.-]+)=(?P<variable>\w+)@(?P<hosts>[^@\s]+)")
SHORTEST = 4  # characters: masking every "1" would blot out pages


@dataclass(frozen=True, slots=True)
class Secret:
    name: str
    value: str = field(repr=False)
    hosts: tuple[str, ...]  # and their subdomains; with a port, that port only

    def __post_init__(self) -> None:
        if len(self.value) < SHORTEST:
            raise ConfigError(f"The secret {self.name!r} is too short to be one: it needs {SHORTEST} characters.")
        if not self.hosts:
            raise ConfigError(f"The secret {self.name!r} names no site on which it may be typed.")

    @property
    def placeholder(self) -> str:
        return f"<secret:{self.name}>"

    def belongs_to(self, url: str) -> bool:
        parts = urlsplit(url)
        host = parts.hostname or ""
        names = (host, f"{host}:{parts.port}")
        return any(name == own or name.endswith(f".{own}") for own in self.hosts for name in names)


def parse_secret(spec: str) -> Secret:
    """`NAME=VARIABLE@HOST[,HOST]`: the value comes from an environment variable, never from the command line, which
    other users of the machine can read."""
    match = _SPEC.fullmatch(spec)
    if match is None:
        raise ConfigError(
            f"{spec!r} is no secret; write NAME=VARIABLE@HOST, such as password=SHOP_PASSWORD@shop.example."
        )
    value = os.environ.get(match["variable"])
    if value is None:
        raise ConfigError(f"The environment variable {match['variable']} of the secret {match['name']!r} is not set.")
    return Secret(match["name"], value, tuple(match["hosts"].lower().split(",")))


class Secrets:
    """The secrets of one session."""

    def __init__(self, secrets: Iterable[Secret]) -> None:
        self._by_name = {secret.name: secret for secret in secrets}
        self._typed: set[str] = set()

    def explain(self) -> str:
        """What to tell the policy, after its goal."""
        if not self._by_name:
            return ""
        names = ", ".join(f"{s.placeholder} (on {', '.join(s.hosts)})" for s in self._by_name.values())
        return f" Where a secret value is asked for, write its placeholder exactly as it stands: {names}."

    def fill(self, text: str, url: str) -> str:
        """The text with values for placeholders, for a page at `url`."""

        def value(match: re.Match[str]) -> str:
            secret = self._by_name.get(match[1])
            if secret is None:
                raise ActionRefused(
                    f"There is no secret {match[1]!r}; there are: {', '.join(self._by_name) or 'none'}."
                )
            if not secret.belongs_to(url):
                here, hosts = urlsplit(url).netloc, ", ".join(secret.hosts)
                raise ActionRefused(f"{secret.placeholder} may be typed on {hosts} only, and this is {here}.")
            self._typed.add(secret.name)
            return secret.value

        return _PLACEHOLDER.sub(value, text)

    def redact(self, text: str) -> str:
        """The text with placeholders for values, in every spelling an address may have."""
        for name in self._typed:
            secret = self._by_name[name]
            for spelling in (secret.value, quote(secret.value, safe=""), quote_plus(secret.value)):
                text = text.replace(spelling, secret.placeholder)
        return text

    async def mask(self, tab: Tab) -> None:
        """Hide in the page what has been typed. A page gets to know no value that is not for its own site."""
        typed = (self._by_name[name] for name in sorted(self._typed))
        values = [secret.value for secret in typed if secret.belongs_to(tab.page.url)]
        if values:
            await tab.evaluate(f"{_MASK.strip()}({json.dumps(values)})")
