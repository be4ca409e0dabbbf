"""Several ranks on this machine, each a process: quickly, because they are forked from one that has imported torch."""

from __future__ import annotations

import multiprocessing
import os
import socket
import traceback
from collections.abc import Callable
from typing import Any

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["holotron.training.trainer", "holotron.training.rl.trainer", "tests.training.support"])


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


def on_ranks(count: int, work: Callable[..., Any], *arguments: Any, timeout: float = 240) -> list[Any]:
    """`work(*arguments)` in so many processes that know each other as torchrun's would; what each returned."""
    port = str(free_port())
    answers = _context.Queue()
    processes = [
        _context.Process(target=_rank, args=(rank, count, port, answers, work, arguments), daemon=False)
        for rank in range(count)
    ]
    for process in processes:
        process.start()
    try:
        found = dict(answers.get(timeout=timeout) for _ in processes)
    finally:
        for process in processes:
            process.join(10)
            process.kill()
    errors = [error for _, error in found.values() if error]
    assert not errors, "\n".join(errors)
    return [found[rank][0] for rank in range(count)]


def _rank(rank: int, count: int, port: str, answers: Any, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    import torch

    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count)}
    os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": port}
    try:
        answers.put((rank, (work(*arguments), "")))
    except BaseException:
        answers.put((rank, (None, f"rank {rank}: {traceback.format_exc()}")))
