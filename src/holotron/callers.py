"""Who talks to a server on this machine: by the name it is called by, and by what a browser says of the page that asks.

A server on 127.0.0.1 is private only until its user's browser opens a hostile page. Such a page can have its own name
resolve to 127.0.0.1 (DNS rebinding): then the `Host` header names a site that is not ours. Or it can post a form: then
`Origin` or `Sec-Fetch-Site` says so.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence


class HostCheck:
    """Addresses cannot be had by rebinding, and neither can names without a dot, which the public DNS does not have."""

    def __init__(self, listening: str, allowed: Sequence[str] = ()) -> None:
        self._allowed = [name.lower().rstrip(".") for name in (listening, socket.gethostname(), *allowed)]

    def allows(self, host: bytes | None) -> bool:
        if host is None:  # HTTP/1.0: no browser
            return True
        name = host.decode("latin-1").strip().lower()
        name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
        name = name.rstrip(".")
        if name.endswith(".localhost") or "." not in name:
            return bool(name)
        if any(name == one or (one.startswith("*.") and name.endswith(one[1:])) for one in self._allowed):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def from_another_site(host: bytes | None, origin: bytes | None, fetch_site: bytes | None) -> bool:
    """Whether a page of another site has its reader's browser ask this, by the headers that only the browser sets."""
    same = origin is None or origin.partition(b"://")[2].lower() == (host or b"").lower()
    return not same or fetch_site not in (None, b"same-origin", b"none")
