"""What a file of rules says of a request, and what is wrong with a file."""

from __future__ import annotations

import pytest

from holotron.envs.effects.question import Kind
from holotron.envs.effects.rules import load_rules, parse_rules
from holotron.errors import ConfigError

SHOP = "https://shop.example"


def verdict(rules, url, method="POST", kind=Kind.REQUEST):
    return parse_rules(rules).verdict(kind, method, url)


@pytest.mark.parametrize(
    ("rule", "url", "matches"),
    [
        ({"origin": SHOP}, f"{SHOP}/x", True),
        ({"origin": SHOP}, "http://shop.example/x", False),
        ({"origin": SHOP}, "https://www.shop.example/x", False),
        ({"origin": SHOP}, "https://shop.example.evil.org/x", False),
        ({"origin": SHOP}, "https://shop.example@evil.org/x", False),
        ({"origin": SHOP}, "wss://shop.example/x", True),
        ({"origin": "shop.example"}, "http://www.shop.example/x", True),
        ({"origin": "https://straße.example"}, "https://xn--strae-oqa.example/x", True),
        ({"origin": "straße.example"}, "https://www.xn--strae-oqa.example/x", True),
        ({"origin": "*.shop.example"}, f"{SHOP}/x", False),
        ({"origin": SHOP, "path": "/cart/*"}, f"{SHOP}/cart/add?x=1", True),
        ({"origin": SHOP, "path": "/cart/*"}, f"{SHOP}/cart/add/all", False),
        ({"origin": SHOP, "path": "/cart/**"}, f"{SHOP}/cart/add/all", True),
        ({"origin": SHOP, "path": "/cart/**"}, f"{SHOP}/cart/..%2forder", False),
        ({"origin": SHOP, "path": "/cart/**"}, f"{SHOP}/cart//order", False),
        ({"origin": SHOP, "path": "/cart/**"}, f"{SHOP}/cart/..;/order", False),
        ({"origin": SHOP, "path": "/cart"}, f"{SHOP}/Cart", False),
        ({"origin": SHOP, "method": "put"}, f"{SHOP}/x", False),
        ({"origin": SHOP, "method": ["PUT", "POST"]}, f"{SHOP}/x", True),
        ({"origin": SHOP, "kind": "field"}, f"{SHOP}/x", False),
    ],
)
def test_what_opens_matches_to_the_letter(rule, url, matches):
    assert (verdict({"always": [rule]}, url) == "always") is matches


@pytest.mark.parametrize(
    ("origin", "url"),
    [
        (SHOP, "https://shop.example./x"),
        ("shop.example", "https://www.shop.example./x"),
        ("https://bücher.example", "https://xn--bcher-kva.example/x"),
        ("bücher.example", "https://www.xn--bcher-kva.example/x"),
        ("https://Shop.Example", "https://shop.example/x"),
    ],
)
def test_a_host_has_several_spellings(origin, url):
    assert verdict({"never": [{"origin": origin}]}, url) == "never"


@pytest.mark.parametrize("path", ["/order", "/Order/", "//order", "/%6Frder", "/order/", "/order;x=1", "/order;/"])
def test_what_closes_matches_generously(path):
    assert verdict({"never": [{"origin": SHOP, "path": "/order"}]}, SHOP + path) == "never"


def test_the_strictest_counts_in_any_order():
    rules = {
        "always": [{"origin": SHOP}],
        "never": [{"origin": SHOP, "path": "/pay"}],
        "ask": [{"origin": SHOP, "path": "/p*"}],
    }
    assert verdict(rules, f"{SHOP}/pay") == "never"
    assert verdict(rules, f"{SHOP}/post") == "ask"
    assert verdict(rules, f"{SHOP}/x") == "always"
    assert verdict(rules, "https://else.example/x") is None
    assert verdict(rules, f"{SHOP}/x", kind=Kind.FIELD) is None  # a password is another matter


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[allow]]\norigin='a.b'", "there are [[always]]"),
        ("[always]\norigin='a.b'", "two brackets"),
        ("[[always]]\npath='/x'", "needs an origin"),
        ("[[always]]\norigin='https://a.b/x'", "the path apart"),
        ("[[always]]\norigin='*'", "host pattern"),
        ("[[always]]\norigin='a.b'\npath='x'", "slash"),
        ("[[always]]\norigin='a.b'\nmethod=3", "method"),
        ("[[always]]\norigin='a.b'\nkind='all'", "no kind"),
        ("[[always]]\norigin='a.b'\nhost='x'", "'host'"),
        ("not toml", "not a TOML file"),
    ],
)
def test_mistakes_are_named(tmp_path, text, words):
    file = tmp_path / "rules.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as error:
        load_rules(file)
    assert words in str(error.value)
    with pytest.raises(ConfigError, match="cannot be read"):
        load_rules(tmp_path / "none.toml")
