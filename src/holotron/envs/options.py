"""What a browser session is opened with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from playwright.async_api import HttpCredentials

from holotron.envs.chromium import WITH_SECRETS
from holotron.envs.effects.rules import Rules
from holotron.envs.network import NetworkPolicy
from holotron.envs.secrets import Secret, Secrets
from holotron.envs.secrets.declared import SHORTEST
from holotron.envs.tab import TYPED, Display


@dataclass(frozen=True, slots=True)
class Login:
    """What a site is told that asks for it the old way, with a box of the browser's."""

    origin: str
    user: str
    password: str = field(repr=False)

    @property
    def credentials(self) -> HttpCredentials:
        return {"username": self.user, "password": self.password, "origin": self.origin}


@dataclass(frozen=True, slots=True)
class SessionOptions:
    display: Display = field(default_factory=Display)
    network: NetworkPolicy = field(default_factory=NetworkPolicy)
    downloads: Path | None = None  # a folder, in which each session gets its own; None refuses downloads
    locale: str = "en-US"
    timezone: str = "UTC"
    user_agent: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)  # sent with every request
    typed: int = TYPED  # characters typed key by key, for pages that listen to keys; longer texts are inserted at once
    secrets: tuple[Secret, ...] = ()
    login: Login | None = None
    profile: Path | None = None  # cookies and storage of a session before, read if it is there; written at the end
    rules: Rules | None = None  # hold what would change the world until somebody has said yes; None holds nothing

    @property
    def held(self) -> bool:
        """Whether requests are looked at before they leave: those of a whole browser, so the session has its own."""
        return self.rules is not None or bool(self.secrets)

    @property
    def flags(self) -> tuple[str, ...]:
        """What the browser is to be started with for such sessions."""
        return (WITH_SECRETS,) if self.secrets else ()

    def keep_secrets(self) -> Secrets:
        """For a session that begins: it knows what must not be told."""
        password = self.login.password if self.login is not None else ""
        return Secrets(self.secrets, hidden={"login": password} if len(password) >= SHORTEST else {})
