"""Public or not: the one judgement that the browser's guard and the server's image fetcher share."""

from __future__ import annotations

import pytest

from holotron.addresses import is_public, plain_host, split_login
from holotron.envs.network import Blocked, NetworkPolicy


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.0.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "::1",
        "fe80::1%eth0",
        "fc00::1",
        "fec0::1",  # site-local, given up long ago, still routed
        "feff::1",
        "::ffff:169.254.169.254",
        "::127.0.0.1",  # an address of the first kind of embedding
        "2002:a9fe:a9fe::",  # 6to4
        "64:ff9b::a9fe:a9fe",  # NAT64 of 169.254.169.254
        "64:ff9b::7f00:1",
        "64:ff9b:1::1",  # NAT64 for private use
        "2001:0:1:1:1:1:5601:5601",  # Teredo of 169.254.169.254
        "192.0.0.192",  # the metadata service of Oracle's cloud, which older Pythons call global
        "64:ff9b::c000:c0",
        "168.63.129.16",  # Azure's
        "3fff::1",  # documentation
    ],
)
def test_private(address: str) -> None:
    assert not is_public(address)
    with pytest.raises(Blocked):
        NetworkPolicy().check_address("name.example", 80, address)
    NetworkPolicy(private=True).check_address("name.example", 80, address)


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "168.63.129.17", "2606:2800:220:1::1", "64:ff9b::5db8:d822", "::ffff:8.8.8.8"]
)
def test_public(address: str) -> None:
    assert is_public(address)
    NetworkPolicy().check_address("name.example", 80, address)


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("WWW.Example.org.", "www.example.org"),
        ("Müller.example", "xn--mller-kva.example"),
        ("mu\u0308ller.example", "xn--mller-kva.example"),  # as file systems and keyboards of some machines write it
        ("straße.example", "xn--strae-oqa.example"),  # not strasse.example
        ("例え。jp", "xn--r8jz45g.jp"),
        ("*.müller.example", "*.xn--mller-kva.example"),
        ("::1", "::1"),
    ],
)
def test_names_as_browsers_write_them(written: str, sent: str) -> None:
    assert plain_host(written) == plain_host(sent) == sent


@pytest.mark.parametrize(
    ("url", "bare", "login"),
    [
        ("https://ann:pw@shop.example/x", "https://shop.example/x", ("ann", "pw")),
        ("https://a@b:p%40w@host:8/", "https://host:8/", ("a@b", "p@w")),
        ("ann:pw@host", "host", ("ann", "pw")),
        ("https://shop.example?mail=ann@mail.example", "https://shop.example?mail=ann@mail.example", None),
        ("https://shop.example/@ann#x@y", "https://shop.example/@ann#x@y", None),
        ("about:blank", "about:blank", None),
    ],
)
def test_a_login_in_an_address(url: str, bare: str, login: tuple[str, str] | None) -> None:
    assert split_login(url) == (bare, login)
