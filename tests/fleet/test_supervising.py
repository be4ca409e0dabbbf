"""Who looks after replicas: starts them again, gives up in time, says what to do; and evens out their load."""

from __future__ import annotations

import asyncio
import asyncio.base_subprocess
import contextlib
import os
import signal
from typing import Any

import pytest
import torch

from holotron.errors import ConfigError
from holotron.fleet import launching, moving, supervising
from holotron.fleet.homes import Homes
from holotron.fleet.launching import LocalProcess, Share, StartFailed, shares
from holotron.fleet.moving import Mover
from holotron.fleet.ray_place import connect
from holotron.fleet.replicas import Replica, Replicas
from holotron.fleet.serving import Addresses, serve_fleet
from holotron.fleet.supervising import Supervisor
from holotron.fleet.weights import FleetWeights
from holotron.server.layers import from_flags, resolve
from holotron.server.weights import process_group


class Failing:
    """Starts nothing, for one reason or another."""

    ours = True

    def __init__(self, *, hopeless: bool = False) -> None:
        self.tries, self._hopeless = 0, hopeless

    async def start(self, n: int) -> Any:
        self.tries += 1
        raise StartFailed("it ended with status 5: CUDA out of memory", hopeless=self._hopeless)

    async def close(self) -> None:
        return


@pytest.mark.parametrize(("hopeless", "tries"), [(False, supervising.MOST_FAILURES), (True, 1)])
def test_what_does_not_start_is_given_up(monkeypatch: pytest.MonkeyPatch, hopeless: bool, tries: int) -> None:
    pauses: list[float] = []
    real = asyncio.sleep

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await real(0)

    monkeypatch.setattr(supervising.asyncio, "sleep", sleep)

    async def run() -> None:
        async def looked(replica: Replica) -> None:
            return

        launcher = Failing(hopeless=hopeless)
        supervisor = Supervisor(launcher, Replicas(), "key", on_status=looked, on_death=lambda replica: None)
        await supervisor.keep(0)
        assert launcher.tries == tries
        assert pauses == sorted(pauses), "longer and longer"
        assert supervisor.problem(2) is None, "the other one may live"
        problem = str(supervisor.problem(1))
        assert "CUDA out of memory" in problem
        assert "without --replicas" in problem

    asyncio.run(run())


def test_how_one_ended_is_known_after_it_was_killed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """By somebody, and then by us, because its connections broke: its end was told as "status 255"."""

    async def run() -> str:
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), asyncio.subprocess.PIPE)
        process = await asyncio.create_subprocess_exec("sleep", "600", **pipes)
        running = LocalProcess(process, 0)
        os.kill(process.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):  # who waits for it was faster
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        running.kill()
        return await running.ended()

    monkeypatch.setattr(asyncio.base_subprocess.BaseSubprocessTransport, "kill", lambda self: pytest.fail("takes it"))
    assert asyncio.run(run()) == "it ended with signal SIGKILL"


def test_shares_of_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching.os, "sched_getaffinity", lambda pid: set(range(8)))
    assert shares(3, "cpu") == [Share(threads=2)] * 3
    assert shares(16, "cpu")[0].threads == 1
    with pytest.raises(ConfigError, match="start at most 64"):
        shares(65, "cpu")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,5,7")
    assert [share.gpu for share in shares(2, "cuda")] == ["2", "5"]
    assert shares(2, "cuda")[1].environment()["CUDA_VISIBLE_DEVICES"] == "5"
    with pytest.raises(ConfigError, match="3 can be seen"):
        shares(4, "cuda")
    with pytest.raises(ConfigError, match="say cuda"):
        shares(2, "cuda:1")


@pytest.mark.parametrize("address", ["gpu-0", "https://gpu-0:1", "http://gpu-0", "http://gpu-0:1/v1"])
def test_addresses_of_replicas(address: str) -> None:
    with pytest.raises(ConfigError, match="address of a replica"):
        Addresses([address])
    assert Addresses(["gpu-0:8000", "http://10.0.0.1:8001"])
    with pytest.raises(ConfigError, match="named twice"):
        Addresses(["gpu-0:8000", "http://gpu-0:8000"])


def test_a_transport_that_this_torch_has_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said before anybody is asked to wait for the others."""
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: False)
    with pytest.raises(ConfigError, match="this torch has no NCCL"):
        FleetWeights("http://127.0.0.1:1", "key", "nccl")
    with pytest.raises(ConfigError, match="this torch has no NCCL"):
        process_group("127.0.0.1", 1, 0, 2, "nccl")


@pytest.mark.parametrize(
    ("replicas", "ray", "said"),
    [
        (0, None, "at least one"),
        (10**6, None, "at most 1000"),
        (["gpu-0:8000"], "auto", "leave out one"),
        (["gpu-0:8000"], None, "have a fleet.key"),
    ],
)
def test_fleets_that_cannot_be(replicas: int | list[str], ray: str | None, said: str) -> None:
    settings = resolve(from_flags(["--model.source", "tiny", "--server.port", "0"])[0]).settings
    with pytest.raises(ConfigError, match=said):
        serve_fleet(settings, None, replicas, ray=ray)


@pytest.mark.parametrize(("address", "said"), [("127.0.0.1:1", "no Ray cluster at"), ("ray://h:10001", "own")])
def test_ray_that_is_not_there(address: str, said: str) -> None:
    if pytest.importorskip("ray").is_initialized():
        pytest.skip("this process is connected to a cluster already")
    with pytest.raises(ConfigError, match=said):
        connect(address)


def test_rebalancing_waits_until_it_is_sure_and_does_not_swing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        replicas, homes = Replicas(), Homes()
        hot, cool = (Replica(name, "127.0.0.1", 1, "key") for name in ("hot", "cool"))
        for one in (hot, cool):
            one.stage = "ready"
            replicas.put(one)
        for n in range(10):
            homes.settle("me", "session", str(n), hot)
        mover = Mover(replicas, homes)
        moved: list[Any] = []

        async def move(home: Any, to: Replica, why: str) -> bool:
            moved.append(home)
            homes.relocate(home, to)
            return True

        monkeypatch.setattr(mover, "move", move)
        hot.load, cool.load = 3.0, 2.0
        for _ in range(10):
            assert await mover.balance() == 0, "that is not much of a difference"
        hot.load, cool.load = 9.0, 1.0
        assert [await mover.balance() for _ in range(moving.SUSTAINED)] == [0, 0, 4]
        assert len(homes.of(hot)) == 6
        hot.load, cool.load = 1.0, 9.0
        for _ in range(10):
            await mover.balance()
        assert len(moved) == 4, "those that came do not go back at once"
        hot.load, cool.load = 9.0, 1.0
        await mover.balance()
        hot.load = 1.0  # just a moment
        await mover.balance()
        hot.load = 9.0
        assert [await mover.balance() for _ in range(2)] == [0, 0]

    asyncio.run(run())
