"""Keys: no way to leave the server open by mistake; and who may talk to it at all."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from holotron.callers import HostCheck
from holotron.errors import ConfigError
from holotron.server.keys import Keys, api_keys, read_keys
from holotron.server.layers import from_environment, from_flags, resolve
from holotron.server.run import warn_if_open
from holotron.server.service import Service
from holotron.server.settings import Settings
from tests.server.inside import Inside, inside


def keys_of(*words: str, **environment: str) -> tuple[str, ...]:
    named = {f"HOLOTRON_SERVER__{name.upper()}": value for name, value in environment.items()}
    return api_keys(resolve(from_environment(named), from_flags(words)[0]).settings.server)


def test_a_file_with_comments_and_blank_lines(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# production keys\n\n  first-key  \r\n\t\n   # another comment\nsecond#key\nfirst-key\n")
    assert keys_of("--server.api_key_file", str(file)) == ("first-key", "second#key")
    keys = Keys(read_keys(file))
    for word in ("#", "production", "keys", "# production keys", "", "first-key second#key"):
        assert keys.owner(f"Bearer {word}".encode()) is None
    assert keys.owner(b"Bearer first-key") != keys.owner(b"Bearer second#key")
    file.write_text("\ufeff# written by an editor that marks its files\nfirst-key\n")
    assert read_keys(file) == ["first-key"]
    assert keys.owner(b"bearer  first-key ") is not None  # the scheme's letters may be small
    assert keys.owner(b"Basic first-key") is None
    assert keys.owner(None) is None


@pytest.mark.parametrize("content", ["", "\n\n", "# only a comment\n", "   \n#\n"])
def test_an_empty_file_is_a_mistake(tmp_path: Path, content: str) -> None:
    file = tmp_path / "keys"
    file.write_text(content)
    with pytest.raises(ConfigError, match=r"server.open = true"):
        keys_of("--server.api_key_file", str(file))
    assert keys_of("--server.api_key_file", str(file), "--server.open") == ()


@pytest.mark.parametrize("value", ["", "[]", " ", ",", "none", "[ ]"])
def test_an_empty_list_is_a_mistake(value: str) -> None:
    with pytest.raises(ConfigError, match=r"name no key at all"):
        keys_of(api_keys=value)
    assert keys_of("--server.open", api_keys=value) == ()


def test_lists_as_json_and_with_commas() -> None:
    assert keys_of(api_keys='["k1"]') == ("k1",)
    assert keys_of(api_keys='["k1", "k2"]') == ("k1", "k2")
    assert keys_of(api_keys="k1, k2,") == ("k1", "k2")


@pytest.mark.parametrize("value", ['["k1"', "[1]", '["a b"]', '["a\\nb"]', '[""]', '["schlüssel"]', '{"a": 1} x'])
def test_what_is_no_key_is_refused_without_showing_it(value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        keys_of(api_keys=value)
    assert "a b" not in str(caught.value)
    assert "schl" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "words").write_text("fine\ntwo words\n")
    bad = {"none": "there is no file", "binary": "not a text file", "words": "line 2", ".": "read"}
    for name, message in bad.items():
        with pytest.raises(ConfigError, match=message) as caught:
            keys_of("--server.api_key_file", str(tmp_path / name))
        assert "two words" not in str(caught.value)


def test_open_and_keys_contradict_each_other() -> None:
    with pytest.raises(ConfigError, match="leave out one of the two"):
        keys_of("--server.open", "--server.api_keys", "k")


def test_a_server_open_to_the_network_says_so(caplog: pytest.LogCaptureFixture) -> None:
    def warned(address: str, *flags: str) -> bool:
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            warn_if_open(Service(resolve(from_flags(flags)[0]).settings), address)
        return "no API keys" in caplog.text

    assert warned("0.0.0.0")
    assert warned("::")
    assert warned("192.168.1.5")
    assert not warned("127.0.0.1")
    assert not warned("::1")
    assert not warned("0.0.0.0", "--server.api_keys", "k")
    assert not warned("0.0.0.0", "--server.open")


# ------------------------------------------------------------------------------------------------ hosts and pages


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("127.0.0.1:8000", True),
        ("localhost:8000", True),
        ("LOCALHOST", True),
        ("app.localhost", True),
        ("[::1]:8000", True),
        ("[::ffff:127.0.0.1]", True),
        ("10.1.2.3:8000", True),
        ("gpu-box:8000", True),  # the public DNS has no names without a dot
        ("model.internal:8000", True),  # listed
        ("a.lab.example", True),
        ("lab.example", False),
        ("evil.example", False),
        ("evil.example.:8000", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("", False),
    ],
)
def test_hosts(host: str, allowed: bool) -> None:
    assert HostCheck("127.0.0.1", ["model.internal", "*.lab.example"]).allows(host.encode()) is allowed


@pytest.fixture(scope="module")
def bare() -> Iterator[Inside]:
    """Without keys."""
    with inside("--server.metrics_key", "for-prometheus") as server:
        yield server


def test_a_rebound_name_gets_nothing(bare: Inside) -> None:
    for method, path in (("GET", "/v1/models"), ("GET", "/v1/sessions"), ("POST", "/v1/chat/completions")):
        answer = httpx.request(method, bare.url + path, headers={"host": "rebound.example"})
        assert answer.status_code == 403
        assert answer.json()["error"]["code"] == "host_not_allowed"
    assert httpx.get(f"{bare.url}/v1/models", headers={"host": "localhost"}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "http://evil.example", "sec-fetch-site": "none", "content-type": "application/json"},
    ],
)
def test_pages_of_other_sites_change_nothing(bare: Inside, headers: dict[str, str]) -> None:
    for method, path in (("POST", "/v1/sessions"), ("DELETE", "/v1/sessions/x"), ("POST", "/v1/chat/completions")):
        answer = httpx.request(method, bare.url + path, headers=headers)
        assert answer.status_code == 403, answer.text
        assert answer.json()["error"]["code"] == "cross_site_request"
    assert httpx.get(f"{bare.url}/v1/sessions").json()["data"] == []


def test_a_page_of_our_own_may(bare: Inside) -> None:
    own = {"origin": bare.url, "sec-fetch-site": "same-origin"}
    assert bare.post("/v1/sessions", {"id": "own"}, headers=own).status_code == 200
    assert httpx.delete(f"{bare.url}/v1/sessions/own", headers=own).status_code == 200


def test_metrics_may_want_a_key(bare: Inside) -> None:
    assert httpx.get(f"{bare.url}/metrics").status_code == 401
    assert httpx.get(f"{bare.url}/metrics", headers={"authorization": "Bearer wrong"}).status_code == 401
    right = httpx.get(f"{bare.url}/metrics", headers={"authorization": "Bearer for-prometheus"})
    assert "holotron_sessions_open" in right.text
    assert httpx.get(f"{bare.url}/health/live").status_code == 200
    assert "for-prometheus" not in repr(bare.service.settings)
    assert Settings().server.metrics_key is None


def test_without_a_key_of_their_own_metrics_are_kept_from_rebound_names() -> None:
    with inside() as server:
        for host, status in (("rebound.example", 403), ("localhost", 200), ("10.1.2.3:8000", 200), ("holotron", 200)):
            answer = httpx.get(f"{server.url}/metrics", headers={"host": host})
            assert answer.status_code == status, (host, answer.text)
        assert httpx.get(f"{server.url}/health/live", headers={"host": "rebound.example"}).status_code == 200
    with inside("--server.api_keys", "alice") as server:  # as before: open, to whatever name people give it
        assert httpx.get(f"{server.url}/metrics", headers={"host": "model.example"}).status_code == 200
