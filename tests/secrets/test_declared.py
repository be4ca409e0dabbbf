"""Where a secret may be typed, as the user has said it."""

from __future__ import annotations

import pytest

from holotron.envs.hands import ActionRefused
from holotron.envs.secrets import Secret, Secrets, parse_secret
from holotron.errors import ConfigError


def belongs(host: str, url: str) -> bool:
    return Secret("code", "hunter2", hosts=(host,)).belongs_to(url)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("bank.example", "https://bank.example/login"),
        ("bank.example", "https://www.bank.example:8443"),
        ("Bank.Example", "https://bank.example"),
        ("bank.example:8443", "https://bank.example:8443"),
        ("https://bank.example", "https://bank.example"),
        ("http://intranet", "http://intranet/x"),
        ("http://intranet", "https://intranet/x"),
        ("localhost", "http://localhost:3000"),
        ("127.0.0.1", "http://127.0.0.1:3000"),
        ("[::1]:80", "http://[::1]/"),
        ("münchen.example", "https://xn--mnchen-3ya.example"),
        ("straße.example", "https://xn--strae-oqa.example"),
        ("bank.example", "wss://bank.example/socket"),
    ],
)
def test_its_own_site(host: str, url: str) -> None:
    assert belongs(host, url)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("bank.example", "http://bank.example"),  # anybody on the way could read it
        ("bank.example", "ws://bank.example"),
        ("https://bank.example", "http://bank.example"),
        ("bank.example", "https://evilbank.example"),
        ("bank.example", "https://bank.example.evil.com"),
        ("bank.example", "https://bank.example@evil.com"),
        ("bank.example", "https://evil.com/bank.example"),
        ("bank.example", "about:blank"),
        ("bank.example", "data:text/html,bank.example"),
        ("bank.example", "blob:https://bank.example/1"),
        ("bank.example", "null"),
        ("bank.example", ""),
        ("bank.example", "https://bank.example:x"),
        ("bank.example:8443", "https://bank.example"),
        ("0.0.1", "https://127.0.0.1"),
        ("www.bank.example", "https://bank.example"),
    ],
)
def test_other_sites(host: str, url: str) -> None:
    assert not belongs(host, url)


def test_a_field_of_another_kind() -> None:
    secrets = Secrets(
        [Secret("code", "hunter2", hosts=("bank.example",)), Secret("pin", "4711", ("b.example",), ("any",))]
    )
    assert secrets.fill("a <secret:code>", "https://bank.example", "password") == "a hunter2"
    assert secrets.fill("<secret:pin>", "https://b.example", "") == "4711"
    for text, origin, kind, words in (
        ("<secret:code>", "https://bank.example", "", "fields for passwords only"),
        ("<secret:code>", "https://bank.example", "payment", "fields for passwords only"),
        ("<secret:code>", "http://bank.example", "password", "without encryption"),
        ("<secret:code>", "https://b.example", "password", "bank.example only, and this is b.example"),
        ("<secret:code>", "null", "password", "a frame without a site"),
        ("<secret:no>", "https://b.example", "password", "no secret 'no'; there are: code, pin"),
    ):
        with pytest.raises(ActionRefused, match=words):
            secrets.fill(text, origin, kind)


def test_wrong_secrets_are_errors_that_say_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "correct horse")
    monkeypatch.setenv("SHORT", "abc")
    secret = parse_secret("pw=SHOP_PASSWORD@shop.example,http://pay.example:8080")
    assert secret.hosts == ("shop.example", "http://pay.example:8080") and secret.fields == ("password",)
    assert parse_secret("user:any=SHOP_PASSWORD@shop.example").fields == ("any",)
    assert "correct" not in repr(secret)
    for spec, words in (
        ("pw", "NAME=VARIABLE@HOST"),
        ("pw=NO_SUCH@a.b", "NO_SUCH"),
        ("pw=SHORT@a.b", "too short"),
        ("pw:letters=SHOP_PASSWORD@a.b", "'letters' of the secret 'pw' is no kind of field: password, payment, any"),
        ("pw=SHOP_PASSWORD@ftp://a.b", "is no site"),
        ("pw=SHOP_PASSWORD@https://a.b/path", "is no site"),
    ):
        with pytest.raises(ConfigError, match=words):
            parse_secret(spec)
    for wrong in ({"hosts": ()}, {"hosts": "shop.example"}, {"hosts": ("a.b",), "fields": "any"}):
        with pytest.raises(ConfigError):
            Secret("pw", "hunter2", **wrong)
    with pytest.raises(ConfigError, match="two secrets"):
        Secrets([secret, secret])


def test_sockets_go_to_where_all_secrets_belong() -> None:
    one, other = Secret("a", "hunter2", ("a.example", "c.example")), Secret("b", "hunter3", ("b.example", "c.example"))
    assert Secrets([one]).socket_policy.endswith(
        "filesystem: wss://a.example:* wss://*.a.example:* wss://c.example:* wss://*.c.example:*"
    )
    assert Secrets([one, other]).socket_policy.endswith("filesystem: wss://c.example:* wss://*.c.example:*")
    local = Secrets([Secret("a", "hunter2", ("127.0.0.1:80",))])
    assert local.socket_policy.endswith("filesystem: wss://127.0.0.1:80 ws://127.0.0.1:80")
