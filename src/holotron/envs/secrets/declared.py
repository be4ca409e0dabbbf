"""A secret as the user declares it: its value, and where it may be typed.

Secret("password", value, hosts=("shop.example",))                          # https alone, password fields alone
Secret("pin", value, hosts=("http://intranet",), fields=("any",))           # also without encryption; into any field
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from holotron.addresses import plain_host
from holotron.errors import ConfigError

SHORTEST = 4  # characters: masking every "1" would blot out pages
FIELDS = ("password", "payment", "any")
_SPEC = re.compile(r"(?P<name>[\w.-]+)(:(?P<field>\w+))?=(?P<variable>\w+)@(?P<hosts>[^@\s]+)")
_HOST = re.compile(r"(?:(?P<scheme>https?)://)?(?P<host>\[[0-9a-f:.]+\]|[^/:\[\]\s]+)(?::(?P<port>\d+))?/?")


@dataclass(frozen=True, slots=True)
class Secret:
    """`hosts`: and their subdomains; with a port, that port only. Only over https, except on this machine and where a
    host is written with http://. `fields`: "password" (also one-time codes), "payment", or "any" text field."""

    name: str
    value: str = field(repr=False)
    hosts: tuple[str, ...]
    fields: tuple[str, ...] = ("password",)

    def __post_init__(self) -> None:
        if len(self.value) < SHORTEST:
            raise ConfigError(f"The secret {self.name!r} is too short to be one: it needs {SHORTEST} characters.")
        if not self.hosts or isinstance(self.hosts, str):
            raise ConfigError(f"The secret {self.name!r} names no site on which it may be typed: hosts=(...,).")
        for host in self.hosts:
            if not (match := _HOST.fullmatch(host.lower())) or not match["host"].strip(".*"):
                raise ConfigError(
                    f"{host!r} of the secret {self.name!r} is no site; write shop.example or http://shop."
                )
        for one in (self.fields,) if isinstance(self.fields, str) else self.fields or ("",):
            if one not in FIELDS or isinstance(self.fields, str):
                raise ConfigError(f"{one!r} of the secret {self.name!r} is no kind of field: {', '.join(FIELDS)}.")

    @property
    def placeholder(self) -> str:
        return f"<secret:{self.name}>"

    def belongs_to(self, url: str) -> bool:
        """Whether it may be known to whoever is at this address, or has this origin."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            return False
        scheme, host = {"ws": "http", "wss": "https"}.get(parts.scheme, parts.scheme), parts.hostname or ""
        if scheme not in ("http", "https") or not host:
            return False
        return any(_covers(own, scheme, host, port) for own in self.hosts)

    def may_enter(self, kind: str) -> bool:
        return "any" in self.fields or kind in self.fields


def _covers(own: str, scheme: str, host: str, port: int | None) -> bool:
    match = _HOST.fullmatch(own.lower())
    assert match is not None
    name = plain_host(match["host"].strip("[]"))
    port = port or {"http": 80, "https": 443}[scheme]
    if match["port"] and int(match["port"]) != port:
        return False
    if host != name and (_is_address(host) or not host.endswith(f".{name}")):
        return False
    return scheme == "https" or match["scheme"] == "http" or is_this_machine(host)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_this_machine(host: str) -> bool:
    if _is_address(host):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost" or host.endswith(".localhost")


def socket_sources(host: str) -> str:
    """A host as a content security policy names it, for WebSockets."""
    match = _HOST.fullmatch(host.lower())
    assert match is not None
    name, port = plain_host(match["host"]), match["port"] or "*"
    plain = match["scheme"] == "http" or is_this_machine(name.strip("[]"))
    names = (name,) if _is_address(name.strip("[]")) else (name, f"*.{name}")
    return " ".join(f"{scheme}://{one}:{port}" for scheme in (("wss", "ws") if plain else ("wss",)) for one in names)


def parse_secret(spec: str) -> Secret:
    """`NAME[:FIELD]=VARIABLE@HOST[,HOST]`: the value comes from an environment variable, never from the command line,
    which other users of the machine can read."""
    match = _SPEC.fullmatch(spec)
    if match is None:
        raise ConfigError(
            f"{spec!r} is no secret; write NAME=VARIABLE@HOST, such as password=SHOP_PASSWORD@shop.example, "
            "or NAME:any=VARIABLE@HOST for fields that are not for passwords."
        )
    value = os.environ.get(match["variable"])
    if value is None:
        raise ConfigError(f"The environment variable {match['variable']} of the secret {match['name']!r} is not set.")
    return Secret(match["name"], value, tuple(match["hosts"].split(",")), (match["field"] or "password",))


def by_name(secrets: Iterable[Secret]) -> dict[str, Secret]:
    found: dict[str, Secret] = {}
    for secret in secrets:
        if secret.name in found:
            raise ConfigError(f"There are two secrets called {secret.name!r}.")
        found[secret.name] = secret
    return found
