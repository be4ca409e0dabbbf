"""The secrets of one session: what the policy is told of them, what is put for a placeholder and where, and what must
be taken out of everything that is said, shown or sent."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from holotron.envs.hands import ActionRefused
from holotron.envs.secrets.declared import Secret, by_name, socket_sources
from holotron.envs.secrets.finding import Finder
from holotron.envs.secrets.leaving import carried

_PLACEHOLDER = re.compile(r"<secret:([\w.-]+)>")
_KINDS = {"password": "fields for passwords", "payment": "fields for cards and accounts"}


class Secrets:
    def __init__(self, secrets: Iterable[Secret], hidden: Mapping[str, str] | None = None) -> None:
        """`hidden`: what else must be told nowhere, by the name that stands for it."""
        self._by_name = by_name(secrets)
        self._entered: dict[str, Secret] = {}  # which are in the browser now
        self._leaving = Finder([])
        self.documents: set[str] = set()  # into which one was typed, by the browser's id of them
        others = [Secret(name, value, hosts=("unknown.invalid",)) for name, value in (hidden or {}).items()]
        self.finder = Finder([*self._by_name.values(), *others])

    def __bool__(self) -> bool:
        return bool(self._by_name)

    def explain(self) -> str:
        """What to tell the policy, after its goal."""
        if not self._by_name:
            return ""
        names = ", ".join(f"{s.placeholder} (on {', '.join(s.hosts)})" for s in self._by_name.values())
        return f" Where a secret value is asked for, write its placeholder exactly as it stands: {names}."

    # -------------------------------------------------------------------------------------------------- into a page

    def asked_for(self, text: str) -> bool:
        """Whether there are placeholders in it."""
        return _PLACEHOLDER.search(text) is not None

    def fill(self, text: str, origin: str, kind: str) -> str:
        """The text with values for placeholders, for a field of this kind in a frame of this origin."""

        def value(match: re.Match[str]) -> str:
            secret = self._by_name.get(match[1])
            if secret is None:
                names = ", ".join(self._by_name) or "none"
                raise ActionRefused(f"There is no secret {match[1]!r}; there are: {names}.")
            self.check(secret, origin, kind)
            return secret.value

        return _PLACEHOLDER.sub(value, text)

    def check(self, secret: Secret, origin: str, kind: str) -> None:
        """Whether it may be put into such a field."""
        if not secret.belongs_to(origin):
            here, hosts = urlsplit(origin).netloc or "a frame without a site", ", ".join(secret.hosts)
            insecure = urlsplit(origin).scheme == "http" and secret.belongs_to(f"https{origin[4:]}")
            why = "; without encryption it is sent nowhere" if insecure else ""
            raise ActionRefused(f"{secret.placeholder} may be typed on {hosts} only, and this is {here}{why}.")
        if not secret.may_enter(kind):
            wanted = " and ".join(_KINDS[one] for one in secret.fields)
            raise ActionRefused(f"{secret.placeholder} may be typed into {wanted} only, and this is another field.")

    def held_in(self, text: str) -> list[Secret]:
        """Those that a text holds: the clipboard's, for example."""
        return [self._by_name[name] for name in sorted(carried(self.finder, [text]) & self._by_name.keys())]

    def entered(self, text: str) -> None:
        """A page has got this text. From now on its secrets are looked for in what leaves."""
        fresh = {secret.name: secret for secret in self.held_in(text)}
        if fresh.keys() - self._entered.keys():
            self._entered = self._entered | fresh  # a thread may be reading the old ones (`gate`)
            self._leaving = Finder(self._entered.values())

    # ------------------------------------------------------------------------------------------------- out of a page

    @property
    def watching(self) -> bool:
        """Whether a page has got one, so that it could leave."""
        return bool(self._entered)

    def taken_away(self, url: str, *texts: str) -> str:
        """The placeholders of secrets that these texts would take to an address to which they do not belong."""
        foreign = [secret for secret in self._entered.values() if not secret.belongs_to(url)]
        if not foreign:
            return ""
        names = carried(self._leaving, texts)
        return ", ".join(secret.placeholder for secret in foreign if secret.name in names)

    def foreign(self, url: str) -> str:
        """The placeholders of all that are in the browser and do not belong there."""
        return ", ".join(secret.placeholder for secret in self._entered.values() if not secret.belongs_to(url))

    @property
    def socket_policy(self) -> str:
        """To where connections may be opened into which nobody can look, as a policy for the browser to keep: to sites
        to which all secrets belong. One that a page has handed on to another site's frame would leave there as well."""
        every = [set(secret.hosts) for secret in self._by_name.values()]
        shared = sorted(set.intersection(*every)) if every else []
        return " ".join(["connect-src http: https: data: blob: filesystem:", *map(socket_sources, shared)])

    def redact(self, text: str) -> str:
        return self.finder.redact(text)
