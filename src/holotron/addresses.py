"""Internet addresses: which are public, on which the browser's guard and the server's image fetcher have to agree; how
browsers write names; and addresses that hold a password.

is_public("93.184.216.34")          # True
is_public("64:ff9b::a9fe:a9fe")     # False: 169.254.169.254, seen through a translator
plain_host("Müller.example.")       # 'xn--mller-kva.example'
split_login("https://ann:pw@shop.example/x")        ('https://shop.example/x', ('ann', 'pw'))
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from urllib.parse import unquote

_LOGIN = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)?(?P<login>[^/?#\\]*)@")

# Where a translator puts an IPv4 address into an IPv6 one (RFC 6052), and the same for private use (RFC 8215).
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_PRIVATE_NAT64 = ipaddress.ip_network("64:ff9b:1::/48")

# What `ipaddress` takes for global, in all versions of Python or in older ones.
_INSIDE = [
    ipaddress.ip_network(network)
    for network in (
        "192.0.0.0/24",  # for protocols (RFC 6890); Oracle's cloud tells machines their credentials at 192.0.0.192
        "168.63.129.16/32",  # what machines in Azure are told about themselves
        "3fff::/20",  # for documentation (RFC 9637)
    )
]


def is_public(text: str) -> bool:
    """Whether an address belongs to the open internet; one that wraps another is judged by the inner one."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(str(inner))
        if address.is_site_local or address in _PRIVATE_NAT64:  # fec0::/10: given up, but routers still know it
            return False
    if any(address in network for network in _INSIDE):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def in_url(host: str) -> str:
    """A host as it stands in an address: one of IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host


def plain_host(name: str) -> str:
    """A host's name as browsers send it, so that names can be compared: small letters, those of other alphabets as
    codes, no dot at the end. Python's own `idna` takes straße for strasse, which is another site."""
    name = unicodedata.normalize("NFKC", name).lower().replace("。", ".").removesuffix(".")
    return ".".join(
        label if label.isascii() else f"xn--{label.encode('punycode').decode()}" for label in name.split(".")
    )


def split_login(url: str) -> tuple[str, tuple[str, str] | None]:
    """An address without the user and password that stand in it, and these. Only the first is stored, shown or told to
    a model."""
    match = _LOGIN.match(url)
    if match is None:
        return url, None
    user, _, password = match["login"].partition(":")
    return f"{match['scheme'] or ''}{url[match.end() :]}", (unquote(user), unquote(password))
