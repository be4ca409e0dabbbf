"""Who finds whom: addresses of IPv6, and an entrance that listens everywhere and has replicas on other machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from holotron.fleet.replicas import Replica
from holotron.fleet.serving import Addresses
from tests.fleet.stubs import Stub, fleet, played


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_replicas_find_an_entrance_that_listens_everywhere(tmp_path: Path, host: str) -> None:
    """It is told to them by the address at which they see it: 0.0.0.0 would be themselves."""

    async def play() -> None:
        async with fleet(tmp_path, Stub(), flags=["--server.host", host, "--server.port", "8123"]) as (door, _):
            assert door._address(door.replicas.all()[0]) == "http://127.0.0.1:8123"
        async with fleet(tmp_path, Stub(), flags=["--server.host", "gpu-0", "--server.port", "8123"]) as (door, _):
            assert door._address(door.replicas.all()[0]) == "http://gpu-0:8123"

    played(play)


def test_an_address_of_ipv6_stands_in_brackets() -> None:
    (url,) = Addresses(["http://[fd77::10]:8000"])._urls
    assert url.hostname is not None and url.port is not None
    assert Replica("0", url.hostname, url.port, "key").url == "http://[fd77::10]:8000"
