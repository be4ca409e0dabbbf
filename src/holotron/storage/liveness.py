"""Whether a process still lives: for locks that it held and things that it left."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def started(pid: int) -> int | None:
    """When a process began, in the system's ticks; None if there is none. Numbers of processes are used again, this is
    not."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()  # the name before may hold anything
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def this_process() -> dict[str, Any]:
    """Enough to recognise it from another process, on any machine."""
    return {**_where(), "pid": os.getpid(), "started": started(os.getpid())}


def surely_gone(process: Mapping[str, Any]) -> bool:
    """It was one that we would see, and we do not. Of other machines and containers nobody here can tell."""
    here = _where()
    if not all(here.values()) or any(process.get(name) != value for name, value in here.items()):
        return False
    return started(int(process.get("pid") or 0)) != process.get("started")


def _where() -> dict[str, str]:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return {"host": socket.gethostname(), "boot": boot, "namespace": os.readlink("/proc/self/ns/pid")}
    except OSError:  # no Linux
        return {"host": socket.gethostname(), "boot": "", "namespace": ""}
