"""What came of going to an address."""

from __future__ import annotations

import re
from dataclasses import dataclass

from holotron.envs.network import Guard
from holotron.envs.pool import first_line

STILL_LOADING = "The page is still loading."
HOW_TO_ALLOW = "list it as allowed (--allow HOST), or allow private addresses (--private)"
_IN_WORDS = {  # of Chromium's reasons, those that people meet
    "ERR_TOO_MANY_REDIRECTS": "it redirects in a circle",
    "ERR_TUNNEL_CONNECTION_FAILED": "no connection to it, or to where it leads, could be made",
    "ERR_EMPTY_RESPONSE": "it closed the connection without an answer",
    "ERR_CONNECTION_RESET": "it broke the connection off",
    "ERR_CERT_AUTHORITY_INVALID": "nobody whom the browser trusts has signed its certificate; it may be self-signed",
    "ERR_CERT_DATE_INVALID": "its certificate is out of date",
    "ERR_CERT_COMMON_NAME_INVALID": "its certificate is for another name",
    "ERR_SSL_PROTOCOL_ERROR": "it does not speak https; try http://",
    "ERR_UNSAFE_PORT": "browsers do not open this port",
    "ERR_INVALID_AUTH_CREDENTIALS": "user and password are wrong",
}


def why_no_page(error: Exception) -> str:
    """In words, of what Playwright raises; empty for a download and for an answer without a page."""
    found = re.search(r"net::(\w+)|Download is starting", str(error))
    if found is None:
        return first_line(error)
    reason = found[1] or "ERR_ABORTED"
    if reason == "ERR_ABORTED":
        return ""
    return f"{_IN_WORDS[reason]} ({reason})" if reason in _IN_WORDS else reason


@dataclass(frozen=True, slots=True)
class Arrival:
    """Empty texts where the site itself has answered."""

    unreachable: str = ""  # why there is no page of the site's
    refused: str = ""  # why the address itself must not be reached; what is shown is the guard's page
    note: str = ""  # for the agent

    @classmethod
    def of(cls, url: str, landed: str, reason: str, guard: Guard) -> Arrival:
        """`landed`: which address has answered, after all redirects. `reason`: the browser's, if it shows no page."""
        if refused := guard.why_refused(url):
            return cls(reason, refused)
        if why := guard.why_unreachable(url):
            return cls(why, note=f"{url} cannot be reached: {why}.")
        if refused := guard.why_refused(landed):
            return cls(f"it leads to {landed}, and {refused}; {HOW_TO_ALLOW}")
        if why := guard.why_unreachable(landed):
            note = f"{url} leads to {landed}, which cannot be reached: {why}."
            return cls(f"it leads to {landed}, and {why}", note=note)
        if reason and (blocked := guard.take_blocked()):  # encrypted: then nothing has answered
            note = " ".join(f"Blocked: {one}." for one in blocked)
            return cls(f"it leads elsewhere, and {blocked[-1]}; {HOW_TO_ALLOW}", note=note)
        return cls(reason)
