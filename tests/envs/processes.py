"""Looking at the browser's processes from outside."""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil


def browsers_under(pid: int) -> list[psutil.Process]:
    """The browser programs (not their children) started by a process."""
    return [p for p in _below(pid) if "chrom" in _name(p) and "--type=" not in _command(p)]


def renderers_under(pid: int) -> list[psutil.Process]:
    return [p for p in _below(pid) if "--type=renderer" in _command(p)]


def zygotes_under(pid: int) -> list[psutil.Process]:
    return [p for p in _below(pid) if "--type=zygote" in _command(p)]


def eventually(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return condition()


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [p for p in processes if p.is_running() and _status(p) != psutil.STATUS_ZOMBIE]


def _below(pid: int) -> list[psutil.Process]:
    return [p for p in psutil.Process(pid).children(recursive=True) if _status(p) != psutil.STATUS_ZOMBIE]


def _status(process: psutil.Process) -> str:
    try:
        return process.status()
    except psutil.NoSuchProcess:
        return psutil.STATUS_ZOMBIE


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return ""


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return ""
