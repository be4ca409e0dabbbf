"""What needs no asking: rules per site, in a TOML file.

    [[always]]                              # sent without a question
    origin = "https://shop.example"         # scheme and host; or a host: shop.example (and subdomains), *.shop.example
    method = ["POST"]                       # any that changes something, where it is not given
    path = "/cart/*"                        # * stops at a slash, ** does not; any, where it is not given

    [[never]]                               # never sent, whatever it is
    origin = "tracker.example"

    [[ask]]                                 # asked about although it looks harmless: a GET that changes something
    origin = "https://shop.example"
    method = "GET"
    path = "/one-click/**"

Where several match, the strictest counts: never before ask before always. `kind` says what a rule is about: "request"
(forms, scripts, addresses, beacons, messages over open connections), which it is where it is not given, or
"field", "dialog", "download", "secret" (requests that take a secret to a site to which it does not belong).
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from holotron.addresses import plain_host
from holotron.envs.effects.question import Kind, group_of
from holotron.envs.network import DEFAULT_PORTS, NetworkPolicy
from holotron.errors import ConfigError

Verdict = Literal["always", "never", "ask"]
VERDICTS: tuple[Verdict, ...] = ("never", "ask", "always")  # the strictest first
_KEYS = ("origin", "method", "path", "kind")
_KINDS = ("request", "field", "dialog", "download", "secret")
_HIDDEN = re.compile(r"%2f|%5c|%2e|%3b|;|\\|//", re.IGNORECASE)  # in a path: servers do not agree on what these mean


@dataclass(frozen=True, slots=True)
class Rule:
    verdict: Verdict
    origin: str
    methods: tuple[str, ...] = ()
    path: str = ""
    kind: str = "request"

    def matches(self, kind: Kind, method: str, url: str) -> bool:
        if group_of(kind) != self.kind or not self._matches_origin(url):
            return False
        if self.methods and method.upper() not in self.methods:
            return False
        return not self.path or self._matches_path(urlsplit(url).path or "/")

    def _matches_origin(self, url: str) -> bool:
        parts = urlsplit(url)
        scheme = {"ws": "http", "wss": "https"}.get(parts.scheme, parts.scheme)
        port = parts.port or DEFAULT_PORTS.get(scheme, 0)
        if "://" not in self.origin:
            return NetworkPolicy(allow=(self.origin,)).listed(parts.hostname or "", port)
        own = urlsplit(self.origin)
        if (own.scheme, own.port or DEFAULT_PORTS.get(own.scheme)) != (scheme, port):
            return False
        return plain_host(own.hostname or "") == plain_host(parts.hostname or "")

    def _matches_path(self, path: str) -> bool:
        """To the letter where it opens, generously where it closes: `/Order/` and `/order;x` are `/order` to many
        servers."""
        if self.verdict == "always":
            return not _HIDDEN.search(path) and re.fullmatch(_glob(self.path), path) is not None
        plain = re.sub(r"[/\\]+", "/", re.sub(r";[^/\\]*", "", unquote(path))).rstrip("/") or "/"
        return re.fullmatch(_glob(self.path.rstrip("/") or "/"), plain, re.IGNORECASE) is not None


def _glob(pattern: str) -> str:
    parts = re.split(r"(\*\*|\*)", pattern)
    return "".join({"**": ".*", "*": "[^/]*"}.get(part, re.escape(part)) for part in parts)


@dataclass(frozen=True, slots=True)
class Rules:
    rules: tuple[Rule, ...] = ()

    def verdict(self, kind: Kind, method: str, url: str) -> Verdict | None:
        """None: nothing is said about this."""
        found = {rule.verdict for rule in self.rules if rule.matches(kind, method, url)}
        return next((verdict for verdict in VERDICTS if verdict in found), None)


def load_rules(source: str | Path | Rules | None) -> Rules:
    if isinstance(source, Rules):
        return source
    if source is None:
        return Rules()
    try:
        return parse_rules(tomllib.loads(Path(source).read_text()), str(source))
    except OSError as error:
        raise ConfigError(f"The rules {source} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{source} is not a TOML file: {error}.") from None


def parse_rules(table: dict[str, Any], name: str = "rules") -> Rules:
    unknown = set(table) - set(VERDICTS)
    if unknown:
        raise ConfigError(f"{name} has {sorted(unknown)[0]!r}; there are [[always]], [[never]] and [[ask]].")
    rules = []
    for verdict in VERDICTS:
        entries = table.get(verdict, [])
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise ConfigError(f"{name}: write [[{verdict}]] with two brackets, one block for each rule.")
        rules += [_rule(verdict, entry, f"{name}, [[{verdict}]] number {n}") for n, entry in enumerate(entries, 1)]
    return Rules(tuple(rules))


def _rule(verdict: Verdict, entry: dict[str, Any], where: str) -> Rule:
    unknown = set(entry) - set(_KEYS)
    if unknown:
        raise ConfigError(f"{where} has {sorted(unknown)[0]!r}; there are: {', '.join(_KEYS)}.")
    origin, path, kind = (entry.get(key, "") for key in ("origin", "path", "kind"))
    methods = entry.get("method", [])
    methods = [methods] if isinstance(methods, str) else methods
    if not isinstance(origin, str) or not origin:
        raise ConfigError(f"{where} needs an origin, such as https://shop.example.")
    if "://" in origin:
        parts = urlsplit(origin)
        if parts.scheme not in DEFAULT_PORTS or not parts.hostname or parts.path.strip("/") or parts.query:
            raise ConfigError(f"{where}: {origin!r} is not an origin; write https://shop.example, and the path apart.")
    else:
        NetworkPolicy(allow=(origin,))  # says what is wrong with it
    if not isinstance(path, str) or (path and not path.startswith("/")):
        raise ConfigError(f"{where}: a path begins with a slash, and {path!r} does not.")
    if not isinstance(methods, list) or not all(isinstance(method, str) for method in methods):
        raise ConfigError(f'{where}: write method = "POST" or method = ["POST", "PUT"].')
    if kind and kind not in _KINDS:
        raise ConfigError(f"{where}: {kind!r} is no kind; there are: {', '.join(_KINDS)}.")
    return Rule(verdict, origin.lower(), tuple(method.upper() for method in methods), path, kind or "request")
