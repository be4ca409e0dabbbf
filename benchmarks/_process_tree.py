"""CPU and memory of this process and everything it started: the honest cost of driving browsers."""

from __future__ import annotations

import psutil


def processes() -> list[psutil.Process]:
    own = psutil.Process()
    return [own, *own.children(recursive=True)]


def cpu_seconds() -> float:
    total = 0.0
    for process in processes():
        try:
            used = process.cpu_times()
            total += used.user + used.system
        except psutil.NoSuchProcess:
            continue
    return total


def busy_seconds() -> float:
    """Of all cores, whoever used them."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0))


def memory_gb() -> float:
    """Proportional set size: shared pages are counted once in all, as resident size would not."""
    total = 0
    for process in processes():
        try:
            total += process.memory_full_info().pss
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return total / 1e9
